"""Maps whose result is a stack: one dimension is chosen along between pieces, which lie one behind the other or, each an element, in turns.

``expand-pieces`` makes such maps of ``torch.stack`` and of concatenations, with what computes a piece in the branch of its choice.  ``unstack`` takes them
apart again: a map for each piece, which computes into its part of the result.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from inferno.mlir import constant_number, dim_of, erase_dead, ir, owner, tensor, walk
from inferno.passes.affine import Linear, extent, linear, linear_map, loop_alone
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, maps, outputs, substitute
from inferno.schedule.analysis.known_places import KnownPlaces, Undecided
from inferno.schedule.analysis.affine_extracts import linear_place

_ULT = 6  # arith.cmpi's predicate of numbers without a sign
_MOST = 32  # pieces, as in expand-pieces


@dataclass(frozen=True)
class Stack:
    """Of a result of this ``shape``, dimension ``dim`` is pieces that begin there, or if ``inner`` groups of one element of each piece."""

    shape: tuple[int, ...]
    dim: int
    begins: tuple[int, ...]
    inner: bool = False

    @property
    def count(self) -> int:
        return len(self.begins)

    @property
    def box(self) -> tuple[int, ...]:
        """The sizes of the first piece, without dimensions of one element."""
        return self.box_of(0)

    def box_of(self, piece: int) -> tuple[int, ...]:
        return tuple(n for n in self.part(piece)[1] if n != 1)

    @property
    def even(self) -> "Stack | None":
        """The same, or some pieces as several, so that all have one size; None where that is too many."""
        if self.inner:
            return self
        whole = self.shape[self.dim]
        size = gcd(whole, *self.begins)
        return Stack(self.shape, self.dim, tuple(range(0, whole, size))) if whole // size <= _MOST else None

    def part(self, piece: int) -> tuple[list[int], list[int], list[int]]:
        """Offsets, sizes and steps of a piece."""
        offset, whole = self.begins[piece], self.shape[self.dim]
        size, step = (whole // self.count, self.count) if self.inner else ((*self.begins, whole)[piece + 1] - offset, 1)
        own = [d == self.dim for d in range(len(self.shape))]
        return [offset * o for o in own], [size if o else n for o, n in zip(own, self.shape)], [step if o else 1 for o in own]

    def slice(self, whole: ir.Value, piece: int) -> ir.Value:
        """A piece of a tensor, at the insertion point."""
        type_ = ir.RankedTensorType.get(self.box_of(piece), whole.type.element_type)
        return tensor.ExtractSliceOp(type_, whole, [], [], [], *self.part(piece)).result

    def insert(self, value: ir.Value, whole: ir.Value, piece: int) -> ir.Value:
        """A tensor with another piece, at the insertion point."""
        return tensor.InsertSliceOp(value, whole, [], [], [], *self.part(piece)).result

    def place(self, piece: int) -> list[ir.AffineExpr]:
        """Where an element of a piece is in the result, by the loops of the box."""
        found, loops = [], 0
        for offset, size, step in zip(*self.part(piece)):
            found.append(ir.AffineExpr.get_constant(offset))
            if size != 1:
                found[-1], loops = ir.AffineExpr.get_dim(loops) * step + offset, loops + 1
        return list(ir.AffineMap.get(loops, 0, found).results)  # of the classes of what they have been folded to


def stack_of(generic: ir.Operation) -> Stack | None:
    """How the result of a map with branches may be a stack; None where its comparisons do not say it."""
    place, type_ = dims(maps(generic)[-1]), generic.results[0].type
    if place is None or not type_.has_static_shape or not walk(generic, "scf.if"):
        return None
    shape, turns, begins = tuple(type_.shape), set(), defaultdict(set)
    for op in walk(generic, "arith.cmpi"):
        value, number = owner(op.operands[0]), constant_number(op.operands[1])
        if value is None or number is None or ir.IntegerAttr(op.attributes["predicate"]).value != _ULT:
            continue
        if value.name == "arith.remui" and (made := owner(value.operands[0])) is not None and made.name == "linalg.index":
            turns.add((place.index(dim_of(made)), constant_number(value.operands[1]) or 1))
        elif value.name == "linalg.index":
            dim = place.index(dim_of(value))
            begins[dim] |= {0, number} if 0 < number < shape[dim] else set()
    found = [Stack(shape, dim, tuple(range(count)), True) for dim, count in turns if shape[dim] % count == 0]
    found += [Stack(shape, dim, tuple(sorted(numbers))) for dim, numbers in begins.items()]
    found = [s for s in found if 1 < s.count <= _MOST and s.box]
    return found[0] if len(found) == 1 else None


def unstack(
    generic: ir.Operation, stack: Stack, destination: ir.Value, whole: ir.Value | None = None, pieces: Sequence[ir.Value] = (),
) -> list[ir.Operation] | None:
    """A map for each piece of what ``generic`` makes, in front of it, that computes into its part of ``destination``.  ``whole``: another stack that it reads
    element by element, of these pieces.  None where a choice is left open, or something is read otherwise; what has been made is of no use then."""
    made = []
    for number in range(stack.count):
        with ir.InsertionPoint(generic), generic.location:
            case = case_of(generic, stack, number, stack.slice(destination, number), whole, pieces[number] if pieces else None)
        if case is None:
            return None
        made.append(case)
    return made


def case_of(
    generic: ir.Operation, stack: Stack, number: int, out: ir.Value, whole: ir.Value | None = None, piece: ir.Value | None = None,
) -> ir.Operation | None:
    """One of these maps, at the insertion point, that computes into ``out``."""
    given, own, box = inputs(generic), maps(generic), stack.box_of(number)
    stacks = [whole is not None and v == whole for v in given]
    if any(is_stack and m != own[-1] for is_stack, m in zip(stacks, own)):
        return None
    order, place, count = dims(own[-1]), stack.place(number), len(box)
    at = [place[order.index(d)] for d in range(own[-1].n_dims)]
    read: list[tuple[ir.Value, ir.AffineMap]] = []
    for value, is_stack, map_ in zip(given, stacks, own):
        places = [linear(e, count) for e in substitute(map_, at, count).results]
        if not is_stack and None in places:
            return None
        read.append((piece, ir.AffineMap.get_identity(count)) if is_stack else _in_part(value, places, box))

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        return KnownPlaces(box).clone(body(generic), [*arguments[:-1], None], [linear(e, count) for e in at])

    try:
        return _read_by_maps(_map_over(box, read, out, fill, generic.location), box)
    except Undecided:
        return None


def _map_over(box: Sequence[int], read: Sequence[tuple[ir.Value, ir.AffineMap]], out: ir.Value, fill: Callable, location: ir.Location) -> ir.Operation:
    """A map over a box, at the insertion point."""
    indexing = [*(m for _, m in read), ir.AffineMap.get_identity(len(box))]
    return build([v for v, _ in read], [out], indexing, [PARALLEL] * len(box), fill, location)


def _read_by_maps(case: ir.Operation, box: Sequence[int]) -> ir.Operation:
    """The same, at the insertion point, with operands for what it extracts at places that are sums of loops."""
    extracts = []
    for op in walk(case, "tensor.extract"):
        places = [linear_place(v, len(box)) for v in list(op.operands)[1:]]
        if None not in places and all(_is_inside(p, n, box) for p, n in zip(places, op.operands[0].type.shape)):
            extracts.append((op, _in_part(op.operands[0], places, box)))
    if not extracts:
        return case
    before = list(zip(inputs(case), maps(case)))

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        for (op, _), argument in zip(extracts, arguments[len(before):]):
            op.results[0].replace_all_uses_with(argument)
        return clone_body(body(case), [*arguments[:len(before)], None])

    made = _map_over(box, [*before, *(r for _, r in extracts)], outputs(case)[0], fill, case.location)
    case.erase()
    erase_dead(op for op in walk(made) if op != made)  # what the places were computed of
    return made


def _is_inside(place: Linear, size: int, box: Sequence[int]) -> bool:
    least, largest = extent(place, box)
    return least >= 0 and largest < size


def _in_part(value: ir.Value, places: Sequence[Linear], box: Sequence[int]) -> tuple[ir.Value, ir.AffineMap]:
    """A tensor that is read at these places, as a part of it where a dimension is walked by one loop, and the map by which that is read."""
    parts, terms = [], []
    for (steps, begin), size in zip(places, value.type.shape if places else ()):
        loops = [d for d, c in enumerate(steps) if c]
        if len(loops) == 1 and steps[loops[0]] > 0:
            parts.append((begin, box[loops[0]], steps[loops[0]]))
            terms.append(loop_alone(loops[0], len(box)))
            continue
        parts.append((0, size, 1))
        terms.append((steps, begin))
    map_ = linear_map(terms, len(box))
    if all(p == (0, n, 1) for p, n in zip(parts, value.type.shape if places else ())):
        return value, map_
    offsets, sizes, steps = (list(x) for x in zip(*parts))
    type_ = ir.RankedTensorType.get(sizes, value.type.element_type)
    return tensor.ExtractSliceOp(type_, value, [], [], [], offsets, sizes, steps).result, map_
