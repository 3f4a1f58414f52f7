"""Load and store elements of flat buffers, one or a vector at a time; booleans are bytes in memory and i1 in registers."""

from collections.abc import Callable, Sequence
from typing import Any

from inferno.codegen.builders.conditions import if_else
from inferno.codegen.builders.gpu_function import stored_type
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.lane_patterns import Pattern
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir, llvm, memref, vector
from inferno.powers import last_power_of_two
from inferno.symbolic import Int, is_multiple


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


def load_lanes(
    ints: Integers, buffer: ir.Value, offset: Integer, pattern: Pattern, element: ir.Type, count: Int, active: Sequence[bool] | None = None,
    clamped: bool = False, constant: int = 0, loaded_before: dict | None = None,
) -> ir.Value:
    """The elements at ``pattern``, of which ``offset + constant`` is lane 0, in as few aligned accesses as they lie in; one scalar where all lanes are it.

    ``count`` is the buffer's length.  Only ``active`` lanes are read, the others are anything.  ``clamped``: lanes that are outside of the buffer
    are anything, too.  ``loaded_before``: what was read by these offsets in which block, to be read once.
    """
    lanes = len(pattern.residues)
    wanted = [i for i in range(lanes) if active is None or active[i]]
    residues = [pattern.residues[i] for i in wanted]

    def chunks(width: int) -> list[int]:
        return sorted({r // width for r in residues})

    width, most = 1, 16 // element_bytes(element)
    while 2 * width <= most and pattern.modulus % (2 * width) == 0 and is_multiple(count, 2 * width):
        width *= 2
    while width > 1 and len(chunks(width // 2)) == len(chunks(width)):
        width //= 2
    type_ = ir.VectorType.get([width], stored_type(element))
    needed, loaded = chunks(width), []
    for chunk in needed:
        plus = chunk * width - pattern.residues[0]
        alone = clamped or plus < 0 or len(wanted) < lanes
        key = (buffer, offset, constant + plus, width, clamped)
        made = loaded_before.setdefault(key, []) if loaded_before is not None else []
        here = ir.InsertionPoint.current.block
        found = next((v for block, v in made if block == here), None)
        if found is None:
            start, plus = (ints.add(offset, constant + plus), 0) if alone else (ints.add(offset, constant), plus)
            start = ints.min(start, ints.value(count - width)) if clamped else start
            if width == 1:
                found = load(ints, buffer, start, element, plus)
            else:
                whole = vector.LoadOp(type_, buffer, [ints.index(start, plus)], alignment=width * element_bytes(element)).result
                found = from_memory(whole, element)
            made.append((here, found))
        loaded.append(found)
    read = dict(zip(wanted, residues))
    if len(set(residues)) == 1:
        return lanes_of(loaded[0])[residues[0] % width]
    place = [read.get(i, residues[0]) for i in range(lanes)]
    if width == 1:
        return join([loaded[needed.index(r)] for r in place])
    return shuffled(loaded, [needed.index(r // width) * width + r % width for r in place])


def shuffled(parts: list[ir.Value], places: list[int]) -> ir.Value:
    """The elements at ``places`` of vectors of one length, one behind the other.  Gathered one by one, LLVM might read them so, too."""
    width = parts[0].type.shape[0]
    while len(parts) > 2:
        parts = [*parts, parts[-1]] if len(parts) % 2 else parts
        parts = [vector.shuffle(a, b, list(range(2 * width))) for a, b in zip(parts[::2], parts[1::2])]
        width *= 2
    if len(parts) == 1 and places == list(range(width)):
        return parts[0]
    return vector.shuffle(parts[0], parts[-1], places)


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


def branch_together(
    op: ir.Operation, condition: ir.Value, lanes: int, inline: Callable[[ir.Region], list[ir.Value]],
) -> list[ir.Value]:
    """The values of an ``scf.if`` of which all lanes take the same side; with ``lanes`` as vectors of so many."""
    types = [ir.VectorType.get([lanes], r.type) if lanes else r.type for r in op.results]

    def side(region: ir.Region) -> list[ir.Value]:
        return [as_vector(v, lanes) if lanes else v for v in inline(region)]

    then, other = op.regions
    return if_else(lanes_of(condition)[0], types, lambda: side(then), lambda: side(other))


def _width(element: ir.Type, lanes: int, aligned: int) -> int:
    """Elements of one access: a power of 2, at most 16 bytes."""
    return last_power_of_two(min(lanes, aligned, 16 // element_bytes(element)))


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


def word(number: int) -> ir.Value:
    """A constant of 32 bits."""
    return arith.constant(ir.IntegerType.get_signless(32), number)


def splat(type_: ir.Type, number: int | float) -> ir.Value:
    """A constant of a scalar or vector type."""
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    integer = isinstance(element, (ir.IntegerType, ir.IndexType))
    attribute = ir.IntegerAttr.get(element, int(number)) if integer else ir.FloatAttr.get(element, float(number))
    if isinstance(type_, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
    return arith.ConstantOp(type_, attribute).result


def element_type(value: ir.Value) -> ir.Type:
    """The type of a number, or of a vector's lanes."""
    return value.type.element_type if isinstance(value.type, ir.VectorType) else value.type


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


def opaque_vector(value: ir.Value) -> ir.Value:
    """The same as something that LLVM knows nothing about, or it would keep what it has computed of it; numbers of 16 bits and less, by words."""
    element = element_type(value)
    lanes = value.type.shape[0] if isinstance(value.type, ir.VectorType) else 1
    if not 8 <= element.width <= 16 or lanes * element.width % 32:
        return value
    i32 = ir.IntegerType.get_signless(32)
    words = lanes_of(vector.bitcast(ir.VectorType.get([lanes * element.width // 32], i32), value))
    hidden = [llvm.inline_asm(i32, [w], "", "=r,0", has_side_effects=True) for w in words]
    return vector.bitcast(value.type, join(hidden))


def convert(value: ir.Value, element: ir.Type) -> ir.Value:
    """A number, or each of a vector, in another precision of the same kind."""
    vector = isinstance(value.type, ir.VectorType)
    have = value.type.element_type if vector else value.type
    if have == element:
        return value
    type_ = ir.VectorType.get(value.type.shape, element) if vector else element
    if isinstance(element, ir.IntegerType):
        return arith.extsi(type_, value) if element.width > have.width else arith.trunci(type_, value)
    return arith.extf(type_, value) if element.width > have.width else arith.truncf(type_, value)


def tree(combine: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """All parts together, two and two."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(a, b) for a, b in zip(parts[:half], parts[half:])] + list(parts[2 * half:])
    return parts[0]
