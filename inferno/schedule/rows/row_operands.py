"""What the points of rows are read from and written to: of their own, and in common with other rows."""

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.kernel import RowKernel


def is_narrow(c: RowKernel) -> bool:
    """Whether something that several phases read has at most 16 bits."""
    return min(a.element.width for a in c.repeated()) <= 16


def has_weights(c: RowKernel) -> bool:
    """Whether points have something in common with those of other rows."""
    return any(c.wide(a) and not any(a.strides[d] for d in c.rows) for step in c.steps for a in step.extras)


def _of_rows(c: RowKernel) -> set[Access]:
    """What a row's points have of their own, beside what rows have in common."""
    return {a for step in c.steps for a in step.extras if c.wide(a) and any(a.strides[d] for d in c.rows)}


def is_weighted(c: RowKernel) -> bool:
    """Whether a row's points are of one tensor of 16-bit numbers, with weights that all rows have in common."""
    of_rows = _of_rows(c)
    return len(of_rows) == 1 and all(a.element.width == 16 for a in of_rows) and has_weights(c)


def reads_words(c: RowKernel) -> bool:
    """Whether what a row's points are read from has 4 bytes for each."""
    return {a.element.width for a in _of_rows(c)} == {32}


def is_plain(c: RowKernel) -> bool:
    """Whether a row's points are read from one tensor, and written to one as wide, beside what all rows have in common."""
    of_rows = _of_rows(c)
    wide = [d for d in c.destinations if c.wide(d.access)]
    return len(of_rows) == len(wide) == 1 and not c.in_pieces and {a.element.width for a in of_rows} == {d.access.element.width for d in wide}


def widest(c: RowKernel) -> int:
    """Bytes of the widest element that a point is written as."""
    return max((element_bytes(d.access.element) for d in c.destinations if c.wide(d.access)), default=16)
