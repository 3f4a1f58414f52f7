"""Which sizes of arguments tell the symbols of a program, and how these are read off."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.errors import UnsupportedOperation
from inferno.symbolic import Int, Symbol, symbols_of


@dataclass(frozen=True)
class Place:
    """Where a symbol is read off: dimension ``dim`` of argument ``argument`` is ``coefficient * symbol + constant``."""

    symbol: Symbol
    argument: int
    dim: int
    coefficient: int
    constant: int

    def value(self, size: str) -> str:
        """The symbol's value where the dimension is ``size``, both as Python."""
        return size if (self.coefficient, self.constant) == (1, 0) else f"({size} - {self.constant}) // {self.coefficient}"


def _linear(size: Int) -> tuple[Symbol, int, int] | None:
    """(symbol, coefficient, constant) of a size that is linear in one symbol."""
    if isinstance(size, int):
        return None
    rest = [(m, c) for m, c in size.terms if m]
    if len(rest) != 1 or len(rest[0][0]) != 1 or not isinstance(rest[0][0][0], Symbol):
        return None
    return rest[0][0][0], rest[0][1], sum(c for m, c in size.terms if not m)


def solve(size: Int, actual: int) -> int | None:
    """The value of its one symbol where ``size`` is ``actual``; None if there is none."""
    found = _linear(size)
    if found is None or (actual - found[2]) % found[1]:
        return None
    return (actual - found[2]) // found[1]


def told_by(shapes: Sequence[Sequence[Int]]) -> set[Symbol]:
    """The symbols that a size of ``shapes`` tells alone."""
    return {found[0] for sizes in shapes for size in sizes if (found := _linear(size)) is not None}


def read_off(shapes: Sequence[Sequence[Int]]) -> list[Place]:
    """Where each symbol of ``shapes`` is read off: a size that is the symbol itself where there is one.

    UnsupportedOperation for a symbol that no size tells.
    """
    found: dict[Symbol, Place] = {}
    for plain in (True, False):
        for argument, sizes in enumerate(shapes):
            for dim, size in enumerate(sizes):
                parts = _linear(size)
                if parts is not None and (plain == (parts[1:] == (1, 0))):
                    found.setdefault(parts[0], Place(parts[0], argument, dim, *parts[1:]))
    symbols = {s: None for sizes in shapes for size in sizes for s in symbols_of(size)}
    for symbol in symbols:
        if symbol not in found:
            raise UnsupportedOperation(f"no input's size tells {symbol}: it is only part of an expression")
    return [found[s] for s in symbols]
