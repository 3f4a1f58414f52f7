"""Convert floats to integers of fewer than 32 bits by way of int32.

A byte without a sign holds 255, which is beyond one with a sign, and ``arith`` has no result for what is beyond: a vector of the CPU then holds 127.  Of
what no integer of the type is, torch keeps the low bits.
"""

from inferno.mlir import arith, ir, walk

_WORD = 32  # bits of the integer that is converted to first


def widen_casts(module: ir.Module) -> None:
    """Make every cast of a float to an integer of 8 or 16 bits one to 32, whose low bits are the result."""
    for op in walk(module.operation, "arith.fptosi", "arith.fptoui"):
        narrow = op.results[0].type
        if not isinstance(narrow, ir.IntegerType) or not 1 < narrow.width < _WORD:
            continue
        with ir.InsertionPoint(op), op.location:
            low = arith.trunci(narrow, arith.fptosi(ir.IntegerType.get_signless(_WORD), op.operands[0]))
        op.results[0].replace_all_uses_with(low)
        op.operation.erase()
