"""``tensor.extract`` at indices that are sums and differences of loops, as an operand with an affine map: a window that is flipped and transposed, as a
convolution's gradient reads it, is a tensor with negative strides.

Of maps, only what lies far apart in memory along the last loop and side by side along others, which then goes through shared memory in tiles or boxes:
512x512x3x3 in bf16, gathered element by element, took longer than the convolution behind it, and 1280x2560x3x3 217 us.
Reductions read all of this kind so: the sum of a flipped tensor.
"""

from collections.abc import Sequence

from inferno.mlir import dim_of, erase_dead, ir, owner, walk
from inferno.passes.affine import Linear, add, extent, linear_map, loop_alone, multiply
from inferno.passes.generics import build, clone_body, inputs, kinds, maps, outputs
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import loop_sizes

_LEAST = 16  # elements along both loops that a tile is worth it for


def read_by_maps(generic: ir.Operation, every: bool = False) -> ir.Operation:
    """``generic``, or what took its place: the same with such tensors as operands, where all that it extracts is of this kind; ``every``: however it lies."""
    sizes, block = loop_sizes(generic), generic.regions[0].blocks[0]
    extracts = [op.operation for op in walk(generic, "tensor.extract")]
    if not extracts or sizes is None or not all(isinstance(s, int) for s in sizes):
        return generic
    found = [_map(op, generic, sizes, every) for op in extracts]
    if any(m is None for m in found):
        return generic

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        number, count = len(inputs(generic)), len(extracts)
        for op, argument in zip(extracts, arguments[number:number + count]):
            op.results[0].replace_all_uses_with(argument)
        return clone_body(block, [*arguments[:number], *arguments[number + count:]])

    tables, indexing, number = [op.operands[0] for op in extracts], maps(generic), len(inputs(generic))
    with ir.InsertionPoint(generic), generic.location:
        made = build(
            [*inputs(generic), *tables], outputs(generic), [*indexing[:number], *found, *indexing[number:]], kinds(generic), fill, generic.location,
        )
    for old, new in zip(generic.results, made.results):
        old.replace_all_uses_with(new)
    generic.erase()
    erase_dead(op for op in walk(made) if op != made)  # what the places were computed of
    return made


def follows_loops(op: ir.Operation, generic: ir.Operation) -> bool:
    """Whether an extract's places are sums and differences of loops."""
    return _map(op, generic, loop_sizes(generic), True) is not None


def _map(op: ir.Operation, generic: ir.Operation, sizes: tuple[int, ...], every: bool) -> ir.AffineMap | None:
    """The map that an extract reads its tensor by; None where it is of another kind, or may read outside of the tensor."""
    table = op.operands[0].type
    if op.parent != generic or not table.has_static_shape:
        return None
    places = [linear_place(v, len(sizes)) for v in list(op.operands)[1:]]
    if any(p is None for p in places):
        return None
    for place, size in zip(places, table.shape):
        least, largest = extent(place, sizes)
        if least < 0 or largest >= size:
            return None
    strides = strides_at(places, table.shape, len(sizes))
    if not every and not _is_uncoalesced(list(maps(generic)[-1].results)[-1:], strides, sizes):
        return None
    return linear_map(places, len(sizes))


def strides_at(places: Sequence[Linear], shape: Sequence[int], loops: int) -> tuple[int, ...]:
    """The stride of each of so many loops for the element at such places of a tensor."""
    return tuple(sum(step * place[0][d] for step, place in zip(row_major(shape), places)) for d in range(loops))


def walk_of(op: ir.Operation, loops: int) -> Linear | None:
    """The stride of each of so many loops for the element that an extract reads, and its offset, where its places are linear in these."""
    places, sizes = [linear_place(v, loops) for v in list(op.operands)[1:]], op.operands[0].type.shape
    if None in places:
        return None
    return strides_at(places, sizes, loops), sum(step * begin for step, (_, begin) in zip(row_major(sizes), places))


def _is_uncoalesced(last: list[ir.AffineExpr], strides: Sequence[int], sizes: tuple[int, ...]) -> bool:
    """``last``: the result's inner dimension, if it has one."""
    if not last or not isinstance(last[0], ir.AffineDimExpr) or strides[last[0].position] <= 1 or sizes[last[0].position] < _LEAST:
        return False
    piece = 1
    for stride, size in sorted((abs(s), n) for d, (s, n) in enumerate(zip(strides, sizes)) if n > 1 and d != last[0].position):
        if stride != piece:
            break
        piece *= size
    return piece >= _LEAST


def linear_place(value: ir.Value, loops: int) -> Linear | None:
    """A place that a body computes, as a sum of multiples of so many loops and a number; None where it is none."""
    op = owner(value)
    if op is None:
        return None
    if op.name == "linalg.index":
        return loop_alone(dim_of(op), loops)
    if op.name == "arith.constant":
        return (0,) * loops, ir.IntegerAttr(op.attributes["value"]).value
    if op.name in ("arith.addi", "arith.subi", "arith.muli"):
        first, second = (linear_place(v, loops) for v in op.operands)
        if first is None or second is None:
            return None
        return multiply(first, second) if op.name == "arith.muli" else add(first, second, 1 if op.name == "arith.addi" else -1)
    return None
