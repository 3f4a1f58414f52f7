"""A program of small operations as one block of threads: each operation in turn, by all threads, and a barrier before the next one.

What they exchange lies in shared memory as far as that reaches.  Operations are read as the universal generator reads them.  A map's points are
dealt out to the threads, several loads of a thread under way at once; the terms of a sum, and the places of a row that is scanned, are those of as
many threads as there are for each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.device_function import DeviceFunction, buffers_of, device_function, roots_of
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.flatten_accesses import flatten_accesses
from inferno.codegen.builders.integers import Integer
from inferno.codegen.composite.scan_lanes import ScanLanes
from inferno.codegen.universal.block_reductions import Shape, reduce_points, runs_along
from inferno.codegen.universal.buffer_operations import Fill, copy_between
from inferno.codegen.universal.points import Emitter
from inferno.codegen.universal.scan import read_scan
from inferno.codegen.universal.structured import Structured, read_structured, to_terms
from inferno.codegen.universal.to_launches import Launch, Launches
from inferno.codegen.universal.universal import generate_launches
from inferno.element_sizes import element_bytes
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, owner, scf
from inferno.powers import next_power_of_two
from inferno.schedule.composite.one_block import OneBlock
from inferno.target import STATIC_SHARED, Target

_UNROLL = 4  # points of a thread whose loads are under way at once
_SHORT = 8  # terms that a thread adds up alone

Emit = Callable[[DeviceFunction, Integer, list[ir.Value]], None]


def generate(kernel: func.FuncOp, schedule: OneBlock, target: Target) -> None:
    """Add ``gpu.module @<name>_gpu`` with one kernel, and make ``kernel`` its launcher."""
    generate_launches(kernel, schedule, target, _Block)


@dataclass(frozen=True)
class _Step:
    """An operation: buffers that it touches, those that it writes, shared arrays of its own, and what emits it, given these."""

    touched: list[ir.Value]
    written: set[ir.Value]
    arrays: list[tuple[int, ir.Type]]
    emit: Emit


@dataclass
class _Block(Launches):
    """Collects operations instead of making a kernel of each, and then makes one of all."""

    steps: list[_Step] = field(default_factory=list)

    def build(self) -> list[Launch]:
        super().build()
        if self.steps:
            self._emit()
        return self.done

    def _emit(self) -> None:
        threads = self.schedule.threads
        scratch = _largest([s.arrays for s in self.steps])
        held, arrays = self._held(sum(_bytes(*a) for a in scratch)), list(scratch)
        touched = list(dict.fromkeys(b for s in self.steps for b in s.touched))
        written = {b for s in self.steps for b in s.written}
        arrays += [(max(1, prod(b.type.shape)), b.type.element_type) for b in held]
        # (The largest number that threads count to is a multiple of them behind the last point.)
        function = device_function(self.module, self.name, [b for b in touched if b not in held], written, threads, 1 << 20, arrays)
        with ir.InsertionPoint.at_block_terminator(function.block), self.function.location:
            for buffer, array in zip(held, function.shared[len(scratch):]):
                function.hold(buffer, array)
            thread = function.ints.thread(threads)
            for number, step in enumerate(self.steps):
                if number:
                    gpu.barrier()
                step.emit(function, thread, _own(step.arrays, scratch, function.shared))
        flatten_accesses(function.operation, function.ints, function.layouts)
        function.drop_unused()
        self.done.append(Launch(self.name, function.buffers, 1, threads))

    def _held(self, taken: int) -> list[ir.Value]:
        """What lies in shared memory: buffers that nobody else sees, as many as there is room for behind so many bytes."""
        found = []
        for buffer in dict.fromkeys(b for s in self.steps for b in s.touched):
            if owner(buffer) is not None and buffer.type.has_static_shape:
                size = _bytes(max(1, prod(buffer.type.shape)), buffer.type.element_type)
                if taken + size <= STATIC_SHARED:
                    taken += size
                    found.append(buffer)
        return found

    def _add(self, op: ir.Operation, outputs: list[ir.Value], arrays: list[tuple[int, ir.Type]], emit: Emit) -> None:
        self.steps.append(_Step(buffers_of([op]), {r for v in outputs for r in roots_of(v)}, arrays, emit))

    # Structured operations.

    def _structured(self, s: Structured, starts: list[ir.Value | None], dead: list[bool]) -> None:
        if s.points == 0:
            return
        shape = _shape(s, self.schedule.threads)
        if shape is None:
            self._point_kernel(s, starts, dead)
            return

        def emit(function: DeviceFunction, thread: Integer, arrays: list[ir.Value]) -> None:
            emitter = self._emitter(function, s, starts, dead)
            to_terms(emitter.structured)
            expand_math(emitter.structured.operation)

            def some(number: Integer) -> None:
                reduce_points(emitter, shape, number, thread, arrays)

            _repeat(emitter.ints, shape.blocks(s), some, bool(arrays))
            emitter.structured.operation.erase()

        self._add(s.operation, s.outputs, shape.shared(s), emit)

    def _point_kernel(self, s: Structured, starts: list[ir.Value | None], dead: list[bool]) -> None:
        if s.points == 0:
            return

        def emit(function: DeviceFunction, thread: Integer, arrays: list[ir.Value]) -> None:
            emitter = self._emitter(function, s, starts, dead)
            _points(emitter, thread, self.schedule.threads)
            emitter.structured.operation.erase()

        self._add(s.operation, s.outputs, [], emit)

    def _emitter(self, function: DeviceFunction, s: Structured, starts: list[ir.Value | None], dead: list[bool]) -> Emitter:
        clone = function.clone(s.operation)
        if not s.serial:
            expand_math(clone)
        return Emitter(read_structured(clone, s), function.ints, [None if v is None else function.value(v) for v in starts], dead)

    def _fill(self, fill: Fill) -> None:
        self._point_kernel(read_structured(fill.operation), [None], [False])

    def _copy(self, source: ir.Value, target: ir.Value) -> None:
        with ir.InsertionPoint.at_block_terminator(self.function.regions[0].blocks[0]):
            self._point_kernel(read_structured(copy_between(source, target)), [None], [False])

    # Scans.

    def _scan(self, op: ir.Operation, number: int) -> None:
        scan = read_scan(op)
        if scan.combiner is None or not scan.inclusive or not all(isinstance(s, int) for s in scan.shape):
            raise CompileError("a scan whose running values are not known to combine in any order")
        lanes = ScanLanes.choose(scan, self.schedule.threads)
        dead = self._is_dead(op.operands[2], number)

        def emit(function: DeviceFunction, thread: Integer, arrays: list[ir.Value]) -> None:
            clone = function.clone(op)
            same = replace(lanes, scan=replace(read_scan(clone), shape=scan.shape))
            _repeat(function.ints, same.rounds, lambda i: same.emit(function.ints, i, thread, arrays, dead), bool(arrays))
            clone.erase()

        self._add(op, list(op.operands)[1:], lanes.shared(), emit)

    def _sort(self, op: ir.Operation, number: int) -> None:
        raise CompileError("a sort is no operation of one block")

    def _scatter(self, op: ir.Operation, number: int) -> None:
        raise CompileError("a scatter is no operation of one block")

    def _serial(self, operations: list[ir.Operation]) -> None:
        raise CompileError(f"{operations[0].name} is no operation of one block")


def _repeat(ints, count: int, emit: Callable[[Integer], None], meets: bool) -> None:
    """``emit(i)`` for each number below ``count``; with ``meets`` threads wait for each other before the next."""
    if count == 1:
        emit(0)
        return
    loop = scf.ForOp(ints.value(0), ints.value(count), ints.value(1))
    with ir.InsertionPoint(loop.body):
        emit(loop.induction_variable)
        if meets:
            gpu.barrier()
        scf.yield_([])


def _shape(s: Structured, threads: int) -> Shape | None:
    """How many threads have a sum; None where a thread has its own."""
    if s.combiners is None or s.length <= _SHORT:
        return None
    along = min(next_power_of_two(-(-s.length // 2)), max(1, threads // next_power_of_two(s.points)))
    lanes_along = s.points < 32 or runs_along(s)
    if lanes_along:
        along = max(along, min(_SHORT, next_power_of_two(s.length) // 4))
    return Shape(lanes_along, threads // along, along) if along > 1 else None


def _points(emitter: Emitter, thread: Integer, threads: int) -> None:
    """Each thread computes every so-many-th point."""
    s, ints = emitter.structured, emitter.ints
    emitter.contract()
    if any(s.sizes[d] != 1 for d in s.serial):
        def one(number: Integer) -> None:
            point = ints.add(ints.mul(number, threads), thread)
            with only_if(ints.less(point, s.points) if s.points % threads != 0 else None):
                emitter.point(point)

        _repeat(ints, -(-s.points // threads), one, False)
        return
    whole, left = divmod(s.points, threads)
    rounds = whole // _UNROLL

    def group(first: Integer, count: int, last: bool) -> None:
        """``count`` points, far apart, from ``first`` on; with ``last`` there may be none at the last place."""
        places = [ints.add(first, u * threads) for u in range(count)]
        if count == 1:
            with only_if(ints.less(places[0], s.points) if last else None):
                emitter.point(places[0])
            return
        at = [emitter.place(p) for p in places[:-1]]  # a thread without a last point computes its first one again, and does not write it
        at.append(emitter.place(arith.select(ints.less(places[-1], s.points), places[-1], places[0]) if last else places[-1]))
        values = [emitter.body(a, emitter.running(a, needed=False)) for a in at]
        for u, (a, made) in enumerate(zip(at, values)):
            with only_if(ints.less(places[u], s.points) if last and u == count - 1 else None):
                emitter.store(a, made)

    if rounds:
        _repeat(ints, rounds, lambda i: group(ints.add(ints.mul(i, _UNROLL * threads), thread), _UNROLL, False), False)
    count = whole - rounds * _UNROLL + (left > 0)
    if count:
        group(ints.add(thread, rounds * _UNROLL * threads), count, left > 0)


def _bytes(count: int, element: ir.Type) -> int:
    return -(-count * element_bytes(element) // 16) * 16


def _largest(each: list[list[tuple[int, ir.Type]]]) -> list[tuple[int, ir.Type]]:
    """Arrays that hold those of any operation: of each type as many as one has, as long as the longest."""
    found: dict[ir.Type, list[int]] = {}
    for arrays in each:
        for type_ in dict.fromkeys(t for _, t in arrays):
            own = sorted((n for n, t in arrays if t == type_), reverse=True)
            known = found.setdefault(type_, [])
            known[:] = [max(a, b) for a, b in zip([*known, *[0] * len(own)], [*own, *[0] * len(known)])][:max(len(known), len(own))]
    return [(n, t) for t, counts in found.items() for n in counts]


def _own(wanted: list[tuple[int, ir.Type]], arrays: list[tuple[int, ir.Type]], values: list[ir.Value]) -> list[ir.Value]:
    """The shared arrays of an operation: some of all."""
    left, found = list(range(len(arrays))), []
    for _, type_ in wanted:
        found.append(next(i for i in left if arrays[i][1] == type_))
        left.remove(found[-1])
    return [values[i] for i in found]
