"""Writes of rows to KV caches by the blocks of an attention kernel, before they read them.

All threads of a block write what is to be in the rows that it reads, see that the copy engine finds it there, and meet; then the copies of keys and
values start as ever.  No block waits for another one (``schedule/attention/writes``).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from inferno.codegen.attention.frame import Frame
from inferno.codegen.attention.tiles import Place
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.launcher import launch, pointer
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words, advance, device_kernel, loop, special_register
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir, nvvm
from inferno.schedule.attention.cache_writes import CacheWrite
from inferno.schedule.attention.writes import RowWrite

_LANES = 8  # elements of 16 bits that a thread moves at a time
_THREADS = 256  # of a block that copies
_ROUNDS = 2  # of all threads, up to which as many share an update as its row has parts


class CacheWriter:
    def __init__(self, frame: Frame) -> None:
        self.frame, self.words, self.wide = frame, frame.words, Integers(64)

    def emit(self) -> None:
        """By all threads of a block, for all of its tiles."""
        self.frame.numbers.each([], self.tile)
        nvvm.FenceProxyOp(ir.Attribute.parse("#nvvm.proxy_kind<async.global>"))
        nvvm.BarrierOp()

    def tile(self, number: ir.Value) -> Sequence[ir.Value]:
        """The first threads have the first cache, the next ones the second."""
        f, words, writes = self.frame, self.words, self.frame.tiling.writes
        place, threads = f.order.place(number), f.schedule.threads // len(writes)
        for i, write in enumerate(writes):
            own = words.sub(f.thread, i * threads)
            with only_if(words.less(own, threads)):
                self.rows(write, place, own, threads)
        return []

    def rows(self, w: RowWrite, place: Place, thread: Integer, threads: int) -> None:
        """The updates of the tile's keys: a few threads each, or one each where they are many."""
        words, count, parts = self.words, w.write.updates, w.width // _LANES
        team = parts if count * parts <= _ROUNDS * threads else 1
        together = threads // team
        first, member = words.div(thread, team), words.rem(thread, team)

        def turn(update: ir.Value) -> Sequence[ir.Value]:
            self.update(w, place, update, member, team)
            return []

        with only_if(words.less(first, min(together, count))):
            if count <= together:
                turn(first)
            else:
                loop(words, first, count, together, [], turn)

    def update(self, w: RowWrite, place: Place, number: Integer, member: Integer, team: int) -> None:
        f, words, wide, write = self.frame, self.words, self.wide, w.write
        table, columns = f.tensors[write.table], len(write.along)
        inside, offset = None, wide.value(0)
        for column, d in enumerate(write.along):
            at = table.read(words.dot([number], [columns], column))
            at = at if at.type == wide.type else arith.extsi(wide.type, at)
            fits = wide.less(at, write.shape[d])
            inside = fits if inside is None else arith.andi(inside, fits)
            offset = wide.add(offset, wide.mul(at, w.strides[d]))
        source = words.mul(number, write.size)
        for d in w.windows:
            at = words.rem(words.div(place.grid[d.axis], d.part), d.size)
            offset = wide.add(offset, wide.mul(words.widen(at), d.stride))
            source = words.add(source, words.mul(at, write.steps[d.dim]))
        if w.row:
            begin, end = self.keys(w, place)
            for at, stride in zip(place.grid, w.begin):
                begin = wide.add(begin, wide.mul(words.widen(at), stride))
            # Differences in front of the first one are the largest numbers there are.
            inside = arith.andi(inside, wide.less(wide.sub(offset, begin), end))
        with only_if(inside):
            source = words.add(source, words.mul(member, _LANES))
            offset = wide.add(offset, wide.mul(words.widen(member), _LANES))
            cache, new = f.tensors[write.cache], f.tensors[write.new]
            here = replace(cache, base=advance(cache.base, offset, stored_type(cache.element)))
            for part in range(0, w.width, team * _LANES):
                here.write(new.read(source, part, _LANES, _LANES), 0, part, _LANES)

    def keys(self, w: RowWrite, place: Place) -> tuple[Integer, Integer]:
        """Where the keys that are this block's to write begin, and how far they reach, in elements: those that it reads, and what nobody reads behind the
        last block's."""
        f, words, wide, s = self.frame, self.words, self.wide, self.frame.schedule
        if s.shares == 1:
            return 0, w.rows * w.row
        begin = words.mul(place.begin, s.keys)
        end = words.select(words.equal(f.part, s.shares - 1), w.rows, words.mul(place.end, s.keys))
        begin = words.select(words.equal(f.part, 0), 0, begin)
        begin, end = (wide.mul(words.widen(x), w.row) for x in (begin, end))
        # The last block may begin behind the last key.
        return begin, arith.maxsi(wide.sub(end, begin), wide.value(0))


def emit_copies(words: Words, module: ir.Block, name: str, writes: Sequence[CacheWrite]) -> None:
    """The kernels that copy caches that cannot be written to where they are."""
    for count in dict.fromkeys(prod(w.shape) for w in writes):
        with device_kernel(module, _copy(name, count), [READ_BUFFER, WRITTEN_BUFFER], _THREADS) as device:
            element = next(w.element for w in writes)
            source, target = (Elements(words, p, element, readonly) for p, readonly in zip(device.parameters, (True, False)))
            number = words.add(words.mul(special_register("ctaid.x"), _THREADS), special_register("tid.x"))
            with only_if(words.less(number, count // _LANES)):
                source, target = (x.moved([number], [_LANES]) for x in (source, target))
                target.write(source.read(0, 0, _LANES, _LANES), 0, 0, _LANES)


def launch_copies(name: str, writes: Sequence[CacheWrite], arguments: Sequence[ir.Value]) -> None:
    """In the kernel's launcher, in front of it; a cache that is written to where it is needs none."""
    for w in writes:
        count = prod(w.shape)
        blocks = -(-count // (_LANES * _THREADS))
        parameters = [pointer(arguments[w.old]), pointer(arguments[w.cache])]
        launch(f"{name}_gpu", _copy(name, count), parameters, (blocks, 1, 1), (_THREADS, 1, 1), copies=True)


def _copy(name: str, count: int) -> str:
    return f"{name}_copy_{count}"
