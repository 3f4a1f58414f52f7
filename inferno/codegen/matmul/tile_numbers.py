"""How a persistent kernel's roles get the numbers of tiles: statically, every n-th tile, or dynamically from a counter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, pointer, temporary
from inferno.codegen.nvvm.builder import (
    WRITTEN_BUFFER, Words, device_kernel, integer_type, load_shared, loop, loop_while, shared_pointer, special_register, store, uniform,
)
from inferno.codegen.nvvm.mbarriers import Ring
from inferno.mlir import ir, llvm
from inferno.symbolic import Int, minimum

_NO_TILE = -1  # the number that ends a role

Body = Callable[..., Sequence[ir.Value]]


def launch_counter(name: str, workers: Int) -> ir.Value:
    """In the launcher of ``name``: the parameter that is its counter, which a launch makes 0 where there are ``workers``."""
    counter = pointer(temporary((1,), integer_type(32)))
    launch(f"{name}_gpu", f"{name}_counter", [counter], (minimum(workers, 1), 1, 1), (32, 1, 1))
    return counter


def emit_counter(words: Words, module: ir.Block, name: str) -> None:
    """The kernel of that launch."""
    with device_kernel(module, f"{name}_counter", [WRITTEN_BUFFER], 32) as device:
        with only_if(words.equal(special_register("tid.x"), 0)):
            store(words.value(0), device.parameters[0], 4)


@dataclass(frozen=True)
class TileNumbers:
    """``count`` tiles, of which this block, ``worker`` of n ``workers``, takes every n-th; or, with a ``counter``, a zero in global memory, whenever
    it has begun the copies of one the next.  A consumer's slot of ``rows`` also holds the number of the tile then, at shared address ``numbers``.
    ``late``: the next number is taken when all of a tile's copies are started; few long tiles come out more evenly, for a wait."""

    words: Words
    rows: Ring
    numbers: Integer
    counter: ir.Value | None
    worker: Integer
    workers: Int
    count: Int
    late: bool = False

    def each(self, carried: Sequence[ir.Value], body: Body) -> list[ir.Value]:
        """``body(number, *carried)`` for this block's tiles, where their numbers are known."""
        if self.workers == self.count:
            return list(body(self.worker, *carried))
        return loop(self.words, self.worker, self.count, self.workers, carried, body)

    def take_each(self, consumer: Integer, parity: ir.Value, carried: Sequence[ir.Value], body: Body) -> None:
        """A consumer's part: ``body(number, *carried)`` when the tile's rows have come; ``parity`` is that of their barrier."""
        words = self.words

        def wait(parity: ir.Value) -> None:
            self.rows.full.wait(consumer, parity)

        def number(parity: ir.Value) -> ir.Value:
            wait(parity)
            return uniform(words, load_shared(words, self.at(consumer), words.type, 1))

        def turn(number: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            wait(parity)
            return [words.xor(parity, 1), *body(number, *carried)]

        def next_turn(tile: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            following = words.xor(parity, 1)
            carried = body(tile, *carried)
            return [number(following), following, *carried]

        if self.counter is None:
            self.each([parity, *carried], turn)
            return
        loop_while([number(parity), parity, *carried], lambda n, *_: words.less(n, self.count), next_turn)

    def give_each(self, parity: ir.Value, carried: Sequence[ir.Value], body: Body) -> None:
        """The producer's part: ``body(number, parity, *carried)``, which gives the number to each consumer."""
        words = self.words

        def turn(number: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            return [words.xor(parity, 1), *body(number, parity, *carried)]

        def next_turn(number: ir.Value, parity: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            if self.late:
                found = turn(number, parity, *carried)
                return [self.count_on(), *found]
            following = self.count_on()  # on its way while this one's copies are started
            return [following, *turn(number, parity, *carried)]

        if self.counter is None:
            self.each([parity, *carried], turn)
            return
        _, parity, *_ = loop_while([self.count_on(), parity, *carried], lambda n, *_: words.less(n, self.count), next_turn)
        for consumer in range(self.rows.slots):
            self.rows.empty.wait(consumer, words.xor(parity, 1))
            self.give(words.value(_NO_TILE), consumer)
            self.rows.full.arrive(consumer)

    def count_on(self) -> ir.Value:
        return llvm.AtomicRMWOp(llvm.AtomicBinOp.add, self.counter, self.words.value(1), llvm.AtomicOrdering.monotonic).result

    def at(self, consumer: Integer) -> Integer:
        return self.words.add(self.numbers, self.words.shl(consumer, 2))

    def give(self, number: ir.Value, consumer: int) -> None:
        """To a consumer whose slot is free, before its copies are expected."""
        if self.counter is not None:
            store(number, shared_pointer(self.words, self.at(consumer)), 4)
