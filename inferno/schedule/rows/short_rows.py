"""Reductions, scans and whatever else is made of rows so short that a thread has several whole ones: a schedule of ``columns``.

Where a thread has a point or two of each row (``reductions``), or one row (``rows``), it waits for memory most of the time.
"""

from inferno.mlir import func
from inferno.schedule.rows import columns
from inferno.schedule.rows.column_schedule import Columns
from inferno.schedule.rows.lone_rows import many_alone
from inferno.schedule.rows.packed_rows import packs
from inferno.target import Target


def choose(kernel: func.FuncOp, target: Target) -> Columns | None:
    """A schedule if ``kernel`` goes over such rows, one behind the other or, where they are many, side by side."""
    c = columns.read(kernel, target) if target.kind == "nvptx" else None
    if c is None or not any(s.meets for s in c.steps):
        return None
    return columns.pick(c, target) if packs(c) else many_alone(c, target)
