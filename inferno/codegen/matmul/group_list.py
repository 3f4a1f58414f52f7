"""The tiles of a grouped product, which one block lists on the device: a group is consecutive rows with the same number.

Where that makes more tiles than all rows have with every matrix, since rows come in no order, those are listed.

In memory, as 32-bit numbers: how many tiles there are; from ``FIRST`` on the first row and the number of each; and then each row's number.
"""

from collections.abc import Callable, Sequence
from math import ceil

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary
from inferno.codegen.nvvm.builder import (
    READ_BUFFER, WRITTEN_BUFFER, Device, Words, device_kernel, integer_type, load_shared, loop, operation, shared_pointer, special_register, store,
)
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, clone_onto, ir, nvvm, owner
from inferno.schedule.matmul.selected_products import SelectedProduct

FIRST = 2  # where the list begins, behind the number of tiles
_THREADS, _WARP = 1024, 32  # of the only block, as many as there can be; of a warp


def numbers(rows: int) -> int:
    """Where the rows' numbers are: behind as many tiles as there could be."""
    return FIRST + 2 * rows


def launch_list(kernel: str, name: str, arguments: Sequence[ir.Value], p: SelectedProduct, rows: int) -> ir.Value:
    """In the launcher of ``kernel``: the list, made by the kernel ``name``."""
    made = temporary((numbers(rows) + rows,), integer_type(32))
    read = [pointer(arguments[a]) for a in dict.fromkeys(p.given.values())]
    launch(f"{kernel}_gpu", name, [*read, pointer(made)], (1, 1, 1), (_THREADS, 1, 1), shared=2 * 4 * _WARP + 4)
    return made


def emit_list(module: ir.Block, name: str, p: SelectedProduct, rows: int, matrices: int, tile_m: int) -> None:
    """The kernel of that launch: each thread has some rows behind each other."""
    read = list(dict.fromkeys(p.given.values()))
    parameters = [*[READ_BUFFER] * len(read), WRITTEN_BUFFER]
    with device_kernel(module, name, parameters, _THREADS, shared=True) as device:
        _List(Words({}), device, p, rows, matrices, tile_m).emit()


class _List:
    def __init__(self, words: Words, device: Device, p: SelectedProduct, rows: int, matrices: int, tile_m: int) -> None:
        self.words, self.device, self.p, self.rows, self.matrices, self.tile_m = words, device, p, rows, matrices, tile_m
        self.places = {a: i for i, a in enumerate(dict.fromkeys(p.given.values()))}
        self.out = Elements(words, device.parameters[-1], words.type, readonly=False)

    def emit(self) -> None:
        words, rows = self.words, self.rows
        self.thread = special_register("tid.x")
        self.lane, self.warp = words.mask(self.thread, _WARP - 1), words.shr(self.thread, 5)
        each = ceil(rows / _THREADS)
        own = [words.add(words.mul(self.thread, each), i) for i in range(each)]
        before = self.number(words.select(words.equal(self.thread, 0), 0, words.min(words.sub(own[0], 1), rows - 1)))
        found = [self.number(words.min(row, rows - 1)) for row in own]
        # The first row of the group that each row is in.
        begins, last = [], words.value(0)
        for row, number, previous in zip(own, found, [before, *found]):
            last = words.select(words.equal(number, previous), last, row)
            begins.append(last)
        carried = self.scan(last, arith.maxui, 0)[0]
        begins = [arith.maxui(words.value(b), carried) for b in begins]
        # Every tile_m-th row of a group begins a tile.
        chosen = []
        for row, number, begin in zip(own, found, begins):
            first = words.equal(words.mask(words.sub(row, begin), self.tile_m - 1), 0)
            chosen.append(arith.andi(arith.andi(first, words.less(row, rows)), words.less(number, self.matrices)))
        counts = [words.select(c, 1, 0) for c in chosen]
        total = counts[0]
        for c in counts[1:]:
            total = words.add(total, c)
        place, end = self.scan(total, arith.addi, 1)
        every = self.matrices * ceil(rows / self.tile_m)
        few = words.less(self.of_all(end), every + 1)
        for row, number, choice, count in zip(own, found, chosen, counts):
            with only_if(arith.andi(few, choice)):
                self.list(place, row, number)
            with only_if(words.less(row, rows)):
                self.out.write(number, words.add(row, numbers(rows)))
            place = words.add(place, count)
        with only_if(words.equal(self.thread, _THREADS - 1)):
            self.out.write(words.min(end, every), 0)
        # Of rows in no order there would be more tiles than all rows have with every matrix.
        with only_if(words.less(words.select(few, 1, 0), 1)):
            loop(words, self.thread, every, _THREADS, [], lambda i: self.list(
                i, words.mul(words.div(i, self.matrices), self.tile_m), words.rem(i, self.matrices)))

    def list(self, place: Integer, row: Integer, number: Integer) -> tuple[()]:
        at = self.words.shl(place, 1)
        self.out.write(self.words.value(row), at, FIRST)
        self.out.write(self.words.value(number), at, FIRST + 1)
        return ()

    def of_all(self, value: ir.Value) -> ir.Value:
        """The last thread's value."""
        words, at = self.words, self.words.add(self.device.shared, 2 * 4 * _WARP)
        with only_if(words.equal(self.thread, _THREADS - 1)):
            store(value, shared_pointer(words, at), 4)
        nvvm.BarrierOp()
        return load_shared(words, at, words.type, 1)

    def number(self, row: Integer) -> ir.Value:
        """A row's number, computed as the operation's body does."""
        words, known = self.words, {}
        for value, argument in self.p.given.items():
            known[value] = Elements(words, self.device.parameters[self.places[argument]], value.type).read(row)

        def computed(value: ir.Value) -> ir.Value:
            if value not in known:
                op = owner(value)
                if op.name == "linalg.index":
                    known[value] = words.index(row)
                else:
                    for operand in op.operands:
                        computed(operand)
                    clone_onto(op, known)
            return known[value]

        return arith.index_cast(words.type, computed(self.p.number))

    def scan(self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value], turn: int) -> tuple[ir.Value, ir.Value]:
        """What all threads before this one have, joined, 0 for the first; and with its own."""
        words = self.words
        inside = self.warp_scan(value, join)
        at = words.add(self.device.shared, turn * 4 * _WARP)
        with only_if(words.equal(self.lane, _WARP - 1)):
            store(inside, shared_pointer(words, words.add(at, words.shl(self.warp, 2))), 4)
        nvvm.BarrierOp()
        warps = self.warp_scan(load_shared(words, words.add(at, words.shl(self.lane, 2)), words.type, 1), join)
        earlier = _shuffled(words, warps, words.select(words.equal(self.warp, 0), 0, words.sub(self.warp, 1)), "idx")
        earlier = words.select(words.equal(self.warp, 0), 0, earlier)
        beside = words.select(words.equal(self.lane, 0), 0, _shuffled(words, inside, 1, "up"))
        return join(earlier, beside), join(earlier, inside)

    def warp_scan(self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        words = self.words
        for distance in (1, 2, 4, 8, 16):
            other = _shuffled(words, value, distance, "up")
            value = words.select(words.less(self.lane, distance), value, join(value, other))
        return value


def _shuffled(words: Words, value: ir.Value, place: Integer, kind: str) -> ir.Value:
    bound = 0 if kind == "up" else _WARP - 1
    return operation(
        "nvvm.shfl.sync", [words.type], [words.value(-1), value, words.value(place), words.value(bound)], kind=f"#nvvm<shfl_kind {kind}>")
