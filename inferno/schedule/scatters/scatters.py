"""The schedule of scatters into rows that fit into shared memory: a block has one row, or several that are side by side, from begin to end."""

from dataclasses import dataclass
from typing import ClassVar

from inferno.mlir import func, ir
from inferno.scatter_limits import MULTIPROCESSORS, side_by_side, worthwhile
from inferno.schedule.scatters.kernel import ScatterKernel, parse_scatter
from inferno.target import Target

_COMBINERS = {
    "arith.addf": ("f16", "bf16", "f32", "f64"), "arith.addi": ("i8", "i16", "i32", "i64"), "arith.maxsi": ("i32", "i64"), "arith.minsi": ("i32", "i64"),
}


@dataclass(frozen=True)
class Scatters:
    """A block of ``threads`` has ``columns`` rows that lie side by side.  A thread takes ``vector`` neighbouring updates at a time, and ``unroll`` times
    as many before it puts any of them in place."""

    generator: ClassVar[str] = "scatters"

    threads: int
    columns: int
    vector: int
    unroll: int


def choose(kernel: func.FuncOp, target: Target) -> Scatters | None:
    """A schedule if ``kernel`` puts elements into rows that are short enough, and there are enough of both; None otherwise."""
    found = fit(kernel, target.multiprocessors) if target.kind == "nvptx" else None
    if found is None:
        return None
    (c, schedule), rows = found, found[0].rows
    begins, width = isinstance(c.start, int), c.element.width // 8
    sizes = rows.outer, rows.filled, rows.places, rows.updates, rows.inner, schedule.columns
    return schedule if worthwhile(*sizes, target.multiprocessors, begins, width) else None


def fit(kernel: func.FuncOp, multiprocessors: int = MULTIPROCESSORS) -> tuple[ScatterKernel, Scatters] | None:
    """What ``kernel`` computes, and its schedule, if it puts elements into rows that fit into shared memory."""
    if not any(o.operation.name == "tm_tensor.scatter" for o in kernel.entry_block.operations):
        return None
    c = parse_scatter(kernel)
    if c is None or not takes(c):
        return None
    r = c.rows
    columns = side_by_side(r.outer, r.places, r.inner, held(c).width // 8, c.element.width // 8 or 1, multiprocessors)
    if columns is None:
        return None
    elements, threads = r.updates * columns, 512
    while threads > 128 and threads * 4 > max(elements, r.places * columns):
        threads //= 2
    vector = 2 if r.inner == 1 and r.updates % 2 == 0 else 1
    return c, Scatters(threads, columns, vector, 2 if vector == 2 else 4)


def takes(c: ScatterKernel) -> bool:
    """Whether the memory of a block can join such elements."""
    if c.combiner is None:
        return str(c.element) in ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
    return str(c.element) in _COMBINERS.get(c.combiner.name, ())


def held(c: ScatterKernel) -> ir.Type:
    """The type that results have in shared memory: sums of narrow numbers are wider."""
    if c.combiner is None:
        return ir.IntegerType.get_signless(8) if str(c.element) == "i1" else c.element
    if c.combiner.name == "arith.addf":
        return c.combiner.type
    return ir.IntegerType.get_signless(max(32, c.element.width))
