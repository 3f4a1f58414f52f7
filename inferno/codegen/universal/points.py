"""Structured operations with one thread a point of the result, and what every form of them shares: terms at a place.

Running values stay in registers.  Long float32 sums are added in chunks, whose sums are added in float64: a sum of n terms that
are added one after the other is off by about sqrt(n) roundings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.expand_math import may_contract
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.universal.structured import Structured, combine, to_terms
from inferno.mlir import affine, ir, is_read, memref, scf
from inferno.passes.affine import linear
from inferno.passes.generics import maps
from inferno.symbolic import Int, bounds, ceildiv, is_multiple, product

# Terms that are added one after the other before their sum goes to a total in float64.  Eager's products of matrices keep several
# sums too; with 64 terms this one's error was above 1.5 of eager's for inner sizes of 37.
_CHUNK = 8

Values = list[ir.Value]


@dataclass(frozen=True)
class Emitter:
    """Code of ``structured`` at the insertion point.  ``starts``: what a result's running value starts from, for the
    destinations that were filled with a constant; None where it is in memory.  ``dead``: results that nobody reads."""

    structured: Structured
    ints: Integers
    starts: Sequence[ir.Value | None]
    dead: Sequence[bool]

    @property
    def block(self) -> ir.Block:
        return self.structured.operation.regions[0].blocks[0]

    def thread_per_point(self, threads: int) -> None:
        """The whole kernel: thread i computes point i, and writes its results."""
        s, ints = self.structured, self.ints
        self.contract()
        block = ints.block()
        thread = ints.thread(threads)
        point = ints.add(ints.mul(block, threads), thread)
        with only_if(None if is_multiple(s.points, threads) else ints.less(point, s.points)):
            self.point(point)

    def point(self, point: Integer) -> None:
        at = self.place(point)
        s = self.structured
        loops = [d for d in s.serial if s.sizes[d] != 1]
        if s.combiners is not None and loops:
            to_terms(s)
            self.store(at, [c.round(v) for c, v in zip(s.combiners, self.sums(at, loops))])
        elif s.in_registers and loops:
            self.store(at, self.nest(at, loops, self.running(at), self.body))
        else:
            self.nest(at, loops, [], lambda here, _: self.store(here, self.body(here, self.running(here, needed=False))) or [])

    def contract(self) -> None:
        """Let products and the sums that they are added to become fused multiply-adds."""
        if not self.structured.serial:
            return
        for op in self.block.operations:
            if op.operation.name in ("arith.addf", "arith.mulf") and may_contract(op.operation):
                op.operation.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<contract>")

    # Sums.

    def sums(self, at: dict[int, Integer], loops: list[int]) -> Values:
        """What the results start from, with all terms of the nest of ``loops``."""
        s, ints = self.structured, self.ints
        starts = [c.widen(v) for c, v in zip(s.combiners, self.running(at))]
        length = product(s.sizes[d] for d in loops)
        if bounds(length)[1] <= _CHUNK or not any(c.sums for c in s.combiners):
            return self.nest(at, loops, starts, self.accumulate)
        totals = [c.to_total(v) for c, v in zip(s.combiners, starts)]
        inner: list[int] = []
        while bounds(product(s.sizes[d] for d in [loops[-1 - len(inner)], *inner]))[1] <= _CHUNK:
            inner.insert(0, loops[-1 - len(inner)])
        outer = loops[: len(loops) - len(inner)]
        if bounds(product(s.sizes[d] for d in inner) * s.sizes[outer[-1]])[1] <= 2 * _CHUNK:
            inner.insert(0, outer.pop())
        if inner:
            return self.nest(at, outer, totals, lambda here, v: self.add(v, self.nest(here, inner, self.identities(), self.accumulate)))
        last = loops[-1]

        def cut(here: dict[int, Integer], running: Values) -> Values:
            def one(number: Integer, values: Values) -> Values:
                begin = ints.mul(number, _CHUNK)
                end = ints.min(ints.add(begin, _CHUNK), s.sizes[last])
                return self.add(values, self.loop(begin, end, self.identities(), lambda i, v: self.accumulate({**here, last: i}, v)))

            return self.loop(0, ceildiv(s.sizes[last], _CHUNK), running, one)

        return self.nest(at, outer[:-1], totals, cut)

    def add(self, totals: Values, running: Values) -> Values:
        return self.combine(totals, [c.to_total(v) for c, v in zip(self.structured.combiners, running)])

    def identities(self) -> Values:
        return [c.identity() for c in self.structured.combiners]

    def accumulate(self, at: dict[int, Integer], running: Values) -> Values:
        """The running values with one more term (the body yields terms)."""
        return self.combine(running, self.terms(at))

    def terms(self, at: dict[int, Integer]) -> Values:
        combiners = self.structured.combiners
        return [c.widen(t) for c, t in zip(combiners, self.body(at, [None] * len(combiners)))]

    def combine(self, a: Values, b: Values) -> Values:
        return combine(self.structured, a, b)

    # Loops.

    def nest(self, at: dict[int, Integer], loops: list[int], values: Values, body: Callable) -> Values:
        if not loops:
            return body(at, values)
        d = loops[0]
        return self.loop(0, self.structured.sizes[d], values, lambda i, v: self.nest({**at, d: i}, loops[1:], v, body))

    def loop(self, begin: Integer, end: Integer, values: Values, body: Callable, step: Integer = 1) -> Values:
        ints = self.ints
        loop = scf.ForOp(ints.value(begin), ints.value(end), ints.value(step), values)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(body(loop.induction_variable, list(loop.inner_iter_args)))
        return list(loop.operation.results)

    # Memory.

    def place(self, point: Integer) -> dict[int, Integer]:
        """The coordinates of a point, by loop; serial loops of one iteration are at 0."""
        s = self.structured
        at: dict[int, Integer] = {d: 0 for d in s.serial if s.sizes[d] == 1}
        wide = [d for d in s.parallel if s.sizes[d] != 1]
        at.update({d: 0 for d in s.parallel if s.sizes[d] == 1})
        at.update(zip(wide, self.ints.split(point, [s.sizes[d] for d in wide])))
        return at

    def body(self, at: dict[int, Integer], running: Sequence[ir.Value | None]) -> Values:
        """The operation's body at a place."""
        s = self.structured
        sources = [
            self.load(i, at) if is_read(a) else None for i, a in enumerate(list(self.block.arguments)[: s.inputs])
        ]
        indices = [self.ints.index(at[d]) for d in range(len(s.sizes))]
        return inline_body(self.block, [*sources, *running], indices)

    def running(self, at: dict[int, Integer], needed: bool = True) -> Values:
        """What the results are before this operation; if not ``needed``, None for those that the body does not read."""
        s, found = self.structured, []
        for i, start in enumerate(self.starts):
            read = needed or is_read(self.block.arguments[s.inputs + i])
            found.append(start if start is not None or not read else self.load(s.inputs + i, at))
        return found

    def load(self, operand: int, at: dict[int, Integer]) -> ir.Value:
        value = list(self.structured.operation.operands)[operand]
        return memref.load(value, self.coordinates(operand, at)) if isinstance(value.type, ir.MemRefType) else value

    def store(self, at: dict[int, Integer], values: Values) -> None:
        for i, (value, target) in enumerate(zip(values, self.structured.outputs)):
            if not self.dead[i]:
                memref.store(value, target, self.coordinates(self.structured.inputs + i, at))

    def coordinates(self, operand: int, at: dict[int, Integer]) -> list[ir.Value]:
        """Where an operand is accessed, for the loops' coordinates ``at``."""
        map_, found = maps(self.structured.operation)[operand], []
        for expr in map_.results:
            part = linear(expr, map_.n_dims)
            if part is not None:
                found.append(self.ints.index(self.ints.dot([at.get(d, 0) for d in range(map_.n_dims)], part[0], part[1])))
            else:
                dims = [self.ints.index(at[d]) for d in range(map_.n_dims)]
                found.append(affine.AffineApplyOp(ir.AffineMap.get(map_.n_dims, 0, [expr]), dims).result)
        return found


def point_blocks(structured: Structured, threads: int) -> tuple[Int, int]:
    """Blocks, and threads a block, of ``thread_per_point``."""
    threads = 1 if structured.points == 1 else min(threads, -(-bounds(structured.points)[1] // 32) * 32)
    return ceildiv(structured.points, threads), threads


