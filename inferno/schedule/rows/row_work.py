"""How many instructions a row-wise kernel executes for each point, by whether its schedule computes values once or in every phase.

Memory takes 4 bytes of every point in the time of some 27 instructions, in 16 bits of 13, so that a softmax or a norm hides what it computes.  Several of
them in one kernel do not where each phase computes anew what those in front of it have made: nine phases of two logarithms of softmax, a norm and a
gate took 241 us of 440x24768 points in float32, which memory moves in 31.
"""

from math import ceil

from inferno.element_sizes import bit_width
from inferno.mlir import constant_number, dim_of, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.analysis.cost import CLOCK
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_steps import RowStep
from inferno.target import Target

LANES = 128
"""Of a multiprocessor, each one instruction a cycle."""
# Instructions of what is more than one; of divisions by what a row has in common, of exponentials where the hardware's power of two serves, and of
# powers that are a few products.
_LONG = {
    "arith.divf": 10, "math.exp": 10, "math.exp2": 10, "math.expm1": 12, "math.log": 16, "math.log1p": 20, "math.log2": 16, "math.sqrt": 8, "math.rsqrt": 6,
    "math.erf": 20, "math.tanh": 16, "math.sin": 20, "math.cos": 20, "math.tan": 30, "math.atan": 24, "math.atan2": 40, "math.powf": 80, "arith.remf": 30,
    "tensor.extract": 6,
}
# Of a division by a row's number (``codegen/rows/row_divisions.py``), of an exponential by the hardware's (``row_exponentials.py``), of a short power.
_DIVIDED, _POWER, _SQUARE = 3, 4, 2
SHORT_POWERS = (2.0, 3.0, 0.5, -0.5, -1.0, -2.0)  # exponents for which a power is a few products, a root or a quotient
# Of an element at a place that is kept inside of an image, as the neighbours of a window, which threads of a row read one by one: 9 of 16x64x56x56 points in
# bf16, and what weighs them, took an H200 119 us in a row's kernel, which are 100 instructions each, in float32 370.
_NEIGHBOUR = {16: 30, 32: 90}
_KEEPS_INSIDE = ("arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui")
_MEETINGS, _SHUFFLE = 6, 4  # of the lanes of a warp for a scan, and what each word of a shuffle takes, of which a multiprocessor does 32 a cycle
_NOTHING = ("arith.constant", "linalg.index", "linalg.yield", "scf.yield")


def instructions(c: RowKernel, again: bool, vector: int = 1) -> float:
    """Of a point; ``again``: every phase computes what it needs of what was read; ``vector``: points of a vector, which scans are between."""
    found, seen = sum(scan_instructions(s.scans, vector) for s in c.scans), set()
    for phase in range(c.phases):
        steps = {id(s): s for v in c.needed(phase)[1] if not (s := c.maker(v)).per_row and (not s.reduces or s.phase == phase)}
        found += sum(_instructions(s, c) for key, s in steps.items() if s.scans is None and (again or key not in seen))
        seen.update(steps)
    return found


def scan_instructions(combiner: Combiner, vector: int) -> float:
    """Of a point of a scan: those in a vector, twice, and what the lanes of a warp do with what vectors come to, five times and once more."""
    words = ceil(combiner.total.width / 32)
    return 2 + (_MEETINGS * (words * _SHUFFLE + 2 * words)) / vector


def arithmetic(c: RowKernel, again: bool, vector: int, target: Target) -> float:
    """Microseconds of a kernel of known sizes."""
    return busy(c.count * c.width * instructions(c, again, vector), target)


def busy(count: float, target: Target) -> float:
    """Microseconds of so many instructions of lanes, of which every multiprocessor has its share."""
    return count / (LANES * CLOCK * target.multiprocessors)


def _instructions(step: RowStep, c: RowKernel) -> int:
    """Of a step's body for a point, without what is computed of its row alone."""
    points = {a for a, s in zip(step.block.arguments, step.sources) if s is not None and _differs(s, c)}
    short = step.reduces or all(d.access.element.width == 16 for d in c.destinations)
    places = {d for d, loop in enumerate(step.indices) if loop in c.columns}
    return len([k for k in step.combiners if k is not None]) + body_instructions(step.generic, points, short, places)


def body_instructions(generic: ir.Operation, points: set[ir.Value] | None = None, short: bool = False, places: set[int] | None = None) -> int:
    """Of the body of a structured operation, of what is computed of ``points``, some of its arguments, which are changed, or of all, and of ``places``, the
    loops that points lie along, or all; ``short``: whether exponentials are the hardware's power of two."""
    points = set(generic.regions[0].blocks[0].arguments) if points is None else points
    along, moved = set(), set()  # what follows places, and what does not

    def count(block: ir.Block) -> int:
        found = 0
        for view in block.operations:
            op = view.operation
            found += max((count(b) for r in op.regions for b in r.blocks), default=0)  # of branches one is taken
            if op.name == "linalg.index" and (places is None or dim_of(op) in places):
                points.add(op.result)
                along.add(op.result)
            if op.name in _NOTHING or not (op.name == "tensor.extract" or any(v in points for v in op.operands)):
                continue
            points.update(op.results)
            if any(v in moved for v in op.operands) or (op.name in _KEEPS_INSIDE and any(v in along for v in op.operands)):
                moved.update(op.results)
            elif any(v in along for v in op.operands):
                along.update(op.results)
            found += _of_one(op, points, moved, short)
        return found

    return count(generic.regions[0].blocks[0])


def _of_one(op: ir.Operation, points: set[ir.Value], moved: set[ir.Value], short: bool) -> int:
    if op.name == "tensor.extract" and any(v in moved for v in list(op.operands)[1:]):
        return _NEIGHBOUR[16 if bit_width(op.results[0].type) <= 16 else 32]
    if op.name == "arith.divf" and op.operands[1] not in points:
        return _DIVIDED
    if op.name == "math.exp" and short:
        return _POWER
    if op.name == "math.powf" and constant_number(op.operands[1]) in SHORT_POWERS:
        return _SQUARE
    return _LONG.get(op.name, 1)


def _differs(source: Access | int, c: RowKernel) -> bool:
    return c.wide(source) if isinstance(source, Access) else not c.values[source].per_row
