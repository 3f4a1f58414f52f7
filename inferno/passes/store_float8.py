"""Store 8-bit floats as bytes, and convert them by arithmetic on bits that rounds as torch does: nothing computes in 8 bits here.

Rounding is to nearest, ties to even.  What is too large is infinite in float8_e5m2; in float8_e4m3fn, which has no infinities, it is the largest
number, or in older versions of torch none: then ``@main`` says ``inferno.float8_overflows``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from inferno.dialect.float8 import OVERFLOWS, ROUNDED
from inferno.errors import PassError
from inferno.mlir import arith, func, ir, walk


@dataclass(frozen=True)
class _Format:
    """``mantissa`` bits, and the exponent's ``bias``; without the sign, the byte of what is too large, and the least of what is no number."""

    mantissa: int
    bias: int
    most: int
    least_nan: int


_FORMATS = {"f8E4M3FN": _Format(3, 7, 0x7E, 0x7F), "f8E5M2": _Format(2, 15, 0x7C, 0x7D)}
_CONVERSIONS = {"arith.truncf", "arith.extf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"}
# What moves such numbers without looking at them.
_MOVES = {"arith.select", "linalg.yield", "tensor.extract", "tensor.yield", "scf.yield", "scf.if", "tensor.insert", "tm_tensor.yield", "linalg.index"}


def store_float8(module: ir.Module) -> None:
    """Rewrite a module whose tensors hold such numbers.  Raises PassError for operations that compute with them."""
    if not any(_is_narrow(v.type) for op in walk(module.operation) for v in _values(op)):
        return
    byte, main = ir.IntegerType.get_signless(8, module.context), next(o for o in module.body.operations if isinstance(o, func.FuncOp))
    overflows = OVERFLOWS in main.attributes
    if overflows:
        del main.attributes[OVERFLOWS]
    for op in walk(module.operation):
        if op.name in _CONVERSIONS:
            _convert(op, overflows)
    for op in walk(module.operation):
        if op.name == "arith.constant" and _is_narrow(op.results[0].type):
            _constant(op, byte)
        elif not op.name.startswith(("linalg.", "tensor.", "func.", "tm_tensor.", "builtin.")) and op.name not in _MOVES and any(
            _is_narrow(v.type) for v in (*op.operands, *op.results)
        ) and not _is_name(op):
            raise PassError(f"store-float8: {op.name} computes with numbers of 8 bits: {str(op)[:200]}")
    for op in walk(module.operation):
        for value in _values(op):
            if (type_ := _as_bytes(value.type, byte)) != value.type:
                value.set_type(type_)
        if isinstance(op.opview, func.FuncOp):
            type_ = op.opview.type
            inputs, results = ([_as_bytes(t, byte) for t in types] for types in (type_.inputs, type_.results))
            op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for op in walk(module.operation, "arith.bitcast"):
        if op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _values(op: ir.Operation) -> list[ir.Value]:
    """What an operation makes and what its blocks are given."""
    return [*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)]


def _is_name(op: ir.Operation) -> bool:
    """Whether an operation only calls a byte a number or the other way round."""
    return op.name == "arith.bitcast" and "i8" in (str(op.operands[0].type), str(op.results[0].type))


def _is_narrow(type_: ir.Type) -> bool:
    return str(type_.element_type if isinstance(type_, ir.RankedTensorType) else type_) in _FORMATS


def _as_bytes(type_: ir.Type, byte: ir.Type) -> ir.Type:
    if not _is_narrow(type_):
        return type_
    return ir.RankedTensorType.get(type_.shape, byte, type_.encoding) if isinstance(type_, ir.RankedTensorType) else byte


def _constant(op: ir.Operation, byte: ir.Type) -> None:
    type_, value = op.results[0].type, op.attributes["value"]
    tensors = isinstance(type_, ir.RankedTensorType)
    if tensors and not value.is_splat:
        raise PassError("store-float8: a tensor of constants of 8 bits, of which not all are equal")
    number = ir.FloatAttr(value.get_splat_value() if tensors else value).value
    form = _FORMATS[str(type_.element_type if tensors else type_)]
    bits = ir.IntegerAttr.get(byte, _signed(encode(number, form)))
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(ir.RankedTensorType.get(type_.shape, byte), bits) if tensors else bits


def encode(number: float, form: _Format) -> int:
    """The byte of a number that the format has."""
    sign = 0x80 if str(number).startswith("-") else 0
    if number != number:
        return 0x7F
    return sign | next(b for b in range(0x80) if decode(b, form) == abs(number))


def decode(byte: int, form: _Format) -> float:
    """The number without a sign that a byte below 128 is."""
    if byte >= form.least_nan:
        return float("nan")
    if byte == form.most and form.bias == 15:
        return float("inf")
    exponent, mantissa = byte >> form.mantissa, byte & ((1 << form.mantissa) - 1)
    whole = mantissa if exponent == 0 else mantissa + (1 << form.mantissa)
    return whole * 2.0 ** (max(exponent, 1) - form.bias - form.mantissa)


def _signed(byte: int) -> int:
    return byte - 256 if byte >= 128 else byte


def _convert(op: ir.Operation, overflows: bool) -> None:
    """A conversion from or to such a number."""
    source, result = op.operands[0], op.results[0]
    forms = {name: replace(f, most=0x7F) if overflows and f.bias == 7 else f for name, f in _FORMATS.items()}
    single = ir.F32Type.get(op.context)
    with ir.InsertionPoint(op), op.location:
        if str(source.type) in _FORMATS:
            value = _widened(source, _FORMATS[str(source.type)])
            if op.name in ("arith.fptosi", "arith.fptoui"):
                value = (arith.fptosi if op.name == "arith.fptosi" else arith.fptoui)(result.type, value)
            elif str(result.type) in _FORMATS:
                value = _narrowed(value, result.type, forms[str(result.type)])
            elif result.type != single:
                value = (arith.extf if isinstance(result.type, ir.F64Type) else arith.truncf)(result.type, value)
        elif str(result.type) in _FORMATS:
            value = source
            if op.name in ("arith.sitofp", "arith.uitofp"):
                value = (arith.sitofp if op.name == "arith.sitofp" else arith.uitofp)(single, value)
            elif source.type != single:
                value = (arith.truncf if isinstance(source.type, ir.F64Type) else arith.extf)(single, value)
            value = _narrowed(value, result.type, forms[str(result.type)])
        else:
            return
        result.replace_all_uses_with(value)
    op.erase()


def _words() -> tuple[ir.Type, Callable[[int], ir.Value]]:
    word = ir.IntegerType.get_signless(32)
    return word, lambda number: arith.constant(word, number - (1 << 32) if number >= 1 << 31 else number)


def _narrowed(value: ir.Value, type_: ir.Type, form: _Format) -> ir.Value:
    """The byte of a float32, still called a number: its type is changed with all others."""
    word, number = _words()
    single, shift = value.type, 23 - form.mantissa
    bits = arith.bitcast(word, value)
    size = arith.andi(bits, number(0x7FFFFFFF))
    # Half a unit of the last place more, less one where that is even, and another exponent.
    odd = arith.andi(arith.shrui(size, number(shift)), number(1))
    moved = arith.addi(arith.addi(size, odd), number((((form.bias - 127) << 23) + (1 << (shift - 1)) - 1) & 0xFFFFFFFF))
    normal = arith.shrui(moved, number(shift))
    # Below the normal numbers an addition rounds to a whole number of the smallest one.
    magic = (127 - form.bias + 1 + 23 - form.mantissa) << 23
    added = arith.addf(arith.bitcast(single, size), arith.bitcast(single, number(magic)))
    small = arith.subi(arith.bitcast(word, added), number(magic))
    is_small = arith.cmpi(arith.CmpIPredicate.ult, size, number((127 - form.bias + 1) << 23))
    found = arith.select(is_small, small, arith.minui(normal, number(form.most)))
    if form.most != 0x7F:
        found = arith.select(arith.cmpi(arith.CmpIPredicate.ugt, size, number(0x7F800000)), number(0x7F), found)
    sign = arith.andi(arith.shrui(bits, number(24)), number(0x80))
    byte = arith.trunci(ir.IntegerType.get_signless(8), arith.ori(found, sign))
    byte.owner.attributes[ROUNDED] = ir.StringAttr.get("e5m2x2" if form.bias == 15 else "e4m3x2" if form.most == 0x7E else "e4m3x2 overflows")
    return arith.bitcast(type_, byte)


def _widened(value: ir.Value, form: _Format) -> ir.Value:
    """A byte as float32, by way of float16: its exponents are larger, so that every number is exact."""
    half, short, single = ir.F16Type.get(), ir.IntegerType.get_signless(16), ir.F32Type.get()
    bits = arith.extui(short, arith.bitcast(ir.IntegerType.get_signless(8), value))
    constant = lambda n: arith.constant(short, n - (1 << 16) if n >= 1 << 15 else n)  # noqa: E731
    if form.bias == 15:
        return arith.extf(single, arith.bitcast(half, arith.shli(bits, constant(8))))
    size, sign = arith.andi(bits, constant(0x7F)), arith.shli(arith.andi(bits, constant(0x80)), constant(8))
    wide = arith.extf(single, arith.bitcast(half, arith.ori(arith.shli(size, constant(10 - form.mantissa)), sign)))
    exact = arith.mulf(wide, arith.constant(single, 2.0 ** (15 - form.bias)))
    is_nan = arith.cmpi(arith.CmpIPredicate.uge, size, constant(form.least_nan))
    return arith.select(is_nan, arith.constant(single, float("nan")), exact)
