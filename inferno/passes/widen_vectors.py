"""Keep what is computed of totals and read for each of many more points, a mean of columns or of rows, in float32 between kernels.

In eager it is rounded, and so are the points that it is taken off.  Where these are computed in float32 on the way, and never rounded, the mean's rounding is
all that is left of the difference of the two.
"""

from inferno.mlir import arith, ir, owner, tensor, users, walk
from inferno.passes.contraction import is_convolution, is_sum_of_products
from inferno.passes.generics import (
    body, build, clone_body, clone_uncast, inputs, is_elementwise, is_generic, is_reduction, kinds, knows_sizes, loop_sizes, maps, outputs,
    take_place, yielded,
)
from inferno.passes.programs import root_of
from inferno.passes.shapes import function_of, shape
from inferno.passes.size_values import sizes
from inferno.passes.widen_arithmetic import ROUNDS, drop_round_trips
from inferno.symbolic import hint, product

_MANY = 8  # points of a reader for each number, at least: wider numbers are few bytes then


def widen_vectors(module: ir.Module) -> None:
    """Rewrite every elementwise operation on totals that ends with a rounding to 16 bits of its own, if all that reads it widens it again, for many points
    each.  What is returned, compared or multiplied by tensor cores has the type that was asked for."""
    for op in reversed(walk(module.operation, "linalg.generic")):  # readers first: they are made anew
        if is_elementwise(op) and len(op.results) == 1 and knows_sizes(op) and _rounds(op) and _is_of_totals(op) and _all_widen(op.results[0]):
            _keep_wide(op)


def _rounds(op: ir.Operation) -> bool:
    """Whether the body ends with a rounding of float32 that the program did not ask for."""
    last = owner(yielded(op)[0])
    return last is not None and last.name == "arith.truncf" and last.parent.operation == op and ROUNDS not in last.attributes and (
        isinstance(last.operands[0].type, ir.F32Type) and last.results[0].type.width == 16)


def _is_of_totals(op: ir.Operation) -> bool:
    made = [owner(root_of(v)) for v in inputs(op)]
    return any(is_reduction(m) and not is_sum_of_products(m) and not is_convolution(m) for m in made)


def _all_widen(value: ir.Value) -> bool:
    found = list(users(value))
    return bool(found) and all(_widens(u, value) for u in found)


def _widens(reader: ir.Operation, value: ir.Value) -> bool:
    if not is_generic(reader) or value in outputs(reader) or not knows_sizes(reader) or is_sum_of_products(reader) or is_convolution(reader):
        return False
    if any(s is None for s in loop_sizes(reader)):
        return False
    if _MANY * product(hint(s) for s in shape(value)) > product(hint(s) for s in loop_sizes(reader)):
        return False
    arguments = [a for v, a in zip(inputs(reader), body(reader).arguments) if v == value]
    return all(u.name == "arith.extf" and isinstance(u.results[0].type, ir.F32Type) for a in arguments for u in users(a))


def _keep_wide(op: ir.Operation) -> None:
    narrow = op.results[0]
    wide = owner(yielded(op)[0]).operands[0].type
    with ir.InsertionPoint(op), op.location:
        empty = tensor.EmptyOp(sizes(narrow, function_of(op)), wide).result
        made = build(inputs(op), [empty], maps(op), kinds(op), lambda arguments: clone_uncast(body(op), arguments), op.location)
    for reader in dict.fromkeys(users(narrow)):
        _read_wide(reader, narrow, made.results[0])
    op.erase()


def _read_wide(reader: ir.Operation, narrow: ir.Value, wide: ir.Value) -> None:
    read = inputs(reader)

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        type_ = narrow.type.element_type
        return clone_body(body(reader), [arith.truncf(type_, a) if v == narrow else a for v, a in zip([*read, *outputs(reader)], arguments)])

    with ir.InsertionPoint(reader), reader.location:
        made = build([wide if v == narrow else v for v in read], outputs(reader), maps(reader), kinds(reader), fill, reader.location)
        drop_round_trips(made)
    take_place(made, reader)
