"""Sums over windows of which the rows come one after the other: every row is added to the sums of all outputs that it is part of."""

from collections.abc import Callable, Sequence

from inferno.codegen.builders.elements import join, lanes_of
from inferno.mlir import arith, ir, vector
from inferno.schedule.convolution.window_kernel import WindowKernel

MOST_IN_A_ROW = 32
"""Products that are added one after the other in float32: 49 gave errors of 1.5e-7, over the least that is allowed."""

Sums = list[list[ir.Value]]
"""Of each age, the youngest first, and output along the row a vector of sums."""
Wide = Sequence[Sequence[Sequence[ir.Value]]]
"""Of each row, further term and column what was read, as vectors of float32."""


def next_sums(c: WindowKernel, wide: Wide, weights: Wide, before: Sums, zero: ir.Value, wanted: Callable[[int], bool] = lambda age: True) -> Sums:
    """The sums of every age after the next rows.  ``weights`` are by further term, row and column of the window.  An age becomes the next older one by
    its first multiply-add.  Of ages that are not ``wanted`` there is no output: their sums are ``zero``."""
    down, side = (a.step if a is not None else 1 for a in (c.down, c.along))
    along, ages = len(before[0]), len(before)
    after: Sums = [[] for _ in range(ages)]
    for age in reversed(range(ages)):
        if not wanted(age):
            after[age] = [zero] * along
            continue
        start = before[age - 1] if age else [zero] * along
        rows = [(q, r) for q in range(len(wide)) if (r := down * age + q) < c.taps(c.down)]
        # In float32 what would be too long a sum is one of sums of a turn.
        apart = age > 0 and isinstance(c.image.element, ir.F32Type) and (rows[-1][1] + 1) * c.taps(c.along) * c.depth > MOST_IN_A_ROW
        sums = [zero] * along if apart else start
        for q, r in rows:
            for n in range(c.depth):
                for x in range(c.taps(c.along)):
                    sums = [vector.FMAOp(wide[q][n][i * side + x], weights[n][r][x], total).result for i, total in enumerate(sums)]
        after[age] = [arith.addf(a, b) for a, b in zip(start, sums)] if apart else sums
    return after


def widened(value: ir.Value) -> ir.Value:
    """In float32.  Two neighbours in bfloat16 take an operation each: the upper half of a word is a float32 but for its last bits."""
    wide, type_ = ir.F32Type.get(), value.type
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    if element == wide:
        return value
    if not isinstance(type_, ir.VectorType) or type_.shape[0] == 1 or not isinstance(element, ir.BF16Type):
        return arith.extf(ir.VectorType.get(type_.shape, wide) if isinstance(type_, ir.VectorType) else wide, value)
    word = ir.IntegerType.get_signless(32)
    words = vector.BitCastOp(ir.VectorType.get([type_.shape[0] // 2], word), value).result
    half, upper = arith.constant(word, 16), arith.constant(word, -0x10000)
    return join([arith.bitcast(wide, x) for w in lanes_of(words) for x in (arith.shli(w, half), arith.andi(w, upper))])
