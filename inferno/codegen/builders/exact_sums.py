"""Compensated sums, which keep what their additions lose."""

from collections.abc import Sequence

from inferno.codegen.builders.elements import splat
from inferno.mlir import arith, ir


def add_exactly(totals: Sequence[ir.Value], terms: Sequence[ir.Value]) -> list[ir.Value]:
    """``totals`` followed by what they lost so far, with ``terms`` added (Knuth's TwoSum); scalars or vectors of floats."""
    made, lost = [], []
    for total, rest, x in zip(totals, totals[len(terms):], terms):
        new = arith.addf(total, x)
        part = arith.subf(new, total)
        error = arith.addf(arith.subf(total, arith.subf(new, part)), arith.subf(x, part))
        # (infinity and NaN stay as they are)
        finite = arith.cmpf(arith.CmpFPredicate.ORD, error, error)
        made.append(new)
        lost.append(arith.addf(rest, arith.select(finite, error, splat(error.type, 0))))
    return [*made, *lost]
