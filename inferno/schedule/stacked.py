"""Maps whose result is a stack: one dimension is chosen along between pieces of one size, which lie one behind the other or, each an element, in turns.

``expand-pieces`` makes such maps of ``torch.stack`` and of concatenations, with what computes a piece in the branch of its choice.  ``unstack`` takes them
apart again: a map for each piece, which computes into its part of the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from inferno.mlir import erase_dead, ir, owner, tensor, walk
from inferno.passes.generics import PARALLEL, body, build, clone_body, dims, inputs, maps, outputs, substitute
from inferno.schedule.accesses import Linear, linear
from inferno.schedule.known_places import KnownPlaces, Undecided
from inferno.schedule.strewn_extracts import linear as linear_place

_ULT = 6  # arith.cmpi's predicate of numbers without a sign
_MOST = 32  # pieces, as in expand-pieces


@dataclass(frozen=True)
class Stack:
    """Of a result of this ``shape``, dimension ``dim`` is ``count`` pieces of some elements, or if ``inner`` groups of one element of each piece."""

    shape: tuple[int, ...]
    dim: int
    count: int
    inner: bool

    @property
    def box(self) -> tuple[int, ...]:
        """The sizes of a piece, without dimensions of one element."""
        return tuple(n for n in self.part(0)[1] if n != 1)

    def part(self, piece: int) -> tuple[list[int], list[int], list[int]]:
        """Offsets, sizes and steps of a piece."""
        size = self.shape[self.dim] // self.count
        offset, step = (piece, self.count) if self.inner else (piece * size, 1)
        own = [d == self.dim for d in range(len(self.shape))]
        return [offset * o for o in own], [size if o else n for o, n in zip(own, self.shape)], [step if o else 1 for o in own]

    def slice(self, whole: ir.Value, piece: int) -> ir.Value:
        """A piece of a tensor, at the insertion point."""
        type_ = ir.RankedTensorType.get(self.box, whole.type.element_type)
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
    shape, turns, begins = tuple(type_.shape), set(), {}
    for op in walk(generic, "arith.cmpi"):
        value, number = owner(op.operands[0]), _constant(op.operands[1])
        if value is None or number is None or ir.IntegerAttr(op.attributes["predicate"]).value != _ULT:
            continue
        if value.name == "arith.remui" and (made := owner(value.operands[0])) is not None and made.name == "linalg.index":
            turns.add((place.index(_loop(made)), _constant(value.operands[1]) or 1))
        elif value.name == "linalg.index":
            dim = place.index(_loop(value))
            begins[dim] = gcd(begins.get(dim, shape[dim]), number)
    found = [Stack(shape, dim, count, True) for dim, count in turns if shape[dim] % count == 0]
    found += [Stack(shape, dim, shape[dim] // size, False) for dim, size in begins.items()]
    found = [s for s in found if 1 < s.count <= _MOST and s.box]
    return found[0] if len(found) == 1 else None


def unstack(
    generic: ir.Operation, stack: Stack, destination: ir.Value, whole: ir.Value | None = None, pieces: Sequence[ir.Value] = (),
) -> list[ir.Operation] | None:
    """A map for each piece of what ``generic`` makes, in front of it, that computes into its part of ``destination``.  ``whole``: another stack that it reads
    element by element, of these pieces.  None where a choice is left open, or something is read otherwise; what has been made is of no use then."""
    given, own, count = inputs(generic), maps(generic), len(stack.box)
    if any(v == whole and m != own[-1] for v, m in zip(given, own)):
        return None
    order, made = dims(own[-1]), []
    for number in range(stack.count):
        place = stack.place(number)
        at = [place[order.index(d)] for d in range(own[-1].n_dims)]
        by_loops = [linear(e, count) for e in at]

        def fill(arguments: list[ir.Value], by_loops: list = by_loops) -> list[ir.Value]:
            return KnownPlaces(stack.box).clone(body(generic), [*arguments[:-1], None], by_loops)

        with ir.InsertionPoint(generic), generic.location:
            read = []
            for value, map_ in zip(given, own):
                if value == whole:
                    read.append((pieces[number], ir.AffineMap.get_identity(count)))
                    continue
                places = [linear(e, count) for e in substitute(map_, at, count).results]
                if None in places:
                    return None
                read.append(_in_part(value, places, stack))
            try:
                case = _map_over(stack, read, stack.slice(destination, number), fill, generic.location)
            except Undecided:
                return None
            made.append(_read_by_maps(case, stack))
    return made


def _map_over(stack: Stack, read: Sequence[tuple[ir.Value, ir.AffineMap]], out: ir.Value, fill: Callable, location: ir.Location) -> ir.Operation:
    """A map over the box, at the insertion point."""
    values, indexing = [v for v, _ in read], [m for _, m in read]
    return build(values, [out], [*indexing, ir.AffineMap.get_identity(len(stack.box))], [PARALLEL] * len(stack.box), fill, location)


def _read_by_maps(case: ir.Operation, stack: Stack) -> ir.Operation:
    """The same, at the insertion point, with operands for what it extracts at places that are sums of loops."""
    extracts = []
    for op in walk(case, "tensor.extract"):
        places = [linear_place(v, len(stack.box)) for v in list(op.operands)[1:]]
        if None not in places and all(map(_is_inside, places, op.operands[0].type.shape, [stack.box] * len(places))):
            extracts.append((op, _in_part(op.operands[0], places, stack)))
    if not extracts:
        return case
    before = list(zip(inputs(case), maps(case)))

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        for (op, _), argument in zip(extracts, arguments[len(before):]):
            op.results[0].replace_all_uses_with(argument)
        return clone_body(body(case), [*arguments[:len(before)], None])

    made = _map_over(stack, [*before, *(r for _, r in extracts)], outputs(case)[0], fill, case.location)
    case.erase()
    erase_dead(op for op in walk(made) if op != made)  # what the places were computed of
    return made


def _is_inside(place: Linear, size: int, box: Sequence[int]) -> bool:
    ends = [c * (n - 1) for c, n in zip(place[0], box)]
    return place[1] + sum(e for e in ends if e < 0) >= 0 and place[1] + sum(e for e in ends if e > 0) < size


def _in_part(value: ir.Value, places: Sequence[Linear], stack: Stack) -> tuple[ir.Value, ir.AffineMap]:
    """A tensor that is read at these places, as a part of it where a dimension is walked by one loop, and the map by which that is read."""
    parts, terms = [], []
    for (steps, begin), size in zip(places, value.type.shape if places else ()):
        loops = [d for d, c in enumerate(steps) if c]
        if len(loops) == 1 and steps[loops[0]] > 0:
            parts.append((begin, stack.box[loops[0]], steps[loops[0]]))
            terms.append(ir.AffineExpr.get_dim(loops[0]))
            continue
        parts.append((0, size, 1))
        terms.append(ir.AffineExpr.get_constant(begin))
        for d in loops:
            terms[-1] = terms[-1] + ir.AffineExpr.get_dim(d) * steps[d]
    map_ = ir.AffineMap.get(len(stack.box), 0, terms)
    if all(p == (0, n, 1) for p, n in zip(parts, value.type.shape if places else ())):
        return value, map_
    offsets, sizes, steps = (list(x) for x in zip(*parts))
    type_ = ir.RankedTensorType.get(sizes, value.type.element_type)
    return tensor.ExtractSliceOp(type_, value, [], [], [], offsets, sizes, steps).result, map_


def _loop(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes["dim"]).value


def _constant(value: ir.Value) -> int | None:
    made = owner(value)
    return ir.IntegerAttr(made.attributes["value"]).value if made is not None and made.name == "arith.constant" else None
