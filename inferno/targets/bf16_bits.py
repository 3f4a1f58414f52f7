"""On the CPU a bf16 is 16 bits of an integer, once nothing computes with it.

``lower`` computes in float32 and rounds by integers, so that all that is left are loads, stores and choices.  LLVM gets no bf16: of vectors of them it
cannot select instructions for a processor that has AVX512-BF16, which ends the process, and for one without them it calls a function for a choice even.
"""

import re
import struct

from inferno.mlir import ir, walk

# Each operation on bf16 between conversions to and from float32, as eager rounds.
COMPUTE_IN_F32 = (
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},math-extend-to-supported-types{extra-types=f16 target-type=f32}"
)
_NUMBER = re.compile(r"0x[0-9A-F]+|[-+]?\d+\.\d+(?:e[-+]\d+)?", re.I)


def store_as_bits(module: ir.Module) -> None:
    """Make integers of the bf16 in a module of the LLVM dialect."""
    if "bf16" not in str(module):
        return
    for op in walk(module):
        for value in (*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)):
            value.set_type(_integer(value.type))
        for name in list(op.attributes):
            new = _bits(op.attributes[name])
            if new is not None:
                op.attributes[name] = new
    for op in walk(module, "llvm.bitcast"):
        if op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _integer(type_: ir.Type) -> ir.Type:
    text = str(type_)
    return ir.Type.parse(text.replace("bf16", "i16")) if "bf16" in text else type_


def _bits(attribute: ir.Attribute) -> ir.Attribute | None:
    """The attribute of the same bits as integers; None for one that has no bf16."""
    text = str(attribute)
    if isinstance(attribute, ir.TypeAttr):
        return ir.TypeAttr.get(_integer(attribute.value)) if "bf16" in text else None
    if not isinstance(attribute, (ir.FloatAttr, ir.DenseElementsAttr)) or "bf16" not in text:
        return None
    numbers, _, type_ = text.rpartition(" : ")
    if '"' not in numbers:  # else the bits themselves
        numbers = _NUMBER.sub(lambda found: str(_word(found[0])), numbers)
    return ir.Attribute.parse(f"{numbers} : {type_.replace('bf16', 'i16')}")


def _word(number: str) -> int:
    """The bits of a bf16 that is printed as its bits, or as a decimal number that says which it is."""
    return int(number, 16) if number.startswith("0x") else struct.unpack("<I", struct.pack("<f", float(number)))[0] >> 16
