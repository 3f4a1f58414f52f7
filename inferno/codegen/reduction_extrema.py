"""The largest (or smallest) value of a reduction and its place: found by values alone, and the place is looked for where the value was found.

What a thread reads at once is a *turn*.  A tree gives the value of a turn, of 16 bits two lanes at a time, and a running pair has the largest one and the
first unit of its turn: a comparison a turn, none an element.  Where neighbours in memory are terms of one sum threads agree on the largest value first, and
those that have it look for it: in registers where all of a thread is one turn, else in the turn that is read again.  Where lanes are different sums a
thread's turn is of neighbouring terms, so that turns meet in the order of their places, and what writes a result looks through one.

Terms that are computed are not computed again, for they might be rounded otherwise then: their places are looked for in each turn that has a larger one.
"""

from collections.abc import Callable, Sequence

from inferno.codegen.elements import as_vector, convert, join, lanes_of, load, tree
from inferno.codegen.integers import Integer, Integers
from inferno.codegen.joining import Values
from inferno.codegen.shuffles import exchange
from inferno.mlir import arith, ir, owner, scf, vector
from inferno.schedule.reduction_kernel import ReductionKernel
from inferno.schedule.reductions import Reductions

_F, _I = arith.CmpFPredicate, arith.CmpIPredicate
_BEYOND = {
    "arith.maximumf": _F.UGT, "arith.minimumf": _F.ULT, "arith.maxsi": _I.sgt, "arith.minsi": _I.slt, "arith.maxui": _I.ugt, "arith.minui": _I.ult,
}


def element_of(c: ReductionKernel) -> int | None:
    """The source of which a term is an element as it is, or in a wider type; None where it is computed."""
    value = c.block.operations[len(c.block.operations) - 1].operation.operands[0]
    if owner(value) is not None and owner(value).name == "arith.extf":
        value = owner(value).operands[0]
    if not isinstance(value, ir.BlockArgument) and owner(value) is not None:
        return None
    number = ir.BlockArgument(value).arg_number
    return number if number < len(c.sources) and c.sources[number] is not None else None


def by_turns(c: ReductionKernel, s: Reductions) -> bool:
    """Whether running places are those of turns."""
    return c.extremum is not None and (element_of(c) is not None or is_held(c, s))


def is_held(c: ReductionKernel, s: Reductions) -> bool:
    """Whether all that a thread has of a sum is one turn."""
    return c.along and s.chunks == 1 and s.units(c) <= s.along * s.unroll and not s.interleaved


def neighbours(c: ReductionKernel, s: Reductions) -> bool:
    """Whether a thread's turn is of terms that are neighbours."""
    return by_turns(c, s) and not c.along


def above(name: str, new: ir.Value, best: ir.Value) -> list[ir.Value]:
    """Whether each lane of a value counts before the running one, which came first, by the combiner ``name``."""
    if isinstance(lanes_type(new), ir.IntegerType):
        return [arith.cmpi(_BEYOND[name], x, y) for x, y in zip(lanes_of(new), lanes_of(best))]
    beyond, known = compared(_BEYOND[name], new, best), compared(_F.ORD, best, best)
    return [arith.andi(x, y) for x, y in zip(beyond, known)]


def same(x: ir.Value, largest: ir.Value) -> ir.Value:
    """Whether a number is the largest one, which is NaN if any is."""
    if isinstance(x.type, ir.IntegerType):
        return arith.cmpi(_I.eq, x, largest)
    return arith.ori(arith.cmpf(_F.OEQ, x, largest), arith.cmpf(_F.UNO, x, x))


def compared(predicate: arith.CmpFPredicate, a: ir.Value, b: ir.Value) -> list[ir.Value]:
    """Lanes of floats, two at a time where these are a word."""
    if not is_paired(a):
        return [arith.cmpf(predicate, x, y) for x, y in zip(lanes_of(a), lanes_of(b))]
    return [x for p, q in zip(pairs(a), pairs(b)) for x in lanes_of(arith.cmpf(predicate, p, q))]


def is_paired(value: ir.Value) -> bool:
    return isinstance(value.type, ir.VectorType) and value.type.shape[0] % 2 == 0 and isinstance(lanes_type(value), (ir.F16Type, ir.BF16Type))


def pairs(value: ir.Value) -> list[ir.Value]:
    return [vector.shuffle(value, value, [i, i + 1]) for i in range(0, value.type.shape[0], 2)]


def lanes_type(value: ir.Value) -> ir.Type:
    return value.type.element_type if isinstance(value.type, ir.VectorType) else value.type


def first_of_turn(c: ReductionKernel, s: Reductions, ints: Integers, buffer: ir.Value, values: Values, point: Integer) -> Values:
    """The value and its own place, where that of its turn is known, of a sum whose neighbours are other sums.  ``buffer`` is the one that the terms are
    elements of."""
    (largest, place), at, (terms,) = values, c.sources[element_of(c)], c.terms
    unit = place if place.type == ints.type else (arith.extui if ints.width == 64 else arith.trunci)(ints.type, place)
    first = ints.dot(ints.split(point, [c.size(run) for run in c.points]), [at.strides[run[-1]] for run in c.points], at.offset)
    units = [ints.min(ints.add(unit, u), c.length - 1) for u in range(s.unroll)]
    read = [load(ints, buffer, ints.add(first, ints.mul(x, at.strides[terms[-1]])), at.element) for x in units]
    for x, value in reversed(list(zip(units, read))):
        number = x if place.type == ints.type else (arith.trunci if ints.width == 64 else arith.extui)(place.type, x)
        place = arith.select(same(convert(value, largest.type), largest), number, place)
    return [largest, place]


class Extrema:
    """What an emitter of ``reductions`` does with them."""

    def number(self, unit: Integer, lane: int = 0) -> ir.Value:
        """The place of a term in registers."""
        type_ = ir.IntegerType.get_signless(self.joining.width)
        value = self.ints.value(self.ints.add(self.ints.mul(unit, self.s.vector), lane) if self.c.along else unit)
        if value.type == type_:
            return value
        return arith.extui(type_, value) if type_.width > value.type.width else arith.trunci(type_, value)

    def begin_turns(self, first: Integer) -> Values:
        """Running values of no turn, which are those of the first one: a value that no number is beneath is at its place if all are like that."""
        c, lanes = self.c, 1 if self.c.along else self.s.vector
        element = element_of(c)
        type_ = c.combiners[0].type if element is None else c.sources[element].element
        first = self.ints.value(self.ints.min(first, self.s.units(c) - 1))
        values = [c.combiners[0].identity(type_), first if c.along else self.number(first)]
        return values if c.along else [as_vector(v, self.s.vector) for v in values] if lanes > 1 else values

    def turn(self, values: Values, unit: Integer, running: Values) -> Values:
        """The running values with a turn more, that begins at ``unit``."""
        k = self.c.combiners[0]
        value = tree(k.combine, values)
        if self.c.along:
            self.held = values
            while is_paired(value) and value.type.shape[0] > 2:
                half = value.type.shape[0] // 2
                value = k.combine(*(vector.shuffle(value, value, list(range(i, i + half))) for i in (0, half)))
            value = tree(k.combine, lanes_of(value))
            if is_held(self.c, self.s):
                return [value, self.ints.value(unit)]
        place = self.ints.value(unit) if self.c.along else self.number(unit)
        first = [arith.select(p, place, x) for p, x in zip(above(k.name, value, running[0]), lanes_of(running[1]))]
        return [k.combine(value, running[0]), join(first) if isinstance(running[1].type, ir.VectorType) else first[0]]

    def first_place(self, unit: ir.Value, largest: ir.Value, end: Integer | None) -> ir.Value:
        """The first place in the turn at ``unit`` of a value that is there."""
        ints, s = self.ints, self.s
        values = self.held if is_held(self.c, s) else self.turn_again(unit, end)
        own = convert(largest, lanes_type(values[0]))

        def search(found: Callable[[ir.Value], list[ir.Value]]) -> ir.Value:
            number = arith.constant(unit.type, 0)
            for u, value in reversed(list(enumerate(values))):
                for lane, here in reversed(list(enumerate(found(value)))):
                    number = arith.select(here, arith.constant(unit.type, u * s.along * s.vector + lane), number)
            return number

        if isinstance(own.type, ir.IntegerType):
            number = search(lambda x: [arith.cmpi(_I.eq, lane, own) for lane in lanes_of(x)])
        else:
            choice = scf.IfOp(arith.cmpf(_F.UNO, largest, largest), [unit.type], has_else=True)
            with ir.InsertionPoint(choice.then_block):
                scf.yield_([search(lambda x: compared(_F.UNO, x, x))])
            with ir.InsertionPoint(choice.else_block):
                scf.yield_([search(lambda x: compared(_F.OEQ, x, as_vector(own, s.vector) if isinstance(x.type, ir.VectorType) else own))])
            number = choice.results[0]
        whole = ints.add(ints.mul(unit, s.vector), number)
        type_ = ir.IntegerType.get_signless(self.joining.width)
        return whole if whole.type == type_ else (arith.extui if type_.width > ints.width else arith.trunci)(type_, whole)

    def turn_again(self, unit: ir.Value, end: Integer | None) -> Values:
        """A turn's values, read again."""
        ints, c, s, values = self.ints, self.c, self.s, []
        at = c.sources[element_of(c)]
        for u in range(s.unroll):
            place = ints.add(unit, u * s.along)
            x = self.load(at, self.coordinates(place if end is None else ints.min(place, ints.sub(end, 1))))
            x = as_vector(x, s.vector) if s.vector > 1 else x
            if end is not None:
                none = c.combiners[0].identity(lanes_type(x))
                x = arith.select(ints.less(place, end), x, self.same(none, x))
            values.append(x)
        return values

    def meet_extrema(self, values: Values, distances: Sequence[int], thread: Integer, column: Integer, end: Integer | None) -> Values:
        """What threads along a sum have in common: the largest value, and its first place."""
        c, k, (own, place) = self.c, self.c.combiners[0], values
        type_ = ir.IntegerType.get_signless(self.joining.width)

        def together(number: int, value: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
            for distance in distances:
                value = combine(value, exchange(value, distance))
            (value,) = self.between_warps([value], self.shared[number:number + 1], lambda parts: [tree(combine, [x for (x,) in parts])], thread, column)
            return value

        largest = together(0, own, k.combine)
        choice = scf.IfOp(same(own, largest), [type_], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([self.first_place(place, largest, end) if by_turns(c, self.s) else place])
        with ir.InsertionPoint(choice.else_block):
            scf.yield_([arith.constant(type_, (1 << (type_.width - 1)) - 1)])
        return [largest, together(1, choice.results[0], arith.minsi)]

    def extrema(self, values: Values, units: list[Integer], running: Values) -> Values:
        """The running values with what is at ``units``."""
        if by_turns(self.c, self.s):
            return self.turn(values, units[0], running)
        return (self.best_along if self.c.along else self.best_across)(values, units, running)

    # Terms that are computed, in several turns.

    def best_along(self, values: Values, units: list[Integer], running: Values) -> Values:
        k, best = self.c.combiners[0], running[0]
        largest = tree(k.combine, [x for v in values for x in lanes_of(v)])
        choice = scf.IfOp(above(k.name, largest, best)[0], [best.type, running[1].type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            place = running[1]
            for unit, value in reversed(list(zip(units, values))):
                for lane, x in reversed(list(enumerate(lanes_of(value)))):
                    place = arith.select(same(x, largest), self.number(unit, lane), place)
            scf.yield_([largest, place])
        with ir.InsertionPoint(choice.else_block):
            scf.yield_(running)
        return list(choice.results)

    def best_across(self, values: Values, units: list[Integer], running: Values) -> Values:
        name = self.c.combiners[0].name
        for unit, value in zip(units, values):
            better, place = above(name, value, running[0]), self.number(unit)
            wide = isinstance(value.type, ir.VectorType)
            better, place = (join(better), as_vector(place, self.s.vector)) if wide else (better[0], place)
            running = [arith.select(better, value, running[0]), arith.select(better, place, running[1])]
        return running
