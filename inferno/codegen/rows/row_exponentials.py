"""Exponentials of differences to a row's maximum, as softmax and logsumexp have: by the hardware's power of two.

libdevice's function takes eight instructions, and kernels that read 16-bit numbers are bound by that.  The power of two itself is off by
two roundings, and below 2^-126 it is 0, which beside the largest one's 1 is lost in any case; what differs is the product in front of it, whose
rounding makes the result off by |x| roundings.  Where results are only added up that is no error: their roundings are
independent, and are many; the constant is then taken in two parts, so that no error is common to them.  Where they are rounded to 16 bits it is hidden.
"""

from math import e, log2

from inferno.codegen.builders.elements import splat
from inferno.mlir import arith, ir, llvm, users, walk
from inferno.schedule.matmul.row_contraction import RowContraction
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_maxima import is_below_largest
from inferno.schedule.rows.row_steps import RowStep

_HIGH = 1.44269502162933349609375  # log2(e) in float32
_LOW = log2(e) - _HIGH


def approximate_exponentials(step: RowStep, kernel: RowKernel | RowContraction, summed: bool = False) -> None:
    """Rewrite such exponentials in a step's body, in place; ``summed``: what it makes is only added up."""
    narrow = all(d.access.element.width == 16 for d in kernel.destinations)
    for op in walk(step.generic, "math.exp"):
        x = op.operands[0]
        if not isinstance(x.type, ir.F32Type) or not is_below_largest(x, step, kernel) or not (narrow or summed or _is_summed(op, step)):
            continue
        with ir.InsertionPoint(op), op.location:
            contract = ir.Attribute.parse("#arith.fastmath<contract>")
            power = arith.mulf(x, splat(x.type, _HIGH), fastmath=contract)
            if not narrow:
                power = arith.addf(arith.mulf(x, splat(x.type, _LOW), fastmath=contract), power, fastmath=contract)
            found = llvm.CallIntrinsicOp(x.type, "llvm.nvvm.ex2.approx.ftz.f", [power], [], []).operation.results[0]
            op.results[0].replace_all_uses_with(found)
        op.erase()


def _is_summed(op: ir.Operation, step: RowStep) -> bool:
    """Whether a result is a term of a sum, and nothing else."""
    readers = list(users(op.results[0]))
    if not step.reduces or len(readers) != 1 or readers[0].name != "linalg.yield":
        return False
    combiner = step.combiners[list(readers[0].operands).index(op.results[0])]
    return combiner is not None and combiner.sums
