"""Exponentials of what is below the largest of its row, as softmax and logsumexp have: by the hardware's power of two.

libdevice's function takes eight instructions, and kernels that read 16-bit numbers are bound by that.  The power of two itself is off by
two roundings, and below 2^-126 it is 0, which beside the largest one's 1 is lost in any case; what differs is the product in front of it, whose
rounding makes the result off by |x| roundings.  Where results are only added up that is no error: their roundings are
independent, and are many; the constant is then taken in two parts, so that no error is common to them.  Where they are rounded to 16 bits it is hidden.
"""

from math import e, inf, log2

from inferno.codegen.elements import splat
from inferno.mlir import arith, ir, llvm, owner, users, walk
from inferno.schedule.accesses import Access
from inferno.schedule.row_kernel import RowKernel
from inferno.schedule.row_steps import RowStep

_HIGH = 1.44269502162933349609375  # log2(e) in float32
_LOW = log2(e) - _HIGH
_EQUAL = 1  # the value of arith.cmpf's predicate oeq


def approximate_exponentials(step: RowStep, kernel: RowKernel) -> None:
    """Rewrite such exponentials in a step's body, in place."""
    narrow = all(d.access.element.width == 16 for d in kernel.destinations)
    for op in walk(step.generic, "math.exp"):
        x = op.operands[0]
        if not isinstance(x.type, ir.F32Type) or not _is_below_largest(x, step, kernel) or not (narrow or _is_summed(op, step)):
            continue
        with ir.InsertionPoint(op), op.location:
            contract = ir.Attribute.parse("#arith.fastmath<contract>")
            power = arith.mulf(x, splat(x.type, _HIGH), fastmath=contract)
            if not narrow:
                power = arith.addf(arith.mulf(x, splat(x.type, _LOW), fastmath=contract), power, fastmath=contract)
            found = llvm.CallIntrinsicOp(x.type, "llvm.nvvm.ex2.approx.ftz.f", [power], [], []).operation.results[0]
            op.results[0].replace_all_uses_with(found)
        op.erase()


def _is_below_largest(value: ir.Value, step: RowStep, kernel: RowKernel) -> bool:
    """Whether this is x - (the largest x of the row)."""
    op = owner(value)
    if op is None or op.name != "arith.subf":
        return False
    x, largest = _source(op.operands[0], step), _largest(op.operands[1], step, kernel)
    if x is None or largest is None:
        return False
    maker = kernel.maker(largest)
    term = maker.block.operations[len(maker.block.operations) - 1].operands[maker.results.index(largest)]
    return _source(term, maker) == x


def _largest(value: ir.Value, step: RowStep, kernel: RowKernel) -> int | None:
    """The number of the maximum of rows that a value is, or is unless that is infinite, as logsumexp has it."""
    op = owner(value)
    if op is not None and op.name == "arith.extf":
        return _largest(op.operands[0], step, kernel)
    if op is not None and op.name == "arith.select":
        constant = [v for v in op.operands[1:] if owner(v) is not None and owner(v).name == "arith.constant"]
        other = [v for v in op.operands[1:] if v not in constant]
        return _largest(other[0], step, kernel) if len(constant) == 1 and _asks_for_infinity(op.operands[0]) else None
    number = _source(value, step) if op is None else None
    if not isinstance(number, int) or not kernel.values[number].per_row:
        return None
    maker = kernel.maker(number)
    place = maker.results.index(number)
    if maker.reduces:
        return number if maker.combiners[place].name == "arith.maximumf" else None
    return _largest(maker.block.operations[len(maker.block.operations) - 1].operands[place], maker, kernel)


def _asks_for_infinity(condition: ir.Value) -> bool:
    """Whether a condition is |x| == infinity."""
    op = owner(condition)
    if op is None or op.name != "arith.cmpf" or ir.IntegerAttr(op.attributes["predicate"]).value != _EQUAL:
        return False
    x, bound = (owner(v) for v in op.operands)
    while x is not None and x.name == "arith.extf":
        x = owner(x.operands[0])
    number = bound.attributes["value"] if bound is not None and bound.name == "arith.constant" else None
    return x is not None and x.name == "math.absf" and isinstance(number, ir.FloatAttr) and number.value == inf


def _source(value: ir.Value, step: RowStep) -> Access | int | None:
    """What a value of a body is read from, maybe widened."""
    op = owner(value)
    while op is not None and op.name == "arith.extf":
        value = op.operands[0]
        op = owner(value)
    places = [i for i, a in enumerate(step.block.arguments) if a == value]
    return step.sources[places[0]] if places and places[0] < len(step.sources) else None


def _is_summed(op: ir.Operation, step: RowStep) -> bool:
    """Whether a result is a term of a sum, and nothing else."""
    readers = list(users(op.results[0]))
    if not step.reduces or len(readers) != 1 or readers[0].name != "linalg.yield":
        return False
    combiner = step.combiners[list(readers[0].operands).index(op.results[0])]
    return combiner is not None and combiner.sums
