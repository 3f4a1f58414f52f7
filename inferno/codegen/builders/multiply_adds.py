"""Multiply-adds of a contraction's accumulator, of scalars and vectors."""

from inferno.codegen.builders.elements import splat
from inferno.mlir import arith, ir, math, vector
from inferno.schedule.matmul.contraction import Contraction


class MultiplyAdds:
    """What an emitter of a ``contraction`` computes with; products of floats are not rounded before they are added."""

    contraction: Contraction

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        if isinstance(self.contraction.accumulator, ir.IntegerType):
            return arith.addi(c, arith.muli(a, b))
        return vector.FMAOp(a, b, c).result if isinstance(a.type, ir.VectorType) else math.fma(a, b, c)

    def plus(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.addi(a, b) if isinstance(self.contraction.accumulator, ir.IntegerType) else arith.addf(a, b)

    def keep(self, value: ir.Value, inside: ir.Value | None) -> ir.Value:
        """Zero for terms that there are not: of both factors, as one may be infinite."""
        return value if inside is None else arith.select(inside, value, splat(value.type, 0))
