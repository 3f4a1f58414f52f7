"""On Hopper, let a convolution write its result transposed, where it is only transposed and that takes less time than both.

``choose-layouts`` has results with their channels innermost, and transposes what the program gives back in row-major order: that reads and writes
everything once more.  The tensor core may have a convolution's features as the rows of its tiles and the pixels as their columns, so that what lies
side by side in memory is neighbouring pixels.
"""

from inferno.mlir import func, ir, linalg, owner, tensor
from inferno.passes.generics import body, build, clone_body, inputs, is_copy, is_generic, kinds, maps, outputs
from inferno.passes.programs import callee, keep_precision, operations_in, readers
from inferno.schedule.analysis.cost import MEMORY_RATE, tensor_bytes
from inferno.schedule.assign import choose
from inferno.schedule.convolution import im2col
from inferno.schedule.passes.calls import calls_in, may_change
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.merge_calls import Merges
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.tiles.result_parts import large_extras
from inferno.schedule.tiles.tiling import pick_axes
from inferno.target import Target, find_target

_LAUNCH = 2.0  # microseconds of a kernel that transposes, beside its bytes (an estimate, as that of ``order-operands``)
# Bytes of results, of which 32 MiB and more were timed: on an H200, 3x3, TF32, a convolution took as long in either order (128 channels of 32x128x128 to 128
# 539 us in both, 512 of 64x64 to 256 in bf16 415 and 417, 1x1 by 2, 256 of 56x56 to 512 81 in both), and the transposition 29 to 270 more.
_LEAST = 1 << 23


def order_results(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for other targets."""
    machine = find_target(target)
    if not machine.hopper:
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = [o for o in calls_in(main) if may_change(kernels.get(callee(o)))]
        return sum([_write_in_order(module, kernels, c, machine) for c in calls if _transposes(kernels[callee(c)])]) > 0

    merge_in(module, merge)


def _transposes(kernel: func.FuncOp) -> bool:
    """Whether a kernel gives a tensor's dimensions another order, and does nothing else."""
    first, *rest = operations_in(kernel)
    if len(rest) != 1 or not is_copy(first):
        return False
    read, written = maps(first)
    return read.is_permutation and written.is_permutation and read != written


def _write_in_order(module: ir.Module, kernels: dict[str, func.FuncOp], call: ir.Operation, target: Target) -> bool:
    """Let the convolution whose result a call transposes write it in its order; whether it does."""
    made = owner(call.operands[0]) if tensor_bytes(call.results[0].type) >= _LEAST else None
    if made is None or made.name != "func.call" or len(made.results) != 1 or len(list(readers(made.results[0]))) != 1:
        return False
    before = kernels.get(callee(made))
    c = im2col.parse_unfolded(before, target) if may_change(before) else None
    if c is None or not c.lhs.has_windows or c.lhs.unfolded.group is not None or not isinstance(choose(before, target), im2col.Im2col):
        return False
    most = im2col.least(before, c, target)[0] + _LAUNCH + 2 * tensor_bytes(call.results[0].type) / MEMORY_RATE

    def takes(merged: func.FuncOp) -> bool:
        keep_precision(merged, before)
        _turn(merged)
        own = im2col.parse_unfolded(merged, target)
        # What is read of the result's size lies in the order that the result had.
        return own is not None and not large_extras(own, pick_axes(own)) and im2col.least(merged, own, target)[0] < most

    return Merges(module, kernels).merge(edges_of([made, call], views=False), takes, callee(made)) is not None


def _turn(kernel: func.FuncOp) -> None:
    """Let what makes the transposed tensor write it in its order, and all that belongs to it."""
    copy = next(o for o in reversed(operations_in(kernel)) if is_copy(o))
    value, (read, written) = inputs(copy)[0], maps(copy)
    makes, place = owner(value), {e: i for i, e in enumerate(read.results)}
    if not is_generic(makes):
        return
    order = [place[e] for e in written.results]
    with ir.InsertionPoint(copy), makes.location:
        outs = [_transposed(out, order, outputs(copy)[0] if result == value else None) for out, result in zip(outputs(makes), makes.results)]
        count = len(inputs(makes))
        transposed = [ir.AffineMap.get(m.n_dims, 0, [m.results[i] for i in order]) for m in maps(makes)[count:]]
        new = build(
            inputs(makes), outs, [*maps(makes)[:count], *transposed], kinds(makes), lambda given: clone_body(body(makes), given), makes.location,
        )
    copy.results[0].replace_all_uses_with(new.results[list(makes.results).index(value)])
    copy.erase()
    makes.erase()


def _transposed(out: ir.Value, order: list[int], given: ir.Value | None) -> ir.Value:
    """What a result begins with, in another order: ``given`` or a tensor of its own, filled if that is."""
    made = owner(out)
    if made is not None and made.name == "linalg.fill":
        return linalg.fill(made.operands[0], outs=[_transposed(made.operands[1], order, given)])
    type_ = out.type
    return tensor.EmptyOp([type_.shape[i] for i in order], type_.element_type).result if given is None else given
