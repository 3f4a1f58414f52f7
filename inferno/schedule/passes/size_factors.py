"""Sizes that vary as products of few symbols, as ``(h + 3) // 4`` of the rows of an image does of which every fourth is read.

What goes over rows and columns is found by factors of sizes.  A kernel for which such a size is a symbol has sizes that are products of symbols.
"""

from collections.abc import Collection, Iterable, Sequence

from inferno.symbolic import Int, Size, Symbol, product, quotient, symbols_of


def factors_of(sizes: Iterable[Int], known: Collection[Int]) -> list[Int] | None:
    """Some of the sizes that are ``known`` of which all of them are products, with numbers; None where there are none, where symbols will do, or where
    two have to do with each other, which would be forgotten."""
    varying = [s for s in dict.fromkeys(sizes) if not isinstance(s, int)]
    if all(map(_is_plain, varying)):
        return None
    found: list[Int] = []
    for size in sorted(varying, key=lambda s: (max(len(m) for m, _ in s.terms), len(s.terms), max(c for _, c in s.terms), str(s))):
        rest = _divided(size, found)[0]
        if isinstance(rest, int):
            continue
        if rest not in known:
            return None
        found.append(rest)
    symbols = [s for factor in found for s in symbols_of(factor)]
    return found if len(set(symbols)) == len(symbols) else None


def in_factors(size: Int, factors: Sequence[Int], names: Sequence[Int]) -> Int | None:
    """A size with ``names`` in the places of its ``factors``; None where it has others."""
    rest, powers = _divided(size, factors)
    return rest * product(name for name, power in zip(names, powers) for _ in range(power)) if isinstance(rest, int) else None


def _divided(size: Int, factors: Sequence[Int]) -> tuple[Int, list[int]]:
    """What is left of a size without these factors, and how often each is in it."""
    powers = [0] * len(factors)
    for i, factor in enumerate(factors):
        while isinstance(size, Size) and (less := quotient(size, factor)) is not None:
            size, powers[i] = less, powers[i] + 1
    return size, powers


def _is_plain(size: Size) -> bool:
    """Whether a size is a product of symbols and a number."""
    return len(size.terms) == 1 and all(isinstance(atom, Symbol) for atom in size.terms[0][0])
