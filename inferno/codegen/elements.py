"""Load and store elements of flat buffers, one or a vector at a time; booleans are bytes in memory and i1 in registers."""

from collections.abc import Sequence

from inferno.codegen.gpu_function import element_bytes, stored_type
from inferno.codegen.integers import Integer, Integers
from inferno.mlir import arith, ir, memref, owner, vector


def load(ints: Integers, buffer: ir.Value, offset: Integer, element: ir.Type, plus: int = 0) -> ir.Value:
    """The element at ``offset + plus``."""
    return from_memory(memref.load(buffer, [ints.index(offset, plus)]), element)


def store(ints: Integers, value: ir.Value, buffer: ir.Value, offset: Integer) -> None:
    """One element."""
    memref.store(to_memory(value), buffer, [ints.index(offset)])


def load_vector(
    ints: Integers, buffer: ir.Value, offset: Integer, element: ir.Type, lanes: int, aligned: int, plus: int = 0,
) -> ir.Value:
    """``lanes`` neighbours from ``offset + plus``, of which every run of ``aligned`` is aligned; in accesses of at most
    16 bytes."""
    width = _width(element, lanes, aligned)
    stored = stored_type(element)
    if width == 1:
        return join([load(ints, buffer, offset, element, plus + i) for i in range(lanes)])
    type_ = ir.VectorType.get([width], stored)
    parts = [
        vector.LoadOp(type_, buffer, [ints.index(offset, plus + i)], alignment=width * element_bytes(element)).result
        for i in range(0, lanes, width)
    ]
    whole = parts[0] if len(parts) == 1 else join([x for p in parts for x in lanes_of(p)])
    return from_memory(whole, element)


def store_vector(ints: Integers, value: ir.Value, buffer: ir.Value, offset: Integer, aligned: int, plus: int = 0) -> None:
    """Store a vector to the elements from ``offset + plus``; ``aligned`` as for ``load_vector``."""
    type_ = ir.VectorType(value.type)
    lanes, element = type_.shape[0], type_.element_type
    width = _width(element, lanes, aligned)
    value = to_memory(value)
    if width == 1:
        for i, x in enumerate(lanes_of(value)):
            memref.store(x, buffer, [ints.index(offset, plus + i)])
        return
    for i in range(0, lanes, width):
        part = value if width == lanes else join(lanes_of(value)[i:i + width])
        vector.StoreOp(part, buffer, [ints.index(offset, plus + i)], alignment=width * element_bytes(element))


def _width(element: ir.Type, lanes: int, aligned: int) -> int:
    width = min(lanes, aligned, 16 // element_bytes(element))
    return 1 << (width.bit_length() - 1)


def from_memory(value: ir.Value, element: ir.Type) -> ir.Value:
    """Bytes to booleans; anything else as it is."""
    if str(element) != "i1":
        return value
    zero = splat(value.type, 0)
    return arith.cmpi(arith.CmpIPredicate.ne, value, zero)


def to_memory(value: ir.Value) -> ir.Value:
    """Booleans to bytes; anything else as it is."""
    byte = ir.IntegerType.get_signless(8)
    if isinstance(value.type, ir.VectorType) and str(value.type.element_type) == "i1":
        return arith.extui(ir.VectorType.get(value.type.shape, byte), value)
    return arith.extui(byte, value) if str(value.type) == "i1" else value


def splat(type_: ir.Type, number: int | float) -> ir.Value:
    """A constant of a scalar or vector type."""
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    integer = isinstance(element, (ir.IntegerType, ir.IndexType))
    attribute = ir.IntegerAttr.get(element, int(number)) if integer else ir.FloatAttr.get(element, float(number))
    if isinstance(type_, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
    return arith.ConstantOp(type_, attribute).result


def splat_number(value: ir.Value) -> int | None:
    """The whole number that all lanes of a vector are, if it is a constant."""
    op = owner(value)
    if op is not None and op.name == "vector.broadcast":
        op = owner(op.operands[0])
    if op is None or op.name != "arith.constant":
        return None
    number = op.attributes["value"]
    number = number.get_splat_value() if isinstance(number, ir.DenseElementsAttr) and number.is_splat else number
    return ir.IntegerAttr(number).value if isinstance(number, ir.IntegerAttr) else None


def lanes_of(value: ir.Value) -> list[ir.Value]:
    """The lanes of a vector; a scalar is its own only lane."""
    if not isinstance(value.type, ir.VectorType):
        return [value]
    return [vector.ExtractOp(value, [], [i]).result for i in range(value.type.shape[0])]


def join(lanes: Sequence[ir.Value]) -> ir.Value:
    """A vector of scalars."""
    return vector.FromElementsOp(ir.VectorType.get([len(lanes)], lanes[0].type), list(lanes)).result


def as_vector(value: ir.Value, lanes: int) -> ir.Value:
    """A scalar broadcast to a vector; a vector as it is."""
    return value if isinstance(value.type, ir.VectorType) else vector.broadcast(ir.VectorType.get([lanes], value.type), value)
