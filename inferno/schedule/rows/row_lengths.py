"""Schedules of rows whose length varies: some hold rows of up to so many points, and one is for whatever is longer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from inferno.schedule.composite.size_ranges import BySize
from inferno.size_forms import as_python
from inferno.symbolic import Int, bounds, divisor

# Rows of as many points as the example's, and of a quarter and of four times as many, have kernels that hold them.
LENGTHS = 0.25, 1, 4


def that_hold(points: Int, lengths: Iterable[int], make: Callable[[int], Any | None]) -> list[Any]:
    """What ``make`` says of some lengths, from short to long, for rows of up to so many points each."""
    low, most = bounds(points)
    step = divisor(points)

    def several(after: int, last: int) -> bool:
        """Whether rows may be of several lengths in this range: a kernel for one would not know that it varies."""
        return last // step - after // step > 1

    found, after = [], low - 1
    for longest in lengths:
        some = after < most and several(after, longest) and (longest >= most or several(longest, most))
        if some and (s := make(longest)) is not None:
            found.append(s)
            after = longest
    return found


def ranges(points: Int, held: Sequence[Any], found: Any) -> Any:
    """Those that hold rows, by their lengths, and ``found`` for what is longer, if any is."""
    if held and bounds(held[-1].longest - points)[0] >= 0:
        *held, found = held
    for s in reversed(held):
        found = BySize(as_python(points), s.longest, s, found)
    return found
