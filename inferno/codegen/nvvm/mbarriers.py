"""Barriers in shared memory (mbarriers), and rings of slots that a producer fills and consumers empty."""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import CLUSTER, Words, integer_type, pointer_type, shared_pointer
from inferno.mlir import arith, ir, nvvm
from inferno.symbolic import Int

_SUSPEND = 0x989680  # nanoseconds that a waiting thread may sleep before it looks again


@dataclass(frozen=True)
class Barriers:
    """An array of mbarriers, 8 bytes each, from shared address ``base``."""

    words: Words
    base: Integer

    def at(self, number: Integer) -> ir.Value:
        return shared_pointer(self.words, self.words.add(self.base, self.words.shl(number, 3)))

    def initialize(self, number: int, arrivals: int) -> None:
        nvvm.MBarrierInitOp(self.at(number), self.words.value(arrivals))

    def wait(self, number: Integer, parity: Integer) -> None:
        """Until the phase of this parity is complete.  (Of a fresh barrier the phase before the first, parity 1, is.)"""
        nvvm.MBarrierTryWaitParityOp(self.at(number), self.words.value(parity), self.words.value(_SUSPEND))

    def arrive(self, number: Integer) -> None:
        nvvm.MBarrierArriveOp(self.at(number), results=[integer_type(64)])

    def arrive_remote(self, number: Integer, rank: ir.Value) -> None:
        """Arrive at the same barrier of another block of the cluster."""
        # No scope: ``cluster`` would put a fence of the whole GPU into the main loop.
        nvvm.MBarrierArriveOp(nvvm.MapaOp(pointer_type(CLUSTER), self.at(number), rank).results[0])

    def expect(self, number: Integer, size: int) -> None:
        """Arrive, and make the phase wait for ``size`` bytes of copies too."""
        nvvm.MBarrierArriveExpectTxOp(self.at(number), self.words.value(size))


@dataclass(frozen=True)
class Position:
    """Where one side is on its way round a ring: the slot, and the parity of the round.  Loop-carried, both i32."""

    slot: ir.Value
    parity: ir.Value

    @property
    def values(self) -> list[ir.Value]:
        return [self.slot, self.parity]


@dataclass(frozen=True)
class Ring:
    """``slots`` slots with two barriers each: ``full`` (``writers`` arrivals and the copies' bytes) and ``empty`` (``readers``
    arrivals from each block of the cluster)."""

    words: Words
    base: Integer
    slots: int
    readers: int
    cluster: int = 1
    writers: int = 1

    @property
    def full(self) -> Barriers:
        return Barriers(self.words, self.base)

    @property
    def empty(self) -> Barriers:
        return Barriers(self.words, self.words.add(self.base, 8 * self.slots))

    def initialize(self) -> None:
        for slot in range(self.slots):
            self.full.initialize(slot, self.writers)
            self.empty.initialize(slot, self.readers * self.cluster)

    def start(self) -> Position:
        return Position(self.words.value(0), self.words.value(0))

    def next(self, at: Position) -> Position:
        words = self.words
        following = words.add(at.slot, 1)
        wrapped = words.equal(following, self.slots)
        return Position(words.select(wrapped, 0, following), words.xor(at.parity, arith.extui(words.type, wrapped)))

    def skip(self, at: Position, count: Int) -> Position:
        """``count`` slots further."""
        if count == 0:
            return at
        words = self.words
        following = words.add(at.slot, words.rem(count, self.slots))
        wrapped = words.at_least(following, self.slots)
        flips = words.xor(arith.extui(words.type, wrapped), words.rem(words.div(count, self.slots), 2))
        return Position(words.select(wrapped, words.sub(following, self.slots), following), words.xor(at.parity, flips))

    def acquire(self, at: Position) -> None:
        """The producer's wait until the slot is free."""
        self.empty.wait(at.slot, self.words.xor(at.parity, 1))

    def await_full(self, at: Position) -> None:
        """A consumer's wait until the slot's copies have arrived."""
        self.full.wait(at.slot, at.parity)

    def release(self, slot: ir.Value, thread: ir.Value) -> None:
        """A consumer (``thread`` is the number of the thread in it) is done with a slot, in every block of the cluster."""
        words = self.words
        if self.cluster == 1:
            with only_if(words.equal(thread, 0)):
                self.empty.arrive(slot)
            return
        with only_if(words.less(thread, self.cluster)):
            self.empty.arrive_remote(slot, thread)
