"""Rows of a thread that are sorted in its registers without their places, which nobody reads: whole numbers with a sign that stand in the elements' order.

A float's bits are such numbers once all but the sign of negative ones are flipped, and what is added to them takes NaN of either sign behind all others.
Nothing is lost so, and of two rows of 16 bits and less each instruction compares both.  But -0.0 comes before 0.0, to which it is equal, and they have to stay
in the order in which they were: of a row with a -0.0 the signs of all zeros are noted one after the other, and given to the zeros of the sorted row.
"""

from dataclasses import dataclass

from inferno.codegen.builders.elements import join, lanes_of, splat, tree
from inferno.codegen.sorts.keys import INFINITY, network
from inferno.mlir import arith, ir, llvm, scf, vector


def sort_values(element: ir.Type, descending: bool, rows: list[list[ir.Value]]) -> list[list[ir.Value]]:
    """The elements of each row, of up to 32, in order; equal ones as they were.  What is not a number is in the order of its bits."""
    order, pairs = _Order(element), element.width <= 16 and len(rows) % 2 == 0
    bits = [[order.bits(x) for x in row] for row in rows]
    items = [[join(both) for both in zip(a, b)] for a, b in zip(bits[::2], bits[1::2])] if pairs else bits
    notes = order.note(items, bits)
    items = [[order.key(x) for x in row] for row in items]
    for row in items:
        for places in network(len(row)):
            low, high = reversed(places) if descending else places
            row[low], row[high] = _in_order(row[low], row[high])
    if notes is not None:
        items = order.give(notes, items)
    found = [[order.number(x) for x in row] for row in items]
    if pairs:
        found = [list(row) for both in found for row in zip(*map(lanes_of, both))]
    return [[order.value(x) for x in row] for row in found]


def _in_order(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The less and the greater one, or those of each lane; of 64 bits a maximum would be compared again."""
    first = arith.minsi(a, b)
    return first, arith.xori(arith.xori(a, b), first) if str(a.type) == "i64" else arith.maxsi(a, b)


@dataclass(frozen=True)
class _Order:
    """Keys of elements; ``key`` and ``number`` take pairs of 16 bits, too."""

    element: ir.Type

    @property
    def floats(self) -> bool:
        return str(self.element) in INFINITY

    @property
    def type(self) -> ir.Type:
        return ir.IntegerType.get_signless(max(16, self.element.width))

    @property
    def _most(self) -> int:
        return (1 << (self.type.width - 1)) - 1

    @property
    def _added(self) -> int:
        """What makes minus infinity the least number of all."""
        return INFINITY[str(self.element)] - self._most

    def bits(self, value: ir.Value) -> ir.Value:
        if self.floats:
            return arith.bitcast(self.type, value)
        return arith.extsi(self.type, value) if value.type != self.type else value

    def value(self, bits: ir.Value) -> ir.Value:
        if self.floats:
            return arith.bitcast(self.element, bits)
        return arith.trunci(self.element, bits) if bits.type != self.element else bits

    def key(self, bits: ir.Value) -> ir.Value:
        return arith.addi(self._transposed(bits), splat(bits.type, self._added)) if self.floats else bits

    def number(self, key: ir.Value) -> ir.Value:
        """The bits of a key."""
        return self._transposed(arith.subi(key, splat(key.type, self._added))) if self.floats else key

    def _transposed(self, x: ir.Value) -> ir.Value:
        """All bits but the sign flipped where that is set."""
        if not isinstance(x.type, ir.VectorType):
            return arith.xori(x, arith.andi(arith.shrsi(x, splat(x.type, self.type.width - 1)), splat(x.type, self._most)))
        (word,) = lanes_of(vector.bitcast(ir.VectorType.get([1], _word()), x))
        signs = llvm.inline_asm(_word(), [word, word], f"prmt.b32 $0, $1, $2, {0xBB99};", "=r,r,r")  # there is no shift of pairs
        flipped = arith.xori(word, arith.andi(signs, splat(_word(), self._most * 0x10001)))
        return vector.bitcast(x.type, join([flipped]))

    # Zeros.

    def note(self, items: list[list[ir.Value]], bits: list[list[ir.Value]]) -> tuple[ir.Value, list[ir.Value]] | None:
        """Whether there is a -0.0, whose bits are the least number, and the signs of each row's zeros; None of whole numbers."""
        if not self.floats:
            return None
        sign, none = splat(self.type, -self._most - 1), splat(_word(), 0)
        least = lanes_of(tree(arith.minsi, [x for row in items for x in row]))
        some = tree(arith.ori, [arith.cmpi(arith.CmpIPredicate.eq, x, sign) for x in least])
        op = scf.IfOp(some, [_word()] * len(bits), has_else=True)
        with ir.InsertionPoint(op.then_block):
            found = []
            for row in bits:
                signs, at = none, splat(_word(), 1)
                for x in row:
                    signs = arith.select(arith.cmpi(arith.CmpIPredicate.eq, x, sign), arith.ori(signs, at), signs)
                    zero = arith.cmpi(arith.CmpIPredicate.eq, arith.andi(x, splat(self.type, self._most)), splat(self.type, 0))
                    at = arith.select(zero, arith.addi(at, at), at)
                found.append(signs)
            scf.yield_(found)
        with ir.InsertionPoint(op.else_block):
            scf.yield_([none] * len(bits))
        return some, list(op.results)

    def give(self, notes: tuple[ir.Value, list[ir.Value]], items: list[list[ir.Value]]) -> list[list[ir.Value]]:
        """Sorted keys with the signs of their rows' zeros as they were noted."""
        some, signs = notes
        length, lanes = len(items[0]), len(signs) // len(items)
        flat = [x for row in items for x in row]
        op = scf.IfOp(some, [x.type for x in flat], has_else=True)
        with ir.InsertionPoint(op.then_block):
            found = []
            for i, row in enumerate(items):
                alone = [self._given(signs[i * lanes + n], [lanes_of(x)[n] for x in row]) for n in range(lanes)]
                found += alone[0] if lanes == 1 else [join(both) for both in zip(*alone)]
            scf.yield_(found)
        with ir.InsertionPoint(op.else_block):
            scf.yield_(flat)
        return [list(op.results)[i:i + length] for i in range(0, len(flat), length)]

    def _given(self, signs: ir.Value, row: list[ir.Value]) -> list[ir.Value]:
        negative, positive, one, found = splat(self.type, self._added - 1), splat(self.type, self._added), splat(_word(), 1), []
        for key in row:
            zero = arith.ori(*(arith.cmpi(arith.CmpIPredicate.eq, key, z) for z in (negative, positive)))
            is_negative = arith.cmpi(arith.CmpIPredicate.eq, arith.andi(signs, one), one)
            found.append(arith.select(zero, arith.select(is_negative, negative, positive), key))
            signs = arith.select(zero, arith.shrui(signs, one), signs)
        return found


def _word() -> ir.Type:
    return ir.IntegerType.get_signless(32)
