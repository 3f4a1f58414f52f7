"""Coordinates of a vector's lanes in a box whose sizes vary: the first lane's by divisions, and each further one's from the one before it.

A division by a number that is known when a kernel is compiled is a multiplication; one by another takes some twenty instructions.
"""

from collections.abc import Callable, Sequence
from math import gcd

from inferno.codegen.builders.integers import Integer, Integers
from inferno.mlir import arith
from inferno.symbolic import Int, divisor


def lane_places(
    ints: Integers, start: Integer, lanes: int, width: int, sizes: Sequence[Int], split: Callable[[Integer], list[Integer]],
) -> list[list[Integer]]:
    """The coordinates of point ``start`` of a box, a multiple of ``width``, and of those that follow it, one for each lane; ``split`` says those of any."""
    found = [split(start)]
    known = all(isinstance(s, int) for s in sizes[1:])
    for i in range(1, lanes):
        if known:
            found.append(split(ints.add(start, i)))
        elif i % gcd(divisor(sizes[-1]), width):  # not where the innermost loop may end
            *outer, inner = found[-1]
            found.append([*outer, ints.add(inner, 1)])
        else:
            found.append(_next(ints, found[-1], sizes))
    return found


def _next(ints: Integers, place: Sequence[Integer], sizes: Sequence[Int]) -> list[Integer]:
    """The coordinates of the next point: the innermost one counts, and where it comes to its end the one around it does."""
    *outer, inner = place
    found, carry = [], ints.add(inner, 1)
    for coordinate, size in zip(reversed(outer), reversed(sizes)):
        ends = ints.equal(carry, size)
        found.append(arith.select(ends, ints.value(0), ints.value(carry)))
        carry = ints.add(coordinate, arith.extui(ints.type, ends))
    return [carry, *reversed(found)]
