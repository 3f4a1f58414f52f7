"""Roundings to numbers of 8 bits by the instruction that GPUs have for them from sm_89 on.

It makes the largest number of what is too large, and loses the sign of what is no number; the rest is put right.
"""

from inferno.codegen.elements import splat
from inferno.dialect.float8 import ROUNDED
from inferno.mlir import arith, ir, llvm, owner, walk
from inferno.target import Target


def round_by_instruction(operation: ir.Operation, target: Target) -> None:
    """Rewrite what ``store-float8`` made below ``operation``, in place."""
    if target.capability < 89:
        return
    with operation.context, ir.Location.unknown():
        for op in walk(operation, "arith.trunci"):
            bits = _bits(op) if ROUNDED in op.attributes else None
            if bits is not None:
                with ir.InsertionPoint(op):
                    op.results[0].replace_all_uses_with(_byte(bits, ir.StringAttr(op.attributes[ROUNDED]).value))
                op.erase()
        dead = True
        while dead:
            dead = [o for o in walk(operation) if o.name.startswith("arith.") and not any(True for r in o.results for _ in r.uses)]
            for op in dead:
                op.erase()


def _bits(op: ir.Operation) -> ir.Value | None:
    """The bits of the float32 that a byte is made of: the sign is a shift of them."""
    joined = owner(op.operands[0])
    for value in joined.operands if joined is not None and joined.name == "arith.ori" else ():
        masked = owner(value)
        shifted = owner(masked.operands[0]) if masked is not None and masked.name == "arith.andi" else None
        bits = owner(shifted.operands[0]) if shifted is not None and shifted.name == "arith.shrui" else None
        if bits is not None and bits.name == "arith.bitcast" and isinstance(bits.operands[0].type, ir.F32Type):
            return bits.results[0]
    return None


def _byte(bits: ir.Value, kind: str) -> ir.Value:
    word, short, single = bits.type, ir.IntegerType.get_signless(16), ir.F32Type.get()
    name, _, overflows = kind.partition(" ")
    made = llvm.CallIntrinsicOp(
        short, f"llvm.nvvm.ff.to.{name}.rn", [splat(single, 0.0), owner(bits).operands[0]], [], [],
    ).operation.results[0]
    found = arith.extui(word, made)
    size = arith.andi(bits, splat(word, 0x7FFFFFFF))

    def beyond(least: int, byte: int, value: ir.Value) -> ir.Value:
        return arith.select(arith.cmpi(arith.CmpIPredicate.ugt, size, splat(word, least)), splat(word, byte), value)

    if overflows:
        found = beyond(0x43E80000, 0x7F, found)  # 464, half way to what would come behind 448
    elif name == "e5m2x2":
        found = beyond(0x7F800000, 0x7F, beyond(0x476FFFFF, 0x7C, found))  # 61440
    sign = arith.andi(arith.shrui(bits, splat(word, 24)), splat(word, 0x80))
    return arith.trunci(ir.IntegerType.get_signless(8), arith.ori(found, sign))
