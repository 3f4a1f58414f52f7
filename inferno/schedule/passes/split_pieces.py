"""Concatenate pieces that lie in another layout than the result in their own layout, and transpose then.

The four parts of a transposed convolution have their channels innermost, and the image that is made of them its places: a thread that stores eight
neighbours reads one element of 16 bits of each of eight sectors.  Where places are sums of loops tiles of shared memory help
(``transposed_gathers``), but not where they are quotients.  In the pieces' order vectors are read and written, and a transpose is done by tiles: on an H200
8 M points in bf16 take 20.4 us in the place of 66.4.
"""

from math import prod

from inferno.errors import PassError
from inferno.mlir import clone_onto, func, ir, owner, tensor, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, is_elementwise, kinds, maps
from inferno.passes.kernel_names import Names
from inferno.passes.outline_kernels import outline_program
from inferno.passes.programs import callee, main_and_kernels, operations_in, programs
from inferno.schedule.analysis.affine_extracts import linear_place
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.maps.transposed_gathers import transposed_gathers
from inferno.schedule.maps.turned_results import is_turned
from inferno.schedule.passes.calls import calls_in, may_change
from inferno.target import find_target

_SIDE = 16  # elements along both orders that a tile is worth it for
# Points, below which another launch takes longer than what it saves (524288 in bf16 2.8 us in the place of 5.2, fewer are not timed).
_LEAST = 1 << 19


def split_pieces(module: ir.Module, target: str, always: str = "0") -> None:
    """Rewrite the programs; ``always=1`` does not ask how many points there are."""
    if always not in ("0", "1"):
        raise PassError(f"split-pieces: always is 0 or 1, not {always}")
    if find_target(target).kind != "nvptx":
        return
    kernels = main_and_kernels(module)[1]
    orders = {name: order for name, k in kernels.items() if (order := _order(k, 0 if always == "1" else _LEAST)) is not None}
    if not orders:
        return
    with module.context, ir.Location.unknown():
        names, left = Names(module), set()
        for program in programs(module):
            calls = [o for o in calls_in(program) if callee(o) in orders]
            changed = [c for c in calls if (made := owner(c.operands[len(c.operands) - 1])) is not None and made.name == "tensor.empty"]
            left |= {callee(c) for c in calls if c not in changed}
            for call in changed:
                split(call, kernels[callee(call)], orders[callee(call)])
            if changed:
                outline_program(program, names)
        for name in set(orders) - left:
            kernels[name].operation.erase()
    deduplicate_kernels(module)


def generic_of(kernel: func.FuncOp, slices: bool = False) -> ir.Operation | None:
    """The kernel's only operation beside constants, and with ``slices`` beside those of its arguments, if it is an elementwise one with one result."""
    other = ("func.return", "tensor.extract_slice") if slices else ("func.return",)
    found = [o for o in operations_in(kernel) if not o.name.startswith("arith.") and o.name not in other]
    return found[0] if len(found) == 1 and is_elementwise(found[0]) and len(found[0].results) == 1 else None


def _order(kernel: func.FuncOp, least: int) -> list[int] | None:
    """The loops of what a kernel makes, in the order of all that it chooses between; None where it does anything else, or that is its own."""
    generic = generic_of(kernel) if may_change(kernel) else None
    extracts = walk(generic, "tensor.extract") if generic is not None else []
    if not any(op.operation.parent != generic for op in extracts) or transposed_by_tiles(kernel):
        return None
    loops = dims(maps(generic)[-1])
    sizes = dict(zip(loops, generic.results[0].type.shape))
    along = {_along(op, len(loops)) for op in extracts}
    inner = along.pop()
    if along or inner is None or inner == loops[-1]:
        return None
    points, behind = prod(sizes.values()), prod(sizes[d] for d in loops[loops.index(inner) + 1:])
    if points < least or sizes[inner] < _SIDE or behind < _SIDE:
        return None
    whole = [v for v in inputs(generic) if isinstance(v.type, ir.RankedTensorType) and prod(v.type.shape) * _SIDE > points]
    return [d for d in loops if d != inner] + [inner] if not whole else None


def transposed_by_tiles(kernel: func.FuncOp) -> bool:
    """Whether tiles of shared memory transpose all that is gathered, or all that is made."""
    point = parse_pointwise(kernel)
    return point is not None and (transposed_gathers(point) is not None or is_turned(point))


def _along(extract: ir.Operation, loops: int) -> int | None:
    """The loop along which neighbours are read."""
    place = linear_place(extract.operands[len(extract.operands) - 1], loops)
    if place is None or sorted(place[0]) != [0] * (loops - 1) + [1]:
        return None
    return place[0].index(1)


def split(call: ir.Operation, kernel: func.FuncOp, order: list[int]) -> ir.Value:
    """The kernel's operation in the place of its call, in another order, and a transpose of what it makes: its result."""
    known = dict(zip(kernel.entry_block.arguments, call.operands))
    with ir.InsertionPoint(call), call.location:
        for op in operations_in(kernel)[:-1]:
            clone_onto(op, known)
        generic = owner(known[generic_of(kernel, slices=True).results[0]])
        type_, loops = generic.results[0].type, dims(maps(generic)[-1])
        sizes = dict(zip(loops, type_.shape))
        pieces = tensor.EmptyOp([sizes[d] for d in order], type_.element_type).result
        transposed = ir.AffineMap.get_permutation(order)
        made = build(
            inputs(generic), [pieces], [*maps(generic)[:-1], transposed], kinds(generic), lambda given: clone_body(body(generic), given), call.location,
        )
        back = [loops.index(d) for d in order]
        result = build(
            made.results, [tensor.EmptyOp(type_.shape, type_.element_type).result],
            [ir.AffineMap.get_permutation(back), ir.AffineMap.get_identity(len(loops))], [PARALLEL] * len(loops), lambda given: given[:1], call.location,
        )
    call.results[0].replace_all_uses_with(result.results[0])
    call.erase()
    generic.erase()
    return result.results[0]
