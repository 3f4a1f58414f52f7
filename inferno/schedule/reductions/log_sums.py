"""Running logsumexp as the running maximum and the sum of exponentials below it: the logarithm is taken where a value is stored.

Combining two takes one power of two and no logarithm.  The sum is between 1 and the number of points, so it is never lost; powers are approximate, off
by two roundings, and those of what is as large as the largest are exact.  (The pair is what "Online normalizer calculation for softmax", Milakov and
Gimelshein, 2018, keeps.)
"""

from dataclasses import dataclass
from math import e, inf, log2

from inferno.mlir import arith, ir, llvm, math
from inferno.passes.generics import float32
from inferno.passes.import_scans import pair, parts
from inferno.schedule.analysis.combiners import Combiner


def in_pairs(combiner: Combiner) -> Combiner:
    """The combiner of a scan, with pairs if it is of such logarithms in float32."""
    if combiner.name != "logaddexp" or not isinstance(combiner.narrow, ir.F32Type):
        return combiner
    word = ir.IntegerType.get_signless(64, combiner.narrow.context)
    return LogSums("log_sums", combiner.narrow, word, word)


@dataclass(frozen=True)
class LogSums(Combiner):
    """Running values are words of 64 bits: the largest point above, the sum below."""

    def identity(self, type_: ir.Type | None = None) -> ir.Value:
        return pair(low=float32(0.0), high=float32(-inf))

    def combine(self, a: ir.Value, b: ir.Value) -> ir.Value:
        (of_a, a), (of_b, b) = parts(a), parts(b)
        apart = arith.mulf(math.absf(arith.subf(a, b)), float32(-log2(e)))
        apart = arith.minnumf(apart, float32(0.0))  # equal infinities are no distance apart, and of those it is no number
        power = llvm.CallIntrinsicOp(a.type, "llvm.nvvm.ex2.approx.ftz.f", [apart], [], []).operation.results[0]
        first = arith.cmpf(arith.CmpFPredicate.OGT, a, b)
        near, far = arith.select(first, of_a, of_b), arith.select(first, of_b, of_a)
        contract = ir.Attribute.parse("#arith.fastmath<contract>")
        total = arith.addf(arith.mulf(far, power, fastmath=contract), near, fastmath=contract)
        return pair(low=total, high=arith.maximumf(a, b))

    def widen(self, value: ir.Value) -> ir.Value:
        return pair(low=float32(1.0), high=value)

    def to_total(self, value: ir.Value) -> ir.Value:
        return value

    from_total = to_total

    def round(self, value: ir.Value) -> ir.Value:
        total, largest = parts(value)
        return arith.addf(largest, math.log(total))
