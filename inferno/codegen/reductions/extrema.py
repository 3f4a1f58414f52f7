"""The extremum of a reduction and its index: found by values alone, and then the index is looked for where the value was found.

What a thread reads at once is a *turn*.  A tree gives the value of a turn, of 16 bits two lanes at a time, and only that is compared with the running one.
Where lanes are different sums the terms of a turn are then compared with its value, which no NaN is among.  Where neighbours in memory are terms of one sum
the running place is a turn's first unit: threads agree on the largest value first, and those that have it look for it, in registers where all of a thread is
one turn, else in the turn that is read again.

Terms that are computed are not computed again, for they might be rounded otherwise then: along a sum their places are looked for in each turn that has a
larger one.
"""

from collections.abc import Callable, Sequence

from inferno.codegen.builders.conditions import if_else
from inferno.codegen.builders.elements import as_vector, convert, element_type, join, lanes_of, tree
from inferno.codegen.builders.integers import Integer, resize
from inferno.codegen.nvvm.shuffles import exchange
from inferno.codegen.reductions.joining import Values
from inferno.mlir import arith, ir, owner, scf, terminator, vector
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.reduction_schedule import Reductions

_F, _I = arith.CmpFPredicate, arith.CmpIPredicate
_BEYOND = {
    "arith.maximumf": _F.UGT, "arith.minimumf": _F.ULT, "arith.maxsi": _I.sgt, "arith.minsi": _I.slt, "arith.maxui": _I.ugt, "arith.minui": _I.ult,
}

_ABOVE = {**_BEYOND, "arith.maximumf": _F.OGT, "arith.minimumf": _F.OLT}  # of numbers, none of which is NaN


def element_of(c: ReductionKernel) -> int | None:
    """The source of which a term is an element as it is, or in a wider type; None where it is computed."""
    value = terminator(c.block).operands[0]
    if owner(value) is not None and owner(value).name == "arith.extf":
        value = owner(value).operands[0]
    if not isinstance(value, ir.BlockArgument) and owner(value) is not None:
        return None
    number = ir.BlockArgument(value).arg_number
    return number if number < len(c.sources) and c.sources[number] is not None else None


def by_turns(c: ReductionKernel, s: Reductions) -> bool:
    """Whether running places are those of turns."""
    return c.extremum is not None and c.along and (element_of(c) is not None or is_held(c, s))


def is_held(c: ReductionKernel, s: Reductions) -> bool:
    """Whether all that a thread has of a sum is one turn."""
    units = s.units(c)
    return c.along and s.chunks == 1 and isinstance(units, int) and units <= s.along * s.unroll and not s.interleaved


def above(name: str, new: ir.Value, best: ir.Value) -> list[ir.Value]:
    """Whether each lane of a value counts before the running one, which came first, by the combiner ``name``."""
    beyond = compared(_BEYOND[name], new, best)
    return beyond if isinstance(element_type(new), ir.IntegerType) else [arith.andi(x, y) for x, y in zip(beyond, compared(_F.ORD, best, best))]


def same(x: ir.Value, largest: ir.Value) -> ir.Value:
    """Whether a number is the largest one, which is NaN if any is."""
    (equal,) = equals(x, largest)
    return equal if isinstance(x.type, ir.IntegerType) else arith.ori(equal, arith.cmpf(_F.UNO, x, x))


def equals(a: ir.Value, b: ir.Value) -> list[ir.Value]:
    """Of lanes, whether they are the same number."""
    return compared(_I.eq if isinstance(element_type(a), ir.IntegerType) else _F.OEQ, a, b)


def compared(predicate: arith.CmpFPredicate | arith.CmpIPredicate, a: ir.Value, b: ir.Value) -> list[ir.Value]:
    """Lanes, of floats two at a time where these are a word."""
    if not is_paired(a):
        compare = arith.cmpi if isinstance(element_type(a), ir.IntegerType) else arith.cmpf
        return [compare(predicate, x, y) for x, y in zip(lanes_of(a), lanes_of(b))]
    return [x for p, q in zip(pairs(a), pairs(b)) for x in lanes_of(arith.cmpf(predicate, p, q))]


def is_paired(value: ir.Value) -> bool:
    """Whether lanes are of 16 bits, and compared two at a time."""
    return isinstance(value.type, ir.VectorType) and value.type.shape[0] % 2 == 0 and isinstance(element_type(value), (ir.F16Type, ir.BF16Type))


def pairs(value: ir.Value) -> list[ir.Value]:
    """Vectors of two lanes each."""
    return [vector.shuffle(value, value, [i, i + 1]) for i in range(0, value.type.shape[0], 2)]


class Extrema:
    """What an emitter of ``reductions`` does with them."""

    def number(self, unit: Integer, lane: int = 0) -> ir.Value:
        """The place of a term in registers."""
        return resize(self.ints.value(self.ints.add(self.ints.mul(unit, self.s.vector), lane) if self.c.along else unit), self.joining.width)

    def begin_extrema(self, first: Integer) -> Values:
        """Running values of nothing, in the type that is compared; those of turns are at the first one, ``first``, which is right if no value is above."""
        c, element = self.c, element_of(self.c)
        value = c.combiners[0].identity(c.combiners[0].type if element is None else c.sources[element].element)
        if by_turns(c, self.s):
            return [value, self.ints.value(self.ints.min(first, self.s.units(c) - 1))]
        lanes = 1 if c.along else self.s.vector
        _, place = self.joining.identities(lanes)
        return [as_vector(value, lanes) if lanes > 1 else value, place]

    def turn(self, values: Values, unit: Integer, running: Values) -> Values:
        """The running values with a turn more, that begins at ``unit``."""
        k = self.c.combiners[0]
        value, self.held = tree(k.combine, values), values
        while is_paired(value) and value.type.shape[0] > 2:
            half = value.type.shape[0] // 2
            value = k.combine(*(vector.shuffle(value, value, list(range(i, i + half))) for i in (0, half)))
        value = tree(k.combine, lanes_of(value))
        if is_held(self.c, self.s):
            return [value, self.ints.value(unit)]
        return [k.combine(value, running[0]), arith.select(above(k.name, value, running[0])[0], self.ints.value(unit), running[1])]

    def first_place(self, unit: ir.Value, largest: ir.Value, end: Integer | None) -> ir.Value:
        """The first place in the turn at ``unit`` of a value that is there."""
        ints, s = self.ints, self.s
        values = self.held if is_held(self.c, s) else self.turn_again(unit, end)
        own = convert(largest, element_type(values[0]))
        every = as_vector(own, s.vector) if isinstance(values[0].type, ir.VectorType) else own

        def search(found: Callable[[ir.Value], list[ir.Value]]) -> ir.Value:
            number = arith.constant(unit.type, 0)
            for u, value in reversed(list(enumerate(values))):
                for lane, here in reversed(list(enumerate(found(value)))):
                    number = arith.select(here, arith.constant(unit.type, u * s.along * s.vector + lane), number)
            return number

        if isinstance(own.type, ir.IntegerType):
            number = search(lambda x: equals(x, every))
        else:
            (number,) = if_else(
                arith.cmpf(_F.UNO, largest, largest), [unit.type],
                lambda: [search(lambda x: compared(_F.UNO, x, x))], lambda: [search(lambda x: equals(x, every))],
            )
        return resize(ints.add(ints.mul(unit, s.vector), number), self.joining.width)

    def turn_again(self, unit: ir.Value, end: Integer | None) -> Values:
        """A turn's values, read again."""
        ints, c, s, values = self.ints, self.c, self.s, []
        at = c.sources[element_of(c)]
        for u in range(s.unroll):
            place = ints.add(unit, u * s.along)
            x = self.load(at, self.coordinates(place if end is None else ints.min(place, ints.sub(end, 1))))
            x = as_vector(x, s.vector) if s.vector > 1 else x
            if end is not None:
                none = c.combiners[0].identity(element_type(x))
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
        choice = if_else(
            same(own, largest), [type_],
            lambda: [self.first_place(place, largest, end) if by_turns(c, self.s) else place],
            lambda: [arith.constant(type_, (1 << (type_.width - 1)) - 1)],
        )
        return [largest, together(1, choice[0], arith.minsi)]

    def extrema(self, values: Values, units: list[Integer], running: Values) -> Values:
        """The running values with what is at ``units``."""
        if by_turns(self.c, self.s):
            return self.turn(values, units[0], running)
        return (self.best_along if self.c.along else self.turn_across)(values, units, running)

    # Where lanes are different sums.

    def turn_across(self, values: Values, units: list[Integer], running: Values) -> Values:
        value = tree(self.c.combiners[0].combine, values)
        if isinstance(element_type(value), ir.IntegerType):
            return self.place_across(value, values, units, running)
        odd = tree(arith.ori, compared(_F.UNO, value, value))
        return if_else(
            odd, [v.type for v in running], lambda: self.best_across(values, units, running), lambda: self.place_across(value, values, units, running),
        )

    def best_across(self, values: Values, units: list[Integer], running: Values) -> Values:
        name = self.c.combiners[0].name
        for unit, value in zip(units, values):
            better, place = above(name, value, running[0]), self.number(unit)
            wide = isinstance(value.type, ir.VectorType)
            better, place = (join(better), as_vector(place, self.s.vector)) if wide else (better[0], place)
            running = [arith.select(better, value, running[0]), arith.select(better, place, running[1])]
        return running

    def place_across(self, value: ir.Value, values: Values, units: list[Integer], running: Values) -> Values:
        """The running values with a turn of numbers more, of which ``value`` is the largest."""
        k = self.c.combiners[0]
        places = [self.number(units[-1])] * len(lanes_of(value))
        for unit, x in reversed(list(zip(units[:-1], values[:-1]))):
            places = [arith.select(p, self.number(unit), place) for p, place in zip(equals(x, value), places)]
        places = [arith.select(p, new, old) for p, new, old in zip(compared(_ABOVE[k.name], value, running[0]), places, lanes_of(running[1]))]
        return [k.combine(value, running[0]), join(places) if isinstance(running[1].type, ir.VectorType) else places[0]]

    # Terms along a sum that are computed, in several turns.

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
