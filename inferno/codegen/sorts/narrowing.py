"""Bounds that few of a row's items lie between, some wanted ones among them: found by bisection, with counts over all threads' items."""

from collections.abc import Callable
from dataclasses import dataclass

from inferno.codegen.builders.conditions import if_else
from inferno.codegen.sorts.team import Team
from inferno.mlir import arith, ir, scf


@dataclass(frozen=True)
class Held:
    """The items of a row, integers of 32 or 64 bits of which each thread of ``team`` has some; the greatest integer is none.  ``mine``: the thread's
    least."""

    items: list[ir.Value]
    mine: ir.Value
    team: Team

    @property
    def word(self) -> ir.Type:
        return self.mine.type

    @property
    def none(self) -> ir.Value:
        return self._word((1 << self.word.width) - 1)

    def bounds(self, begin: int, count: int, slots: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The least and the greatest of at most ``slots`` items, among which are those that ``begin`` others are before, ``count`` of them; and how many
        are before the least.  If ``begin`` is not 0, ``count`` is 1.

        The row has at least ``begin + count`` items, or at most ``slots``.
        """
        team, wanted = self.team, begin + count
        zero, end = self._word(0), self._word((1 << self.word.width) - 2)
        shift = self.word.width - 32
        top = self._top(self.mine)
        low = self._from_top(team.least(top), 0)
        high = end
        if wanted <= team.size:
            high = self._from_top(team.greatest(top), (1 << shift) - 1 if shift else 0)
            loop, (low_, high_, counted) = self._while([low, high, self._number(team.size)], lambda low, high, here: arith.andi(
                arith.cmpi(arith.CmpIPredicate.ugt, here, self._number(wanted + max(8, wanted // 4))), arith.cmpi(arith.CmpIPredicate.ult, low, high)))
            with ir.InsertionPoint(loop.after.blocks[0]):
                middle = self._middle(low_, high_)
                here = team.count(at_most(self.mine, middle))
                enough = arith.cmpi(arith.CmpIPredicate.uge, here, self._number(wanted))
                scf.yield_([arith.select(enough, low_, self._next(middle)), arith.select(enough, middle, high_), arith.select(enough, here, counted)])
            high = arith.minui(loop.results[1], end)
        total = team.total(self._count_if(high))
        single = begin > 0
        loop, (low_, high_, before, counted) = self._while([low, high, self._number(0), total], lambda low, high, before, here: arith.cmpi(
            arith.CmpIPredicate.ugt, arith.subi(here, before) if single else here, self._number(slots)))
        with ir.InsertionPoint(loop.after.blocks[0]):
            middle = self._middle(low_, high_)
            here = team.total(self._count(middle))
            enough = arith.cmpi(arith.CmpIPredicate.uge, here, self._number(wanted))
            scf.yield_([
                arith.select(enough, low_, self._next(middle)), arith.select(enough, middle, high_),
                arith.select(enough, before, here), arith.select(enough, here, counted),
            ])
        return (loop.results[0] if single else zero), loop.results[1], (loop.results[2] if single else self._number(0))

    def _count(self, bound: ir.Value) -> ir.Value:
        """How many of the thread's items are at most ``bound``."""
        i32 = ir.IntegerType.get_signless(32)
        total = self._number(0)
        for item in self.items:
            total = arith.addi(total, arith.extui(i32, at_most(item, bound)))
        return total

    def _count_if(self, bound: ir.Value) -> ir.Value:
        """The same, by threads that have any."""
        return if_else(at_most(self.mine, bound), [ir.IntegerType.get_signless(32)], lambda: [self._count(bound)], lambda: [self._number(0)])[0]

    def _while(self, starts: list[ir.Value], goes_on: Callable[..., ir.Value]) -> tuple[scf.WhileOp, list[ir.Value]]:
        """A loop that carries these values; its body, the block ``after``, is to be filled."""
        types = [v.type for v in starts]
        loop = scf.WhileOp(types, starts)
        locations = [ir.Location.current] * len(types)
        before = loop.before.blocks.append(*types, arg_locs=locations)
        after = loop.after.blocks.append(*types, arg_locs=locations)
        with ir.InsertionPoint(before):
            scf.condition(goes_on(*before.arguments), list(before.arguments))
        return loop, list(after.arguments)

    def _word(self, bits: int) -> ir.Value:
        return arith.constant(self.word, bits - (1 << self.word.width) if bits >> (self.word.width - 1) else bits)

    def _number(self, number: int) -> ir.Value:
        return arith.constant(ir.IntegerType.get_signless(32), number)

    def _top(self, item: ir.Value) -> ir.Value:
        """The highest 32 bits of an item."""
        if self.word.width == 32:
            return item
        return arith.trunci(ir.IntegerType.get_signless(32), arith.shrui(item, self._word(32)))

    def _from_top(self, top: ir.Value, rest: int) -> ir.Value:
        if self.word.width == 32:
            return top
        return arith.ori(arith.shli(arith.extui(self.word, top), self._word(32)), self._word(rest))

    def _middle(self, low: ir.Value, high: ir.Value) -> ir.Value:
        return arith.addi(low, arith.shrui(arith.subi(high, low), self._word(1)))

    def _next(self, item: ir.Value) -> ir.Value:
        return arith.addi(item, self._word(1))


def at_most(item: ir.Value, bound: ir.Value) -> ir.Value:
    """Whether an item, a number without a sign, comes no later than a bound."""
    return arith.cmpi(arith.CmpIPredicate.ule, item, bound)
