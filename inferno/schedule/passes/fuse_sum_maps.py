"""On a GPU, fuse small maps of a reduction's results (a mean's quotient, the reciprocal root of a variance, the logarithm of a sum of exponentials) into the
kernel that computes these, or combines their chunks: a launch less each.

``fuse-reductions`` does so for a map of one sum whose length is known.  What ``merge-variances`` and ``merge-softmaxes`` make has several results, and
``hoist-vectors`` makes such maps later.
"""

from inferno.mlir import func, ir, users, walk
from inferno.passes.generics import PARALLEL, inputs, is_elementwise, kinds, maps
from inferno.passes.programs import callee, operations_in
from inferno.schedule.analysis.accesses import sink_constants
from inferno.schedule.assign import is_for
from inferno.schedule.passes.behind_sums import put_behind
from inferno.schedule.passes.calls import empty_like, generics_of, in_order, is_open, tell_sources, tensors_of
from inferno.schedule.passes.edges import edges_by_symbols
from inferno.schedule.passes.merge_calls import joint_kernel
from inferno.schedule.passes.rewrite import merge_in, rewrite_calls
from inferno.target import Target, find_target


def fuse_sum_maps(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        return rewrite_calls(main, lambda call: _makes_sums(call, kernels, machine) and _fuse(module, kernels, call, machine))

    merge_in(module, merge)


def _makes_sums(call: ir.Operation, kernels: dict[str, func.FuncOp], target: Target) -> bool:
    """Whether a call is of one reduction, maybe with a map of its results behind it, and a map of what it gives can be part of it."""
    kernel = kernels.get(callee(call))
    generics = generics_of(kernel) if is_open(kernel) else []
    if not 1 <= len(generics) <= 2 or set(kinds(generics[0])) == {PARALLEL}:
        return False
    after = generics[1] if len(generics) == 2 else None
    if after is not None and not (_is_plain(after) and all(v in list(generics[0].results) for v in inputs(after))):
        return False
    last = operations_in(kernel)[-1]
    if list(last.operands) != list((after or generics[0]).results) or not any(_reads_only(u, call, kernels) for r in call.results for u in users(r)):
        return False
    return is_for("reductions", kernel, target)


def _is_plain(generic: ir.Operation) -> bool:
    """Whether an operation goes over its operands, which are alike, element by element."""
    identity = ir.AffineMap.get_identity(len(kinds(generic)))
    return is_elementwise(generic) and all(m == identity for m in maps(generic)) and sink_constants(generic, tables=True)


def _reads_only(reader: ir.Operation, call: ir.Operation, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether a call is a map of another one's results and of sizes alone, of each point by itself."""
    kernel = kernels.get(callee(reader)) if reader.name == "func.call" else None
    generics = generics_of(kernel) if is_open(kernel) else []
    if len(generics) != 1 or not _is_plain(generics[0]) or any(v not in list(call.results) for v in tensors_of(reader)):
        return False
    return all(isinstance(v, ir.BlockArgument) for v in inputs(generics[0])) and not walk(generics[0], "tensor.extract", "scf.if", "linalg.index")


def _fuse(module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, target: Target) -> bool:
    """Let one reader of sums be part of their kernel; whether that is the same generator's then."""
    reader = in_order({u for r in call.results for u in users(r) if _reads_only(u, call, kernels)})[0]
    edges = edges_by_symbols([call, reader], views=False)
    if edges is None:
        return False
    kernel = joint_kernel(module, kernels, edges)
    sums, *behind = generics_of(kernel)
    if not put_behind(kernel, [sums], behind) or not is_for("reductions", kernel, target):
        kernel.operation.erase()
        return False
    kernels[kernel.name.value] = kernel
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp(kernel, [*edges.captured, *empty_like(edges.exported)]).operation
    tell_sources(new, edges.calls)
    for value, result in zip(edges.exported, new.results):
        value.replace_all_uses_with(result)
    reader.erase()
    call.erase()
    return True
