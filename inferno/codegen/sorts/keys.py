"""Elements of a row as unsigned integers whose order is the sort's.

A key holds an element's bits, changed so that integers compare as the elements do: NaN behind every number, whatever its bits, and both zeros
equal; a descending order turns all bits.  An *item* is a key with its place in the row behind it, so that no two items are equal and any way to sort
is stable: one integer of 32 or 64 bits where both fit, else one of 64 bits and one of 32.
"""

from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer, Integers, resize
from inferno.mlir import arith, ir

Item = tuple[ir.Value, ...]
# Bits of infinity.
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}


@dataclass(frozen=True)
class Keys:
    """Items of elements of type ``element``, whose places are below ``2 ** places``."""

    element: ir.Type
    descending: bool
    places: int

    @property
    def bits(self) -> int:
        """Bits of a key."""
        return self.element.width

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of the integers of an item."""
        whole = self.bits + self.places
        return (32,) if whole <= 32 else (64,) if whole <= 64 else (64, 32)

    @property
    def types(self) -> tuple[ir.Type, ...]:
        return tuple(_int(w) for w in self.widths)

    @property
    def bytes(self) -> int:
        return sum(self.widths) // 8

    @property
    def shift(self) -> int:
        """Where the key begins in the first integer of an item, whose highest bits it is."""
        return self.widths[0] - self.bits

    @property
    def _mask(self) -> int:
        return (1 << self.bits) - 1

    @property
    def _sign(self) -> int:
        return 1 << (self.bits - 1)

    def key(self, value: ir.Value) -> ir.Value:
        """The key of an element, in an integer of at least 32 bits."""
        type_ = _int(max(32, self.bits))
        if str(self.element) not in INFINITY:
            wide = arith.extui(type_, value) if value.type != type_ else value
            flipped = arith.xori(wide, _constant(type_, self._sign))
            return arith.xori(flipped, _constant(type_, self._mask)) if self.descending else flipped
        bits = arith.bitcast(_int(self.bits), value)
        wide = arith.extsi(type_, bits) if bits.type != type_ else bits
        # A float's bits are a sign and a size.  As a number they are equal for both zeros, and from minus infinity on; NaN, of either sign, is behind all.
        signs = _signs(wide)
        number = arith.subi(arith.xori(arith.andi(wide, _constant(type_, self._mask >> 1)), signs), signs)
        moved = arith.addi(number, _constant(type_, self._infinity))
        key = arith.minui(arith.andi(moved, _constant(type_, self._mask)) if type_.width > self.bits else moved, _constant(type_, self._nan))
        return arith.subi(_constant(type_, self._mask), key) if self.descending else key

    @property
    def _infinity(self) -> int:
        return INFINITY[str(self.element)]

    @property
    def _nan(self) -> int:
        return 2 * self._infinity + 1

    def value(self, key: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The element of a key, and a condition under which it is to be read again, for other bits have the same key."""
        type_ = key.type
        if self.descending:
            key = arith.xori(key, _constant(type_, self._mask))
        if str(self.element) not in INFINITY:
            bits = arith.xori(key, _constant(type_, self._sign))
            return (arith.trunci(self.element, bits) if type_ != self.element else bits), None
        again = arith.ori(*(arith.cmpi(arith.CmpIPredicate.eq, key, _constant(type_, k)) for k in (self._infinity, self._nan)))
        number = arith.subi(key, _constant(type_, self._infinity))
        signs = _signs(number)
        bits = arith.ori(arith.subi(arith.xori(number, signs), signs), arith.andi(signs, _constant(type_, self._sign)))
        bits = arith.trunci(_int(self.bits), bits) if type_.width != self.bits else bits
        return arith.bitcast(self.element, bits), again

    def is_nan(self, key: ir.Value) -> ir.Value:
        """Whether the key of a float is that of what is not a number."""
        return arith.cmpi(arith.CmpIPredicate.eq, key, _constant(key.type, self._mask - self._nan if self.descending else self._nan))

    def item(self, key: ir.Value, place: Integer, ints: Integers) -> Item:
        place = ints.value(place)
        if self.widths == (64, 32):
            return key, resize(place, 32)
        type_ = self.types[0]
        return (arith.ori(arith.shli(resize(key, type_.width), _constant(type_, self.shift)), resize(place, type_.width)),)

    def last(self, place: Integer, ints: Integers) -> Item:
        """An item behind all elements, at a place of its own."""
        return self.item(_constant(_int(max(32, self.bits)), self._mask), place, ints)

    def split(self, item: Item, ints: Integers) -> tuple[ir.Value, ir.Value]:
        """Key and place."""
        if len(item) == 2:
            return item[0], resize(item[1], ints.width)
        (whole,) = item
        place = arith.andi(whole, _constant(whole.type, (1 << self.shift) - 1))
        return resize(arith.shrui(whole, _constant(whole.type, self.shift)), max(32, self.bits)), resize(place, ints.width)


def less(a: Item, b: Item) -> ir.Value:
    """Whether ``a`` goes before ``b``."""
    first = arith.cmpi(arith.CmpIPredicate.ult, a[0], b[0])
    if len(a) == 1:
        return first
    same = arith.cmpi(arith.CmpIPredicate.eq, a[0], b[0])
    return arith.select(same, arith.cmpi(arith.CmpIPredicate.ult, a[1], b[1]), first)


def choose(condition: ir.Value, a: Item, b: Item) -> Item:
    """``a`` where the condition holds, else ``b``, part by part."""
    return tuple(arith.select(condition, x, y) for x, y in zip(a, b))


def in_order(a: Item, b: Item) -> tuple[Item, Item]:
    """The two, the first one first."""
    if len(a) == 1:
        first = arith.minui(a[0], b[0])
        # Of 64 bits a maximum would be compared again.
        return (first,), (arith.xori(arith.xori(a[0], b[0]), first) if first.type.width > 32 else arith.maxui(a[0], b[0]),)
    swap = less(b, a)
    return choose(swap, b, a), choose(swap, a, b)


def network(count: int) -> list[tuple[int, int]]:
    """The comparators (lower place, higher place) of Batcher's merge exchange, which sort any ``count`` items."""
    found, half = [], 1
    while 2 * half < count:
        half *= 2
    p = half if count > 1 else 0
    while p:
        q, r, d = half, 0, p
        while True:
            found += [(i, i + d) for i in range(count - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
    return found


def _signs(x: ir.Value) -> ir.Value:
    """All bits as the sign."""
    return arith.shrsi(x, _constant(x.type, x.type.width - 1))


def _int(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)


def _constant(type_: ir.Type, value: int) -> ir.Value:
    """A constant by its bits."""
    return arith.constant(type_, value - (1 << type_.width) if value >= 1 << (type_.width - 1) else value)
