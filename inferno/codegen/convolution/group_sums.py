"""Recompute sums of convolutions whose groups are computed several at a time, where they are not finite.

The weights between a feature and another group's channels are zeros, and zero times infinity is NaN.  Such a sum is added up term by term, of the group's own.
"""

from inferno.codegen.builders.elements import join, splat
from inferno.codegen.builders.integers import Integer
from inferno.codegen.convolution.finite_sums import unless_finite
from inferno.codegen.convolution.vector_results import VECTOR
from inferno.codegen.nvvm.builder import Words, loop
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir
from inferno.schedule.convolution.group_windows import GroupKernel


def exact_sums(words: Words, k: GroupKernel, tensors: dict[int, Elements], sums: ir.Value, at: dict[int, Integer]) -> ir.Value:
    """A vector of sums, of neighbouring features; ``at`` has the first one's coordinates by loop."""
    return unless_finite(sums, lambda: _one_by_one(words, k, tensors, at))


def _one_by_one(words: Words, k: GroupKernel, tensors: dict[int, Elements], at: dict[int, Integer]) -> ir.Value:
    c, type_ = k.window, ir.VectorType.get([VECTOR], ir.F32Type.get())
    features, group = k.size(c.lane), at[k.group]
    numbers = [words.split(words.add(at[c.lane], i), [k.unit, features]) for i in range(VECTOR)]
    groups = [words.add(group, own) for own, _ in numbers]
    strides = [*(c.image.strides[d] for d in k.images), c.image.strides[k.group]]
    images = [words.dot([*(at[d] for d in k.images), own], strides, c.image.offset) for own in groups]
    weights = [words.dot([own, n], [c.weight.strides[k.group], c.weight.strides[c.lane]], c.weight.offset) for own, (_, n) in zip(groups, numbers)]

    def add(number: ir.Value, total: ir.Value) -> list[ir.Value]:
        row, column, channel = words.split(number, [*k.taps, k.size(k.channel)])
        image, weight, inside = channel, channel, arith.constant(ir.IntegerType.get_signless(1), 1)
        for axis, tap in ((c.down, row), (c.along, column)):
            if axis is not None:
                padded = words.add(words.mul(at[axis.loop], axis.stride), words.mul(tap, axis.dilation))
                inside = arith.andi(inside, words.less(words.sub(padded, axis.low), axis.size))
                image = words.add(image, words.mul(padded, c.image.strides[axis.tap] // axis.dilation))
                weight = words.add(weight, words.mul(tap, c.weight.strides[axis.tap]))

        def read(argument: int, offset: Integer) -> ir.Value:
            return arith.extf(ir.F32Type.get(), tensors[argument].read(offset))

        value = join([read(c.image.argument, words.select(inside, words.add(image, n), 0)) for n in images])
        factor = join([read(c.weight.argument, words.add(weight, n)) for n in weights])
        return [arith.addf(total, arith.mulf(arith.select(inside, value, splat(type_, 0)), factor))]

    return loop(words, 0, k.taps[0] * k.taps[1] * k.size(k.channel), 1, [splat(type_, 0)], add)[0]
