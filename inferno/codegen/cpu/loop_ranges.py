"""Functions that are fast only on a range (sine and cosine), in the loops of the CPU.

Before a strip of a loop a first loop finds the largest argument: where all lie in the range, the strip runs with the fast
functions, which LLVM vectorizes, else with libm's, one element at a time.  Nothing is stored before it is known, so that
results may take the place of inputs.
"""

from collections.abc import Callable

from inferno.codegen.cpu.vector_math import RANGE, RANGED
from inferno.mlir import arith, ir, scf
from inferno.passes.generics import float32

STRIP = 2048  # elements: 8 KB of float32 an operand, which the second loop finds in the L1 cache


def has_ranged(block: ir.Block) -> bool:
    """Whether a body calls such a function."""
    return any(_ranged(o.operation) for o in block.operations)


def emit_strips(low: ir.Value, high: ir.Value, point: Callable[[ir.Value, dict], None], look: Callable[[ir.Value, dict], None]) -> None:
    """The loop from ``low`` to ``high``, in strips.  ``point(iv, custom)`` emits one element, ``look(iv, custom)`` the same
    without its stores."""
    one, i32 = arith.constant(ir.IndexType.get(), 1), ir.IntegerType.get_signless(32)
    strips = scf.ForOp(low, high, arith.constant(ir.IndexType.get(), STRIP))
    with ir.InsertionPoint(strips.body):
        first = strips.induction_variable
        last = arith.minui(arith.addi(first, arith.constant(ir.IndexType.get(), STRIP)), high)
        seen = scf.ForOp(first, last, one, [arith.constant(i32, 0)])
        with ir.InsertionPoint(seen.body):
            largest = [seen.inner_iter_args[0]]

            def note(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
                if _ranged(op):
                    bits = arith.andi(arith.bitcast(i32, operands[0]), arith.constant(i32, 0x7FFFFFFF))
                    largest[0] = arith.maxui(largest[0], bits)  # of numbers without sign the bits are ordered, NaN above all
                return _fast(op, operands)

            look(seen.induction_variable, dict.fromkeys(RANGED, note))
            scf.YieldOp([largest[0]])
        limit = arith.bitcast(i32, float32(RANGE))
        choice = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, seen.results_[0], limit), has_else=True)
        for block, custom in ((choice.then_block, dict.fromkeys(RANGED, _fast)), (choice.else_block, {})):
            with ir.InsertionPoint(block):
                loop = scf.ForOp(first, last, one)
                with ir.InsertionPoint(loop.body):
                    point(loop.induction_variable, custom)
                    scf.YieldOp([])
                scf.YieldOp([])
        scf.YieldOp([])


def _ranged(op: ir.Operation) -> bool:
    return op.name in RANGED and isinstance(op.results[0].type, ir.F32Type)


def _fast(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    if _ranged(op):
        return RANGED[op.name](operands[0])
    new = op.clone()
    for i, v in enumerate(operands):
        new.operands[i] = v
    return new.results[0]
