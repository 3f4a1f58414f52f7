"""Exchange of values between the blocks of a cluster without a cluster barrier for each: a store to another block's shared memory that completes on an mbarrier
there.

Each block has a slot for every block's values and an mbarrier for every exchange, which is used once; blocks that exchange the same again for each row
they go over have two sets, which take turns.  Nobody waits at the end: a block is done when it has what all others send, and nothing is sent to it after
that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.nvvm.builder import assembly, CLUSTER, Words, integer_type, operation, pointer_type, shared_pointer
from inferno.codegen.nvvm.cluster import arrive_in_cluster, await_cluster
from inferno.codegen.nvvm.mbarriers import Barriers
from inferno.mlir import arith, ir, memref, nvvm


def slot_type(type_: ir.Type) -> ir.Type:
    """What a value is sent as: 32 or 64 bits."""
    return integer_type(64 if type_.width == 64 else 32)


@dataclass
class ClusterExchange:
    """``slots`` are shared arrays by value, of ``count`` numbers for each block; ``barriers`` is one with an mbarrier for each exchange.  A thread sends to
    ``each`` blocks.  With a ``turn`` (i32), which counts how often they were used, there are two of each."""

    ints: Integers
    cluster: int
    thread: Integer
    rank: Integer
    slots: Sequence[ir.Value]
    barriers: ir.Value
    words: Words = field(default_factory=Words)
    ready: bool = False
    turn: Integer | None = None
    count: int = 1
    each: int = 1

    def begin(self, sizes: Sequence[int], sets: int = 1) -> None:
        """At the beginning; ``sizes`` are the bytes that each exchange brings to a block."""
        self.base, self.sizes = self._address(self.barriers), sizes
        own = Barriers(self.words, self.base)
        with only_if(self.ints.equal(self.thread, 0)):
            for i in range(sets * len(sizes)):
                own.initialize(i, 1)
            nvvm.FenceMbarrierInitOp()
            for i, size in enumerate([*sizes] * sets):
                own.expect(i, size)
        arrive_in_cluster()

    def await_others(self) -> None:
        """Until their mbarriers are there."""
        await_cluster()
        self.ready = True

    def send(self, number: int, places: Sequence[int], values: Sequence[ir.Value]) -> None:
        """Send ``values`` to the slots at ``places`` of every block: each of ``count`` threads its own number, and as many others to other blocks."""
        if not self.ready:
            self.await_others()
        with only_if(self.ints.less(self.thread, self.senders)):
            first, own = self._word(self.ints.div(self.thread, self.count)), self._word(self.ints.rem(self.thread, self.count))
            for rank in range(0, self.cluster, self.senders // self.count):
                to = self.words.add(first, rank)
                barrier = self._remote(self.words.add(self.base, self.words.mul(self._number(number), 8)), to)
                for place, value in zip(places, values):
                    self._send(place, value, own, to, barrier)

    @property
    def senders(self) -> int:
        """Threads that send."""
        return self.cluster * self.count // self.each

    def _send(self, place: int, value: ir.Value, own: Integer, to: ir.Value, barrier: ir.Value) -> None:
        bits = _to_bits(value)
        size = bits.type.width // 8
        slot = self.words.add(self.words.mul(self.words.add(self._word(self.rank), self._first()), self.count), own)
        slot = self.words.add(self._address(self.slots[place]), self.words.mul(slot, size))
        text = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b{8 * size} [$0], $1, [$2];"
        assembly(text, [self._remote(slot, to), bits, barrier])

    def receive(self, place: int, rank: Integer, type_: ir.Type, number: Integer = 0) -> ir.Value:
        """What a block sent of one of the numbers."""
        ints, rank = (self.ints, rank) if self.turn is None else (Integers(), self.words.add(self._first(), self._word(rank)))
        at = ints.index(ints.add(ints.mul(rank, self.count), number if self.turn is None or isinstance(number, int) else self._word(number)))
        return _from_bits(memref.load(self.slots[place], [at]), type_)

    def wait(self, number: int) -> None:
        """Until all have sent theirs; the mbarrier is then ready for the turn after the next."""
        own, at = Barriers(self.words, self.base), self._number(number)
        own.wait(at, 0 if self.turn is None else self.words.mask(self.words.shr(self.turn, 1), 1))
        if self.turn is not None:
            with only_if(self.ints.equal(self.thread, 0)):
                own.expect(at, self.sizes[number])

    def _set(self) -> Integer:
        """Which of two sets a turn uses."""
        return 0 if self.turn is None else self.words.mask(self.turn, 1)

    def _number(self, number: int) -> Integer:
        """An exchange's mbarrier."""
        return self.words.add(self.words.mul(self._set(), len(self.sizes)), number)

    def _first(self) -> Integer:
        """The first slot of a value."""
        return self.words.mul(self._set(), self.cluster)

    def _address(self, array: ir.Value) -> ir.Value:
        return arith.index_cast(self.words.type, memref.ExtractAlignedPointerAsIndexOp(array).result)

    def _remote(self, address: Integer, rank: ir.Value) -> ir.Value:
        """A shared address of block ``rank``, as the cluster sees it."""
        remote = nvvm.MapaOp(pointer_type(CLUSTER), shared_pointer(self.words, address), rank).results[0]
        return operation("llvm.ptrtoint", [self.words.type], [remote])

    def _word(self, number: Integer) -> ir.Value:
        number = self.ints.value(number)
        return number if number.type == self.words.type else arith.trunci(self.words.type, number)


def _to_bits(value: ir.Value) -> ir.Value:
    own, wide = integer_type(value.type.width), slot_type(value.type)
    bits = value if value.type == own else arith.bitcast(own, value)
    return bits if own == wide else arith.extui(wide, bits)


def _from_bits(bits: ir.Value, type_: ir.Type) -> ir.Value:
    own = integer_type(type_.width)
    bits = bits if bits.type == own else arith.trunci(own, bits)
    return bits if own == type_ else arith.bitcast(type_, bits)
