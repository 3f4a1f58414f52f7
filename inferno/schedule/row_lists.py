"""The schedule of rows that are added to others of which each gets few: every row of the result has a list of the updates that go to it, and adds them up
itself.  Then each line is written once, sums of 16-bit floats are rounded once, and nothing waits for other threads' sums.
"""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from inferno.mlir import func
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.added_rows import AddedRows, parse_added_rows
from inferno.scatter_limits import worthwhile_lists as worthwhile
from inferno.target import Target

# Of 1, 2, 4 and 8 lists an H200 took for 16384 rows of bf16 that are added to 65536, of which every tenth goes to one, 744, 453, 458 and 373 us (torch.compile,
# which rounds each sum, 107, eager 1772); of 4096 that go anywhere 71, 71, 77 and 82 (105); in float32 of 16384 155, 154, 155 and 172 (185).
_LISTS = 2


@dataclass(frozen=True)
class RowLists:
    """A thread adds up ``lanes`` neighbours; ``threads`` are a block.  A row has ``lists`` lists, of which each thread walks over all at a time: what it waits
    for is there sooner where many go to one row."""

    generator: ClassVar[str] = "row_lists"

    threads: int
    lanes: int
    lists: int = 1


def choose(kernel: func.FuncOp, target: Target) -> RowLists | None:
    """A schedule if ``kernel`` adds enough rows to others, of which each gets few, and that are not too few; None otherwise.

    Not by default: nobody knows whether one row gets much of all, for whose list a kernel then waits.  An embedding's gradients took 69 us in float32 for
    random tokens, torch.compile's 77, but 104 where every twentieth is the same, and torch.compile's 79."""
    found = fit(kernel) if target.kind == "nvptx" and takes_unmeasured(kernel.operation) else None
    return found[1] if found is not None and worthwhile(found[0].rows, found[0].columns, found[0].count, found[1].lanes) else None


def fit(kernel: func.FuncOp) -> tuple[AddedRows, RowLists] | None:
    """What ``kernel`` computes, and its schedule, if it adds rows to others."""
    if not any(o.operation.name == "tm_tensor.scatter" for o in kernel.entry_block.operations):
        return None
    c = parse_added_rows(kernel)
    lanes = gcd(c.columns, 16 // (c.element.width // 8)) if c is not None else 1
    return (c, RowLists(256, lanes, _LISTS)) if lanes > 1 else None
