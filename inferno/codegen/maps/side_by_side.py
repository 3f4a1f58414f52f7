"""Operands of a map of which each point has neighbours in memory, as the samples of a block that an unrolled filter goes through: one access has several."""

from collections.abc import Sequence

from inferno.element_sizes import element_bytes
from inferno.powers import last_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.symbolic import is_multiple

_ACCESS = 16  # bytes


def side_by_side(places: Sequence[Access | None]) -> list[list[int]]:
    """The numbers of operands, in groups that are one aligned access each, a power of two in the order in which they lie; those that are None are in none."""
    walks: dict[tuple, dict[int, int]] = {}
    groups = []
    for number, at in enumerate(places):
        if at is None:
            continue
        same = walks.setdefault((at.argument, at.strides), {}) if isinstance(at.offset, int) else {}
        if not isinstance(at.offset, int) or at.offset in same:
            groups.append([number])
        else:
            same[at.offset] = number
    for (_, strides), numbers in walks.items():
        most = _ACCESS // element_bytes(places[next(iter(numbers.values()))].element)
        while most > 1 and not all(is_multiple(s, most) for s in strides):
            most //= 2
        for begin in sorted(numbers):
            if begin not in numbers:
                continue  # part of another group
            width = next(w for w in _halves(most) if begin % w == 0 and all(begin + i in numbers for i in range(w)))
            groups.append([numbers.pop(begin + i) for i in range(width)])
    return groups


def _halves(width: int) -> list[int]:
    width = last_power_of_two(width)
    return [width >> i for i in range(width.bit_length())]
