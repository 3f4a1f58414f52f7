"""The forms in which contractions' kernels read weights, and the operations that convert to them."""

from dataclasses import dataclass

from inferno.mlir import arith, ir, linalg, tensor
from inferno.passes.generics import PARALLEL, build
from inferno.passes.shapes import reassociation_attribute
from inferno.schedule.analysis.kept_operands import COPY, PARTS
from inferno.schedule.matmul.bf16x6 import CUT
from inferno.symbolic import product

_BLOCK = 32  # terms whose order is that of the registers that multiply them


@dataclass(frozen=True)
class Form:
    """Argument ``number`` of a kernel, a matrix of ``shape`` in memory, as the kernel wants it: split into parts, k innermost, in the
    registers' order if ``interleaved``; or a copy, ``transposed`` or not, whose lines are ``line`` elements long."""

    kind: str
    number: int
    shape: tuple[int, int]
    transposed: bool
    line: int
    interleaved: bool = False

    @property
    def lines(self) -> int:
        return self.shape[1] if self.transposed else self.shape[0]

    def type(self, element: ir.Type) -> ir.Type:
        if self.kind == COPY:
            return ir.RankedTensorType.get([self.lines, self.line], element)
        return ir.RankedTensorType.get([3, self.lines, self.line], ir.BF16Type.get())

    def bytes(self, element: ir.Type) -> int:
        type_ = self.type(element)
        return product(type_.shape) * type_.element_type.width // 8

    def make(self, weight: ir.Value) -> ir.Value:
        """Operations at the insertion point that make it of the weight, which may have any shape."""
        matrix = _reshape(weight, list(self.shape))
        return _parts(matrix, self) if self.kind == PARTS else _copy(matrix, self)


def _reshape(value: ir.Value, shape: list[int]) -> ir.Value:
    old = list(value.type.shape)
    element = value.type.element_type
    if old == shape:
        return value
    if len(old) != 1:
        flat = ir.RankedTensorType.get([product(old)], element)
        groups = [list(range(len(old)))] if old else []
        if not old:
            return _reshape(tensor.ExpandShapeOp(flat, value, reassociation_attribute([]), [], [1]).result, shape)
        value = tensor.CollapseShapeOp(flat, value, reassociation_attribute(groups)).result
    if len(shape) == 1:
        return value
    type_ = ir.RankedTensorType.get(shape, element)
    return tensor.ExpandShapeOp(type_, value, reassociation_attribute([list(range(len(shape)))]), [], shape).result


def _copy(matrix: ir.Value, form: Form) -> ir.Value:
    """The matrix, transposed if need be, with longer lines, which end in zeros."""
    if form.transposed:
        rows, columns = matrix.type.shape
        loops = [ir.AffineDimExpr.get(i) for i in range(2)]
        out = tensor.EmptyOp([columns, rows], matrix.type.element_type).result
        indexing = [ir.AffineMap.get(2, 0, loops[::-1]), ir.AffineMap.get_identity(2)]
        matrix = build([matrix], [out], indexing, [PARALLEL] * 2, lambda a: [a[0]], ir.Location.current).results[0]
    return _padded(matrix, list(form.type(matrix.type.element_type).shape))


def _padded(matrix: ir.Value, shape: list[int]) -> ir.Value:
    element = matrix.type.element_type
    if list(matrix.type.shape) == shape:
        return matrix
    zero = arith.constant(element, 0.0 if isinstance(element, ir.FloatType) else 0)
    filled = linalg.fill(zero, outs=[tensor.EmptyOp(shape, element).result])
    sizes = list(matrix.type.shape)
    return tensor.InsertSliceOp(matrix, filled, [], [], [], [0, 0], sizes, [1, 1]).result


def _parts(matrix: ir.Value, form: Form) -> ir.Value:
    """The matrix as three of bf16 whose sum it is, but for ``CUT``, each number rounded to nearest: [3, lines, terms], terms padded with zeros.

    In each block of 32 terms position 16t + 8h + 2q + j has term 8q + 4t + 2h + j, if the form asks for that.
    """
    lines, terms, bf16, f32 = form.lines, form.line, ir.BF16Type.get(), ir.F32Type.get()
    matrix = _padded(matrix, [terms, lines] if form.transposed else [lines, terms])
    # Loops: part, line, block, q, t, h, j; or part, line, term.
    inner = [terms // _BLOCK, 4, 2, 2, 2] if form.interleaved else [terms]
    expanded = _reshape(matrix, [*inner, lines] if form.transposed else [lines, *inner])
    count = 2 + len(inner)
    loops = [ir.AffineDimExpr.get(i) for i in range(count)]
    read = [*loops[2:], loops[1]] if form.transposed else loops[1:]
    written = [0, 1, 2, 4, 5, 3, 6] if form.interleaved else [0, 1, 2]
    sizes = [3, lines, *inner]
    out = tensor.EmptyOp([sizes[d] for d in written], bf16).result

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        rest, made, zero = arguments[0], [], arith.constant(f32, 0.0)
        for part in range(3):
            made.append(arith.truncf(bf16, rest))
            rest = arith.subf(rest, arith.extf(f32, made[-1]))
            if part == 1:
                share = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, rest, zero), zero, arith.constant(f32, CUT))
                rest = arith.addf(rest, arith.mulf(arguments[0], share))
        part = linalg.IndexOp(0).result
        value = made[2]
        for i in (1, 0):
            here = arith.cmpi(arith.CmpIPredicate.eq, part, arith.constant(ir.IndexType.get(), i))
            value = arith.select(here, made[i], value)
        return [value]

    indexing = [ir.AffineMap.get(count, 0, read), ir.AffineMap.get(count, 0, [loops[d] for d in written])]
    result = build([expanded], [out], indexing, [PARALLEL] * count, fill, ir.Location.current).results[0]
    return _reshape(result, [3, lines, terms])
