"""Symbols that are the size of no input, only part of one: a convolution's gradient has an input of ``(s1 - 1) // 2`` rows, and none of ``s1``; what reads
rows flattened has one of ``s0*s1``.  Such an expression becomes a symbol of its own."""

from collections.abc import Sequence

from inferno.symbolic import Apply, Int, Size, Symbol, bounds, divisor, hint, product, size_of, symbols_of
from inferno.told_sizes import told_by


def name_unread(shapes: Sequence[tuple[Int, ...]], taken: int) -> list[tuple[Int, ...]]:
    """The shapes, with symbols ``s<taken>`` and on for the quotients and extrema of symbols that stand nowhere alone, and for whole sizes that
    are made of symbols which no size tells even so.

    What the new ones have to do with each other is forgotten: they may be anything in their ranges."""
    read = {m[0] for shape in shapes for s in shape if isinstance(s, Size) for m, _ in s.terms if len(m) == 1 and isinstance(m[0], Symbol)}
    names: dict[Int, Int] = {}

    def named(whole: Int) -> Int:
        if whole not in names:
            low, high = bounds(whole)
            names[whole] = size_of(Symbol(f"s{taken + len(names)}", max(low, 0), high, divisor(whole), hint(whole)))
        return names[whole]

    def renamed(size: Int) -> Int:
        if isinstance(size, int) or read.issuperset(symbols_of(size)):
            return size
        return sum((product([part(a) for a in m]) * c for m, c in size.terms), start=0)

    def part(atom: Symbol | Apply) -> Int:
        whole = Size((((atom,), 1),))
        return whole if isinstance(atom, Symbol) or read.issuperset(symbols_of(whole)) or bounds(whole)[0] < 0 else named(whole)

    found = [tuple(map(renamed, shape)) for shape in shapes]
    told = told_by(found)
    return [tuple(s if told.issuperset(symbols_of(s)) else named(s) for s in shape) for shape in found]
