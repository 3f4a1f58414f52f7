"""``tm_tensor.scan`` (cumulative sums, products, maxima): a row by one thread, or a long row by a block.

In a block each thread takes neighbouring elements: it adds them up, learns from shared memory what all threads before it have,
and goes over its elements again.
"""

from dataclasses import dataclass, replace

from inferno.codegen.builders.conditions import if_else, only_if
from inferno.codegen.builders.device_function import DeviceFunction
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.mlir import arith, gpu, ir, memref, scf
from inferno.passes.shapes import known_shape
from inferno.schedule.analysis.combiners import Combiner, scan_combiner
from inferno.symbolic import Int, ceildiv, hint, product

_THREADS = 256  # of a block
# Shorter rows are not worth the barriers; with more rows than this, threads alone fill the machine.
_LONG, _FEW = 512, 16384


@dataclass(frozen=True)
class Scan:
    """``operands``: input, output, and the running value after the last element, which nobody reads if ``dead``."""

    operation: ir.Operation
    dim: int
    inclusive: bool
    shape: tuple[Int, ...]
    combiner: Combiner | None

    @property
    def rows(self) -> Int:
        return product(size for d, size in enumerate(self.shape) if d != self.dim)

    @property
    def length(self) -> Int:
        return self.shape[self.dim]

    @property
    def by_block(self) -> bool:
        return self.combiner is not None and self.inclusive and hint(self.length) >= _LONG and hint(self.rows) < _FEW

    @property
    def launch(self) -> tuple[Int, int]:
        """Blocks, and threads a block."""
        return (self.rows, _THREADS) if self.by_block else (ceildiv(self.rows, _THREADS), _THREADS)

    def shared(self) -> list[tuple[int, ir.Type]]:
        return [(_THREADS, self.combiner.type)] if self.by_block else []


def read_scan(op: ir.Operation) -> Scan:
    dim = ir.IntegerAttr(op.attributes["dimension"]).value
    inclusive = "inclusive" in op.attributes and ir.BoolAttr(op.attributes["inclusive"]).value
    combiner = scan_combiner(op)
    if combiner is not None:  # every element is a sum of its own: running values are added up as totals
        combiner = replace(combiner, type=combiner.total)
    return Scan(op, dim, inclusive, known_shape(op.operands[0]), combiner)


def emit_scan(scan: Scan, function: DeviceFunction, dead: bool) -> None:
    """The whole kernel; ``scan`` is of the operation cloned into ``function``."""
    ints = function.ints
    block = ints.block()
    thread = ints.thread(_THREADS)
    emitter = _Emitter(scan, function)
    if scan.by_block:
        emitter.block(block, thread, dead)
        return
    row = ints.add(ints.mul(block, _THREADS), thread)
    with only_if(ints.less(row, scan.rows)):
        emitter.row(row, dead)


@dataclass
class _Emitter:
    scan: Scan
    function: DeviceFunction

    def __post_init__(self) -> None:
        self.ints = self.function.ints
        self.source, self.target, self.last = self.scan.operation.operands

    def at(self, row: Integer, position: Integer) -> list[ir.Value]:
        rest = [s for d, s in enumerate(self.scan.shape) if d != self.scan.dim]
        coordinates = self.ints.split(row, rest)
        coordinates.insert(self.scan.dim, position)
        return [self.ints.index(c) for c in coordinates]

    def combine(self, running: ir.Value, term: ir.Value) -> ir.Value:
        """The running value, wide where the combiner is known, with one more element."""
        c = self.scan.combiner
        if c is not None:
            return c.combine(running, c.widen(term))
        return inline_body(self.scan.operation.regions[0].blocks[0], [running, term])[0]

    def load(self, row: Integer, position: Integer) -> ir.Value:
        return memref.load(self.source, self.at(row, position))

    def store(self, value: ir.Value, row: Integer, position: Integer) -> None:
        memref.store(self.round(value), self.target, self.at(row, position))

    def round(self, value: ir.Value) -> ir.Value:
        return self.scan.combiner.round(value) if self.scan.combiner is not None else value

    def widen(self, value: ir.Value) -> ir.Value:
        return self.scan.combiner.widen(value) if self.scan.combiner is not None else value

    def row(self, row: Integer, dead: bool) -> None:
        scan, ints = self.scan, self.ints
        end_at = self.at(row, 0)
        del end_at[scan.dim]
        first = self.load(row, 0) if scan.inclusive else memref.load(self.last, end_at)
        memref.store(first, self.target, self.at(row, 0))
        loop = scf.ForOp(ints.value(1), ints.value(scan.length), ints.value(1), [self.widen(first)])
        with ir.InsertionPoint(loop.body):
            i = loop.induction_variable
            term = self.load(row, i if scan.inclusive else ints.sub(i, 1))
            value = self.combine(loop.inner_iter_args[0], term)
            self.store(value, row, i)
            scf.YieldOp([value])
        if not dead and scan.length != 1:
            memref.store(self.round(loop.results[0]), self.last, end_at)

    def block(self, row: Integer, thread: Integer, dead: bool) -> None:
        scan, ints, c = self.scan, self.ints, self.scan.combiner
        share = ceildiv(scan.length, _THREADS)
        begin = ints.mul(thread, share)
        end = ints.min(ints.add(begin, share), scan.length)
        own = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), [c.identity()])
        with ir.InsertionPoint(own.body):
            scf.YieldOp([self.combine(own.inner_iter_args[0], self.load(row, own.induction_variable))])
        shared = self.function.shared[0]
        value, distance = own.results[0], 1
        memref.store(value, shared, [ints.index(thread)])
        gpu.barrier()
        while distance < _THREADS:
            before = scf.IfOp(ints.less(ints.value(distance - 1), thread), [c.type], has_else=True)
            with ir.InsertionPoint(before.then_block):
                other = memref.load(shared, [ints.index(ints.sub(thread, distance))])
                scf.yield_([c.combine(other, value)])
            with ir.InsertionPoint(before.else_block):
                scf.yield_([value])
            value = before.results[0]
            gpu.barrier()
            memref.store(value, shared, [ints.index(thread)])
            gpu.barrier()
            distance *= 2
        some = if_else(
            ints.less(ints.value(0), thread), [c.type], lambda: [memref.load(shared, [ints.index(ints.sub(thread, 1))])], lambda: [c.identity()],
        )
        again = scf.ForOp(ints.value(begin), ints.value(end), ints.value(1), [some[0]])
        with ir.InsertionPoint(again.body):
            value = self.combine(again.inner_iter_args[0], self.load(row, again.induction_variable))
            self.store(value, row, again.induction_variable)
            scf.YieldOp([value])
        if dead:
            return
        with only_if(arith.andi(ints.less(begin, scan.length), ints.equal(end, scan.length))):
            end_at = self.at(row, 0)
            del end_at[scan.dim]
            memref.store(self.round(again.results[0]), self.last, end_at)
