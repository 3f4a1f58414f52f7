"""Sums of rows and of squared distances from what follows from them, as norms have: both can be accumulated in one pass over a row."""

from dataclasses import dataclass

from inferno.mlir import ir, owner, terminator
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_steps import RowStep

_POINTS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class Moments:
    """``sums`` adds up ``point`` of each point, and ``squares`` squared distances of it from ``center``, which every row has its own of."""

    sums: RowStep
    squares: RowStep
    point: Access | int
    center: int


def moments(c: RowKernel) -> Moments | None:
    """Those of a row, if nothing else is reduced in their phases or computed of points in the second one."""
    reducing = [s for s in c.steps if s.reduces]
    if len(reducing) != 2 or reducing[1].phase != reducing[0].phase + 1 or c.scans or any(len(s.results) != 1 for s in reducing):
        return None
    sums, squares = reducing
    stored = any(not c.values[d.source].per_row and c.computed(d.source) == squares.phase for d in c.destinations)
    kinds = [s.combiners[0] for s in reducing]
    if stored or any(not k.sums or (str(k.narrow), str(k.total)) != ("f32", "f64") for k in kinds) or ir.FloatAttr(squares.starts[0]).value != 0:
        return None
    point = _source(sums, _yielded(sums))
    square = owner(_yielded(squares))
    if point is None or square is None or square.name != "arith.mulf" or square.operands[0] != square.operands[1]:
        return None
    distance = owner(square.operands[0])
    if distance is None or distance.name != "arith.subf" or str(square.results[0].type) != "f32":
        return None
    of, center = (_source(squares, v) for v in distance.operands)
    element = point.element if isinstance(point, Access) else c.values[point].element
    known = of == point and isinstance(center, int) and c.values[center].per_row and str(c.values[center].element) == "f32"
    return Moments(sums, squares, point, center) if known and str(element) in _POINTS else None


def met(c: RowKernel, phase: int, found: Moments | None) -> list[tuple[int, Combiner]]:
    """What threads bring together in a phase, by results; of rows whose moments are taken at once the squares beside the sums."""
    steps = [s for s in c.steps if s.phase == phase and (found is None or s is not found.squares)]
    steps += [found.squares] if found is not None and phase == found.sums.phase else []
    return [(n, k) for step in steps for n, k in zip(step.results, step.combiners) if k is not None]


def _yielded(step: RowStep) -> ir.Value:
    return terminator(step.block).operands[0]


def _source(step: RowStep, value: ir.Value) -> Access | int | None:
    """What a value of a body is, as it is or in a wider type."""
    if (op := owner(value)) is not None and op.name == "arith.extf":
        value = op.operands[0]
    if owner(value) is not None and not isinstance(value, ir.BlockArgument):
        return None
    number = next((i for i, a in enumerate(step.block.arguments) if a == value), None)
    return step.sources[number] if number is not None and number < len(step.sources) else None
