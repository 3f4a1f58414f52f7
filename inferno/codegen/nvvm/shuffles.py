"""What lanes of a warp tell each other, of any type: shuffles move 32 bits at a time; and their votes."""

from collections.abc import Callable

from inferno.codegen.builders.elements import word
from inferno.codegen.nvvm.builder import integer_type, operation
from inferno.mlir import arith, gpu, ir


def exchange(value: ir.Value, distance: int) -> ir.Value:
    """The value of the lane whose number differs in the bit ``distance``."""
    return _moved(value, lambda x: _shuffle(x, word(distance), gpu.ShuffleMode.XOR))


def from_before(value: ir.Value, distance: int) -> ir.Value:
    """The value of the lane ``distance`` before; the first ones get their own."""
    return _moved(value, lambda x: _shuffle(x, word(distance), gpu.ShuffleMode.UP))


def from_lane(value: ir.Value, lane: int | ir.Value) -> ir.Value:
    """The value of one lane."""
    return _moved(value, lambda x: _shuffle(x, word(lane) if isinstance(lane, int) else lane, gpu.ShuffleMode.IDX))


def ballot(condition: ir.Value) -> ir.Value:
    """Which lanes of the warp say so, a bit for each (i32)."""
    return operation("nvvm.vote.sync", [integer_type(32)], [word(-1), condition], kind="#nvvm<vote_sync_kind ballot>")


def _moved(value: ir.Value, shuffle: Callable[[ir.Value], ir.Value]) -> ir.Value:
    type_, i32 = value.type, ir.IntegerType.get_signless(32)
    bits = ir.IntegerType.get_signless(type_.width)
    whole = value if type_ == bits else arith.bitcast(bits, value)
    if type_.width < 32:
        return _back(arith.trunci(bits, shuffle(arith.extui(i32, whole))), type_)
    if type_.width == 32:
        return _back(shuffle(whole), type_)
    half = arith.constant(bits, 32)
    low, high = arith.trunci(i32, whole), arith.trunci(i32, arith.shrui(whole, half))
    low, high = (arith.extui(bits, shuffle(x)) for x in (low, high))
    return _back(arith.ori(low, arith.shli(high, half)), type_)


def _back(bits: ir.Value, type_: ir.Type) -> ir.Value:
    return bits if bits.type == type_ else arith.bitcast(type_, bits)


def _shuffle(value: ir.Value, place: ir.Value, mode: gpu.ShuffleMode) -> ir.Value:
    return gpu.ShuffleOp(value, place, word(32), mode).results[0]
