"""Symbols that no size of an input tells, because all that is there of them is what something was made of: a convolution's gradient knows ``(s1 - 1) // 2``
rows and not the picture's ``s1``.  What is there is a symbol of its own instead."""

from collections.abc import Sequence

from inferno.symbolic import Apply, Int, Size, Symbol, bounds, divisor, hint, product, size_of, symbols_of


def name_unread(shapes: Sequence[tuple[Int, ...]], taken: int) -> list[tuple[Int, ...]]:
    """The shapes, with symbols ``s<taken>`` and on for the quotients and extrema of symbols that stand nowhere alone.

    What the new ones have to do with each other is forgotten: they may be anything in their ranges."""
    read = {m[0] for shape in shapes for s in shape if isinstance(s, Size) for m, _ in s.terms if len(m) == 1 and isinstance(m[0], Symbol)}
    names: dict[Apply, Symbol] = {}

    def renamed(size: Int) -> Int:
        if isinstance(size, int) or read.issuperset(symbols_of(size)):
            return size
        return sum((product([part(a) for a in m]) * c for m, c in size.terms), start=0)

    def part(atom: Symbol | Apply) -> Int:
        whole = Size((((atom,), 1),))
        if isinstance(atom, Symbol) or read.issuperset(symbols_of(whole)) or bounds(whole)[0] < 0:
            return whole
        if atom not in names:
            names[atom] = Symbol(f"s{taken + len(names)}", *bounds(whole), divisor(whole), hint(whole))
        return size_of(names[atom])

    return [tuple(map(renamed, shape)) for shape in shapes]
