"""Softmax of rows whose scores come block by block (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018), in registers as
the tensor core leaves them.

Thread t of a warpgroup has of its rows ``8h`` apart the scores ``4j + 2h + e`` at columns ``8j + t%4 * 2 + e``; four threads share a row.
Exponentials are powers of 2: ``2^(c s - c m)`` takes one fused multiply-add and one instruction, with the factor c of the scale and log2(e).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, log, log2, nan
from typing import ClassVar

from inferno.codegen.builders.elements import join
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.matmul.row_epilogue import exchange
from inferno.codegen.nvvm.builder import Words, operation
from inferno.mlir import arith, ir, llvm
from inferno.passes.generics import float32
from inferno.schedule.attention.divisors import Divisor
from inferno.schedule.attention.kernel import AttentionKernel

HALVES = (0, 1)  # of a thread's sums: it has those of two rows, 8 apart
_CHAINS = 4  # of dependent additions or maxima, each of which takes 4 cycles


@dataclass(frozen=True)
class State:
    """Of both rows: the largest score so far, and the sum of this thread's weights."""

    largest: list[ir.Value]
    total: list[ir.Value]

    @property
    def values(self) -> list[ir.Value]:
        return [*self.largest, *self.total]


@dataclass(frozen=True)
class Base:
    """What a row's weights are made with: the largest score, or its product with -``factor``."""

    value: ir.Value
    factor: ir.Value


_COARSE = 2.0**30
"""Products of scores that are as large lie 64 and more apart, or are the same: weights are 1 or none.  A product is rounded by as much, and so would be
what is to be 2^0: twice as large ones would make it infinite.  With a power of 2 as the factor no product is rounded.  On an H200 the choice costs float32
nothing (4x16x1024x64 174 us), bf16 1 to 4% (4x32x4096x128 1516 us, with it 1578)."""


@dataclass(frozen=True)
class Softmax:
    """``factor``: what scores are to be multiplied by, for a power of 2 instead of e; positive.  ``large``: scores may be as large as what
    stands for -inf in masks that are added, whose products are no numbers, or far from each other's: then differences are multiplied.
    ``halves``: of the rows of a thread those that are any; the other's weights are 0.  ``exact``: as float32 is, of scores of any size;
    otherwise products with ``factor`` from 2^31 on are no number in the end, as in torch's own fused kernels.
    ``added``: by how much what sums are divided by is more than the weights' total."""

    words: Words
    factor: float
    large: bool
    halves: Sequence[int] = HALVES
    exact: bool = False
    added: float = 0.0
    state: ClassVar[tuple[int, int]] = (2, 2)  # numbers of a ``State``, of each kind

    def step(self, scores: Sequence[ir.Value], old: State | None) -> tuple[list[ir.Value], State, list[ir.Value]]:
        """The weights of a block's scores (not divided by their sum), the state with them, and by what earlier weights of both rows are too
        large since."""
        weights, largest, total, decay = list(scores), [], [], []
        for half in HALVES:
            own = self.row(half, len(scores))
            if half not in self.halves:
                largest, decay = [*largest, float32(0.0)], [*decay, float32(1.0)]
                for i in own:
                    weights[i] = float32(0.0)
                continue
            most = self.in_row(reduce_in_chains([scores[i] for i in own], maximum), maximum)
            most = most if old is None else maximum(old.largest[half], most)
            largest.append(most)
            base = self.base(most)
            if old is not None:
                decay.append(self.decay(old.largest[half], base))
            for i in own:
                weights[i] = self.weight(scores[i], base)
        for half in HALVES:
            if half not in self.halves:
                total.append(float32(0.0))
                continue
            sum_ = reduce_in_chains([weights[i] for i in self.row(half, len(scores))], arith.addf)
            total.append(sum_ if old is None else fma(old.total[half], decay[half], sum_))
        return weights, State(largest, total), decay

    def totals(self, state: State) -> list[ir.Value]:
        """The sums of both rows' weights."""
        return [self.in_row(x, arith.addf) for x in state.total]

    def reciprocals(self, totals: Sequence[ir.Value], safe: bool) -> list[ir.Value]:
        """By what both rows' sums of products are divided; ``safe``: 0 where every weight is."""
        found = []
        for total in totals:
            divisor = arith.addf(total, float32(self.added)) if self.added else total
            inverse = llvm.CallIntrinsicOp(total.type, "llvm.nvvm.rcp.approx.ftz.f", [divisor], [], []).operation.results[0]
            if self.added or safe:
                empty = arith.cmpf(arith.CmpFPredicate.OEQ, total, float32(0.0))
                inverse = arith.select(empty, float32(0.0 if safe else nan), inverse)
            found.append(inverse)
        return found

    def base(self, most: ir.Value) -> Base:
        """Of a row whose largest score is ``most``: what ``weight`` takes."""
        # Of a row without a key so far every score is -inf, and so its difference to the largest one would be NaN.
        nothing = arith.cmpf(arith.CmpFPredicate.OEQ, most, float32(-inf))
        most = arith.select(nothing, float32(0.0), most)
        if self.large:
            return Base(most, float32(self.factor))
        factor = float32(self.factor)
        if self.exact:
            size = operation("math.absf", [most.type], [most])
            coarse = arith.cmpf(arith.CmpFPredicate.OGE, size, float32(_COARSE / self.factor))
            factor = arith.select(coarse, float32(2.0 ** ceil(log2(self.factor))), factor)
        return Base(arith.mulf(most, arith.negf(factor)), factor)

    def weight(self, score: ir.Value, base: Base) -> ir.Value:
        """Of a score beside the largest one, which has 1."""
        if self.large:
            return power_of_two(arith.mulf(arith.subf(score, base.value), base.factor))
        return power_of_two(fma(score, base.factor, base.value))

    def decay(self, largest: ir.Value, base: Base) -> ir.Value:
        """The weight of what was the largest score so far: 1 where it still is."""
        if self.large:
            return self.weight(largest, base)
        # ``weight`` is by what a base was rounded beside 1, and that once for each block: of float32, 4x32x4096x128 of one query, by 32 blocks
        # that follow each other the error was 1.8e-6 and by 64 3.4e-6, eager's 4.6e-7.
        return power_of_two(arith.subf(base.value, arith.mulf(largest, arith.negf(base.factor))))

    def in_row(self, value: ir.Value, combine: Callable) -> ir.Value:
        """Of the four threads that share a row."""
        for distance in (1, 2):
            value = combine(value, exchange(self.words, value, distance))
        return value

    @staticmethod
    def row(half: int, count: int) -> list[int]:
        return [4 * j + 2 * half + e for j in range(count // 4) for e in range(2)]


@dataclass(frozen=True)
class Unnormalised(Softmax):
    """In its place where weights are scores, which nothing is known of from block to block."""

    state: ClassVar[tuple[int, int]] = (0, 0)

    def step(self, scores: Sequence[ir.Value], old: State | None) -> tuple[list[ir.Value], State, list[ir.Value]]:
        weights = list(scores)
        for half in set(HALVES) - set(self.halves):
            for i in self.row(half, len(scores)):
                weights[i] = float32(0.0)
        return weights, State([], []), []

    def totals(self, state: State) -> list[ir.Value]:
        return [float32(1.0)] * 2

    def reciprocals(self, totals: Sequence[ir.Value], safe: bool) -> list[ir.Value]:
        return [float32(1.0)] * len(totals)

    def decay(self, largest: ir.Value, base: Base) -> ir.Value:
        return float32(1.0)


@dataclass(frozen=True)
class Divided(Unnormalised):
    """The same where they are divided by something of each row."""

    state: ClassVar[tuple[int, int]] = (0, 2)
    divisor: Divisor | None = None

    def step(self, scores: Sequence[ir.Value], old: State | None) -> tuple[list[ir.Value], State, list[ir.Value]]:
        weights, *_ = super().step(scores, old)
        total = []
        for half in HALVES:
            own = [weights[i] for i in self.row(half, len(weights))] if half in self.halves else [float32(0.0)]
            own = [operation("math.absf", [x.type], [x]) for x in own] if self.divisor.absolute else own
            sum_ = reduce_in_chains(own, arith.addf)
            total.append(sum_ if old is None else arith.addf(old.total[half], sum_))
        return weights, State([], total), []

    def totals(self, state: State) -> list[ir.Value]:
        return [self.in_row(x, arith.addf) for x in state.total]

    def reciprocals(self, totals: Sequence[ir.Value], safe: bool) -> list[ir.Value]:
        made = self.divisor.made
        found = totals if made is None else [inline_body(made.block, [x] * len(made.block.arguments))[0] for x in totals]
        return [arith.divf(float32(1.0), x) for x in found]


def softmax_of(a: AttentionKernel) -> Callable[..., Softmax]:
    """What makes weights of scores."""
    return Softmax if a.softmax else Unnormalised if a.divisor is None else partial(Divided, divisor=a.divisor)


def pack_weights(weights: Sequence[ir.Value], element: ir.Type) -> list[ir.Value]:
    """Weights as the tensor core takes a lhs in registers, four for each 16 keys: they are in the right threads already."""
    narrow, i32 = ir.VectorType.get([2], element), ir.IntegerType.get_signless(32)
    pairs = [join(weights[i:i + 2]) for i in range(0, len(weights), 2)]
    return [operation("llvm.bitcast", [i32], [arith.truncf(narrow, pair)]) for pair in pairs]


def scale_rows(sums: Sequence[ir.Value], factors: Sequence[ir.Value]) -> list[ir.Value]:
    """Both rows' sums times their factors, if there are some."""
    if not factors:
        return list(sums)
    return [arith.mulf(x, factors[i >> 1 & 1]) for i, x in enumerate(sums)]


def fma(x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """``x * y + z``, rounded once."""
    return operation("llvm.intr.fma", [x.type], [x, y, z])


def maximum(x: ir.Value, y: ir.Value) -> ir.Value:
    """Without what is no number: that comes into the sum."""
    return operation("llvm.intr.maxnum", [x.type], [x, y])


def power_of_two(x: ir.Value) -> ir.Value:
    """The hardware's approximation; results too small for normal numbers are 0."""
    return llvm.CallIntrinsicOp(x.type, "llvm.nvvm.ex2.approx.ftz.f", [x], [], []).operation.results[0]


def logarithm(x: ir.Value) -> ir.Value:
    """The natural one."""
    found = llvm.CallIntrinsicOp(x.type, "llvm.nvvm.lg2.approx.ftz.f", [x], [], []).operation.results[0]
    return arith.mulf(found, float32(log(2)))


def reduce_in_chains(values: Sequence[ir.Value], combine: Callable) -> ir.Value:
    """All values combined: in several chains of dependent operations, which keep the pipeline busy, and then these."""
    chains = list(values[:_CHAINS])
    for i, value in enumerate(values[_CHAINS:]):
        chains[i % _CHAINS] = combine(chains[i % _CHAINS], value)
    while len(chains) > 1:
        chains = [combine(a, b) for a, b in zip(chains[::2], chains[1::2])] + chains[len(chains) // 2 * 2:]
    return chains[0]
