"""One buffer copied to another, element by element in memory order, by 16 bytes a thread; floats may be converted on the way.  Or filled with a number."""

import math

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, element_type, load, load_vector, store, store_vector
from inferno.codegen.builders.integers import Integers
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir
from inferno.passes.shapes import shape
from inferno.symbolic import Int, ceildiv, divisor, product

THREADS = 256  # of a block


def copy_lanes(source: ir.Value, target: ir.Value) -> int:
    """Elements that a thread copies; both buffers have the same number of them."""
    width = max(element_bytes(v.type.element_type) for v in (source, target))
    return math.gcd(16 // width, divisor(product(shape(target))))


def copy_blocks(source: ir.Value, target: ir.Value) -> Int:
    """The blocks of a copy."""
    return ceildiv(product(shape(target)), THREADS * copy_lanes(source, target))


def emit_copy(ints: Integers, source: ir.Value, target: ir.Value, lanes: int, count: Int) -> None:
    """The whole kernel: ``source`` and ``target`` are its parameters, of ``count`` elements."""
    block = ints.block()
    thread = ints.thread(THREADS)
    number = ints.add(ints.mul(block, THREADS), thread)
    place, element, wanted = ints.mul(number, lanes), source.type.element_type, target.type.element_type
    with only_if(ints.less(number, count // lanes)):
        if lanes == 1:
            store(ints, _converted(load(ints, source, place, element), wanted), target, place)
        else:
            store_vector(ints, _converted(as_vector(load_vector(ints, source, place, element, lanes, lanes), lanes), wanted), target, place, lanes)


def fill_lanes(target: ir.Value) -> int:
    """Elements that a thread fills."""
    return math.gcd(16 // element_bytes(target.type.element_type), divisor(product(shape(target))))


def emit_fill(ints: Integers, value: ir.Value, target: ir.Value, lanes: int, count: Int) -> None:
    """The whole kernel: ``target`` is its parameter, of ``count`` elements."""
    block = ints.block()
    thread = ints.thread(THREADS)
    number = ints.add(ints.mul(block, THREADS), thread)
    with only_if(ints.less(number, count // lanes)):
        if lanes == 1:
            store(ints, value, target, number)
        else:
            store_vector(ints, as_vector(value, lanes), target, ints.mul(number, lanes), lanes)


def _converted(value: ir.Value, element: ir.Type) -> ir.Value:
    own = element_type(value)
    if own == element:
        return value
    type_ = ir.VectorType.get(value.type.shape, element) if isinstance(value.type, ir.VectorType) else element
    return arith.extf(type_, value) if element.width > own.width else arith.truncf(type_, value)
