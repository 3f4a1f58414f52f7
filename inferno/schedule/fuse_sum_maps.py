"""On a GPU, let small maps of what sums come to (a mean's quotient, the reciprocal root of a variance, the logarithm of a sum of exponentials) be part of the
kernel that has the sums, or brings together what they are in chunks: a launch less each.

``fuse-reductions`` does so for a map of one sum whose length is known.  What ``merge-variances`` and ``merge-softmaxes`` make has several results, and
``hoist-vectors`` makes such maps later.
"""

from dataclasses import dataclass

from inferno.errors import PassError, UnsupportedOperation
from inferno.mlir import clone_onto, func, ir, tensor, users, walk
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, kinds, maps
from inferno.passes.programs import callee
from inferno.schedule.accesses import sink_constants
from inferno.schedule.assign import choose
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.merge_calls import (
    by_symbols, edges_of, empty_like, in_order, inputs_of, joint_name, may_change, merge_in, merged_kernel, new_kernel, operations_in, replace_calls,
    rewrite_calls, tell_sources,
)
from inferno.schedule.recompute_maps import generics_of
from inferno.target import Target, find_target


@dataclass(frozen=True)
class _Sums:
    """A call of a kernel that is one reduction, maybe with a map of its results ``after`` it."""

    call: ir.Operation
    kernel: func.FuncOp
    generic: ir.Operation
    after: ir.Operation | None


def fuse_sum_maps(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        def rewrite(call: ir.Operation) -> bool:
            found = _sums(call, kernels, machine)
            if found is None:
                return False
            return (_fuse if may_change(found.kernel) else _fuse_sized)(module, kernels, found, machine)

        return rewrite_calls(main, rewrite)

    merge_in(module, merge)


def _sums(call: ir.Operation, kernels: dict[str, func.FuncOp], target: Target) -> _Sums | None:
    kernel = kernels.get(callee(call))
    generics = generics_of(kernel) if _is_open(kernel) else []
    if not 1 <= len(generics) <= 2 or set(kinds(generics[0])) == {PARALLEL}:
        return None
    after = generics[1] if len(generics) == 2 else None
    if after is not None and not (_is_plain(after) and all(v in list(generics[0].results) for v in inputs(after))):
        return None
    last = operations_in(kernel)[-1]
    if list(last.operands) != list((after or generics[0]).results) or not any(_reads_only(u, call, kernels) for r in call.results for u in users(r)):
        return None
    return _Sums(call, kernel, generics[0], after) if _is_for_reductions(kernel, target) else None


def _is_open(kernel: func.FuncOp | None) -> bool:
    """Whether there is a kernel that has no schedule yet, of any sizes."""
    return kernel is not None and ATTRIBUTE not in kernel.attributes


def _is_plain(generic: ir.Operation) -> bool:
    """Whether an operation goes over its operands, which are alike, element by element."""
    identity = ir.AffineMap.get_identity(len(kinds(generic)))
    return is_elementwise(generic) and all(m == identity for m in maps(generic)) and sink_constants(generic, tables=True)


def _reads_only(reader: ir.Operation, call: ir.Operation, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether a call is a map of another one's results and of sizes alone, of each point by itself."""
    kernel = kernels.get(callee(reader)) if reader.name == "func.call" else None
    generics = generics_of(kernel) if _is_open(kernel) and (may_change(kernel) or not may_change(kernels[callee(call)])) else []
    if len(generics) != 1 or not _is_plain(generics[0]) or any(v not in list(call.results) for v in inputs_of(reader) if not isinstance(v.type, ir.IndexType)):
        return False
    return all(isinstance(v, ir.BlockArgument) for v in inputs(generics[0])) and not walk(generics[0], "tensor.extract", "scf.if", "linalg.index")


def _is_for_reductions(kernel: func.FuncOp, target: Target) -> bool:
    try:
        return choose(kernel, target).generator == "reductions"
    except PassError:
        return False


def _fuse_sized(module: ir.Module, kernels: dict[str, func.FuncOp], found: _Sums, target: Target) -> bool:
    """The same where sizes vary, of the only reader of sums that have no map yet."""
    readers = list(dict.fromkeys(u for r in found.call.results for u in users(r)))
    if len(readers) != 1 or found.after is not None:
        return False
    try:
        edges = by_symbols(edges_of([found.call, readers[0]], views=False))
    except UnsupportedOperation:
        return False
    kernel = merged_kernel(kernels, edges, joint_name(module, edges.calls))
    if not _is_for_reductions(kernel, target):
        kernel.operation.erase()
        return False
    kernels[kernel.name.value] = kernel
    replace_calls(edges, kernel)
    return True


def _fuse(module: ir.Module, kernels: dict[str, func.FuncOp], found: _Sums, target: Target) -> bool:
    """Let one reader of sums be part of their kernel; whether that is the same generator's then."""
    call = found.call
    reader = in_order({u for r in call.results for u in users(r) if _reads_only(u, call, kernels)})[0]
    kept = [i for i, r in enumerate(call.results) if any(u != reader for u in users(r))]
    kernel = _kernel(module, kernels, found, reader, kept)
    if not _is_for_reductions(kernel, target):
        kernel.operation.erase()
        return False
    kernels[kernel.name.value] = kernel
    old = [*(call.results[i] for i in kept), *reader.results]
    with ir.InsertionPoint(call), call.location:
        new = func.CallOp(kernel, [*inputs_of(call), *empty_like(old)]).operation
    tell_sources(new, [call, reader])
    for value, result in zip(old, new.results):
        value.replace_all_uses_with(result)
    reader.erase()
    call.erase()
    return True


def _kernel(module: ir.Module, kernels: dict[str, func.FuncOp], found: _Sums, reader: ir.Operation, kept: list[int]) -> func.FuncOp:
    """Of the sums: their results that are ``kept``, and the reader's."""
    call, first = found.call, found.generic
    (map_,) = generics_of(kernels[callee(reader)])
    types = [*(call.results[i].type for i in kept), *(r.type for r in reader.results)]
    new = new_kernel(module, found.kernel, joint_name(module, [call, reader]), [v.type for v in inputs_of(call)], types)
    count, rank = len(inputs_of(call)), len(types[-1].shape)
    known: dict[ir.Value, ir.Value] = dict(zip(found.kernel.entry_block.arguments, list(new.entry_block.arguments)[:count]))

    def finish(values: list[ir.Value]) -> list[ir.Value]:
        sums = dict(zip(first.results, values))
        made = [sums[r] for r in first.results]
        if found.after is not None:
            made = clone_body(body(found.after), [*(sums[v] for v in inputs(found.after)), *[None] * len(found.after.results)])
        given = [made[list(call.results).index(inputs_of(reader)[v.arg_number])] for v in map(ir.BlockArgument, inputs(map_))]
        return [*(made[i] for i in kept), *clone_body(body(map_), [*given, *[None] * len(reader.results)])]

    with ir.InsertionPoint(new.entry_block), first.location:
        for argument in list(found.kernel.entry_block.arguments)[count:]:
            known[argument] = tensor.EmptyOp(list(argument.type.shape), argument.type.element_type).result
        for op in operations_in(found.kernel):
            if op.name != "func.return" and (found.after is None or op != found.after):
                clone_onto(op, known)
        sums = [known[r] for r in first.results]
        every = [ir.AffineMap.get_identity(rank)] * (len(sums) + len(types))
        made = build(sums, list(new.entry_block.arguments)[count:], every, [PARALLEL] * rank, finish, first.location)
        func.ReturnOp(list(made.results))
    return new
