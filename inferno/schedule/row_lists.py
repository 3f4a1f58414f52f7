"""The schedule of rows that are added to others of which each gets few: every row of the result has a list of the updates that go to it, and adds them up
itself.  Then each line is written once, sums of 16-bit floats are rounded once, and nothing waits for other threads' sums.
"""

from dataclasses import dataclass
from math import gcd, prod
from typing import ClassVar

from inferno.mlir import func, ir
from inferno.passes.programs import takes_unmeasured
from inferno.schedule.combiners import Combiner, read_combiner
from inferno.schedule.flat_elements import Elements, read_elements
from inferno.schedule.scatter_kernel import is_update, start_of
from inferno.scatter_limits import worthwhile_lists as worthwhile
from inferno.target import Target

# Of 1, 2, 4 and 8 lists an H200 took for 16384 rows of bf16 that are added to 65536, of which every tenth goes to one, 744, 453, 458 and 373 us (torch.compile,
# which rounds each sum, 107, eager 1772); of 4096 that go anywhere 71, 71, 77 and 82 (105); in float32 of 16384 155, 154, 155 and 172 (185).
_LISTS = 2
_TYPES = {"arith.addf": ("f16", "bf16", "f32", "f64"), "arith.addi": ("i32", "i64")}


@dataclass(frozen=True)
class RowLists:
    """A thread adds up ``lanes`` neighbours; ``threads`` are a block.  A row has ``lists`` lists, of which each thread walks over all at a time: what it waits
    for is there sooner where many go to one row."""

    generator: ClassVar[str] = "row_lists"

    threads: int
    lanes: int
    lists: int = 1


@dataclass(frozen=True)
class ListKernel:
    """``count`` rows, of ``columns`` elements of ``updates``, are joined with those of ``rows`` rows of ``target``, an argument, that ``places`` says; a place
    that is none is left out.  They begin as ``start``, another argument, or one value."""

    updates: Elements
    places: Elements
    start: int | ir.Attribute
    target: int
    element: ir.Type
    combiner: Combiner
    rows: int
    columns: int
    count: int

    @property
    def lanes(self) -> int:
        """Neighbours of 16 bytes at most."""
        return gcd(self.columns, 16 // (self.element.width // 8))


def parse_lists(kernel: func.FuncOp) -> ListKernel | None:
    """What ``kernel`` computes; None if it is anything else."""
    operations = [o.operation for o in kernel.entry_block.operations]
    scatters = [o for o in operations if o.name == "tm_tensor.scatter"]
    if len(scatters) != 1 or list(operations[-1].operands) != list(scatters[0].results):
        return None
    op = scatters[0]
    updates, table, old = op.operands
    if not all(v.type.has_static_shape and prod(v.type.shape) for v in op.operands) or list(ir.DenseI64ArrayAttr(op.attributes["dimension_map"])) != [0]:
        return None
    count, (rows, *inner) = table.type.shape[0], old.type.shape
    start, body = start_of(kernel, old), op.regions[0].blocks[0]
    combiner = read_combiner(body, body.arguments[1])
    if start is None or combiner is None or not is_update(body) or str(old.type.element_type) not in _TYPES.get(combiner.name, ()):
        return None
    if table.type.shape[1] != 1 or prod(updates.type.shape) != count * prod(inner) or str(table.type.element_type) not in ("i32", "i64"):
        return None
    terms, places = read_elements(kernel, updates), read_elements(kernel, table)
    if terms is None or places is None or max(count, rows) >= 1 << 31:
        return None
    return ListKernel(terms, places, *start, old.type.element_type, combiner, rows, prod(inner), count)


def choose(kernel: func.FuncOp, target: Target) -> RowLists | None:
    """A schedule if ``kernel`` adds enough rows to others, of which each gets few, and that are not too few; None otherwise.

    Not by default: nobody knows whether one row gets much of all, for whose list a kernel then waits.  An embedding's gradients took 69 us in float32 for
    random tokens, torch.compile's 77, but 104 where every twentieth is the same, and torch.compile's 79."""
    found = fit(kernel) if target.kind == "nvptx" and takes_unmeasured(kernel.operation) else None
    return found[1] if found is not None and worthwhile(found[0].rows, found[0].columns, found[0].count, found[0].lanes) else None


def fit(kernel: func.FuncOp) -> tuple[ListKernel, RowLists] | None:
    """What ``kernel`` computes, and its schedule, if it adds rows to others."""
    if not any(o.operation.name == "tm_tensor.scatter" for o in kernel.entry_block.operations):
        return None
    c = parse_lists(kernel)
    return (c, RowLists(256, c.lanes, _LISTS)) if c is not None and c.lanes > 1 else None
