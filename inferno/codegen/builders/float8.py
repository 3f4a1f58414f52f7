"""Roundings to numbers of 8 bits by the instruction that GPUs have for them from sm_89 on, two neighbours at a time.

It makes the largest number of what is too large, and loses the sign of what is no number; the rest is put right.
"""

from inferno.codegen.builders.elements import element_type, join, lanes_of, splat
from inferno.dialect.float8 import ROUNDED
from inferno.mlir import arith, ir, is_unread, llvm, owner, users, vector, walk
from inferno.target import Target

_TWO = "e4m3x2"  # those that need no more than their signs, and are rounded in pairs


def round_by_instruction(operation: ir.Operation, target: Target) -> None:
    """Rewrite what ``store-float8`` made below ``operation``, of scalars and of vectors, in place."""
    if target.capability < 89:
        return
    with operation.context, ir.Location.unknown():
        for op in walk(operation, "arith.trunci"):
            source = _source(op) if ROUNDED in op.attributes else None
            if source is not None:
                with ir.InsertionPoint(op):
                    op.results[0].replace_all_uses_with(_rounded(source, ir.StringAttr(op.attributes[ROUNDED]).value))
                _erase(op, source)


def is_rounded_to_8_bits(value: ir.Value) -> bool:
    """Whether nothing is left of a float32 but what is rounded so."""
    bits = list(users(value))
    pending = [r for b in bits for r in b.results]
    if not bits or any(b.name != "arith.bitcast" for b in bits):
        return False
    while pending:
        for user in users(pending.pop()):
            if not user.name.startswith("arith."):
                return False
            pending += [] if ROUNDED in user.attributes else user.results
    return True


def _source(op: ir.Operation) -> ir.Value | None:
    """The float32, or the vector of them, that bytes are made of: their sign is a shift of its bits."""
    joined = owner(op.operands[0])
    for value in joined.operands if joined is not None and joined.name == "arith.ori" else ():
        masked = owner(value)
        shifted = owner(masked.operands[0]) if masked is not None and masked.name == "arith.andi" else None
        bits = owner(shifted.operands[0]) if shifted is not None and shifted.name == "arith.shrui" else None
        if bits is not None and bits.name == "arith.bitcast" and isinstance(element_type(bits.operands[0]), ir.F32Type):
            return bits.operands[0]
    return None


def _erase(op: ir.Operation, source: ir.Value) -> None:
    """An operation that nothing reads, and what only it read of what was computed of ``source``."""
    found, pending = {op: None}, [op]
    while pending:
        made = [owner(v) for v in pending.pop().operands if v != source]
        new = [o for o in made if o is not None and o.name.startswith(("arith.", "vector.broadcast")) and o not in found]
        found.update(dict.fromkeys(new))
        pending += new
    while dead := [o for o in found if is_unread(o)]:
        for o in dead:
            del found[o]
            o.erase()


def _rounded(source: ir.Value, kind: str) -> ir.Value:
    if not isinstance(source.type, ir.VectorType):
        return _byte(source, kind)
    lanes = lanes_of(source)
    if kind == _TWO and len(lanes) % 4 == 0:
        return _fours(lanes)
    return join([_byte(x, kind) for x in lanes])


def _fours(lanes: list[ir.Value]) -> ir.Value:
    """Words of four bytes, each of which takes 7 instructions."""
    word, count = ir.IntegerType.get_signless(32), len(lanes)
    halves = join([_instruction(_TWO, high, low) for low, high in zip(lanes[::2], lanes[1::2])])
    words = lanes_of(vector.bitcast(ir.VectorType.get([count // 4], word), halves))
    made = []
    for found, first in zip(words, range(0, count, 4)):
        bits = [arith.bitcast(word, x) for x in lanes[first: first + 4]]
        low, high = (_bytes(a, b, 0x0073) for a, b in (bits[:2], bits[2:]))  # the highest bytes of both
        signs = arith.andi(_bytes(low, high, 0x5410), splat(word, 0x80808080 - (1 << 32)))
        made.append(arith.ori(found, signs))
    return vector.bitcast(ir.VectorType.get([count], ir.IntegerType.get_signless(8)), join(made))


def _bytes(a: ir.Value, b: ir.Value, which: int) -> ir.Value:
    return llvm.inline_asm(a.type, [a, b], f"prmt.b32 $0, $1, $2, {which};", "=r,r,r")


def _instruction(name: str, high: ir.Value, low: ir.Value) -> ir.Value:
    """The bytes of two float32 in 16 bits."""
    return llvm.CallIntrinsicOp(ir.IntegerType.get_signless(16), f"llvm.nvvm.ff.to.{name}.rn", [high, low], [], []).operation.results[0]


def _byte(source: ir.Value, kind: str) -> ir.Value:
    word = ir.IntegerType.get_signless(32)
    name, _, overflows = kind.partition(" ")
    bits = arith.bitcast(word, source)
    found = arith.extui(word, _instruction(name, splat(source.type, 0.0), source))
    size = arith.andi(bits, splat(word, 0x7FFFFFFF))

    def beyond(least: int, byte: int, value: ir.Value) -> ir.Value:
        return arith.select(arith.cmpi(arith.CmpIPredicate.ugt, size, splat(word, least)), splat(word, byte), value)

    if overflows:
        found = beyond(0x43E80000, 0x7F, found)  # 464, half way to what would come behind 448
    elif name == "e5m2x2":
        found = beyond(0x7F800000, 0x7F, beyond(0x476FFFFF, 0x7C, found))  # 61440
    sign = arith.andi(arith.shrui(bits, splat(word, 24)), splat(word, 0x80))
    return arith.trunci(ir.IntegerType.get_signless(8), arith.ori(found, sign))
