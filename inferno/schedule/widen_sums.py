"""Sums of products of 16 bits in their own type, as of factors that are broadcast, multiplied and added up, as sums in float32: kernels add in that."""

from inferno.mlir import arith, ir, linalg, owner, tensor, walk
from inferno.passes.contraction import is_contraction, zero_start
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, kinds, maps, only_user, outputs
from inferno.passes.shapes import function_of
from inferno.passes.shapes import sizes as tensor_sizes
from inferno.passes.widen_arithmetic import ROUNDS, drop_round_trips

_NARROW = {"bf16", "f16"}


def widen_sums(module: ir.Module) -> ir.Type | None:
    """Let plain sums of products of 16 bits, apart from what is made of them, be float32, rounded by what reads them.  Returns the type that products are
    rounded to before they are added, if they say so."""
    rounds = None
    for op in [op for op in walk(module.operation, "linalg.generic") if _is_narrow(op)]:
        type_ = op.results[0].type.element_type
        rounds = type_ if _widen(op) else rounds
    return rounds


def _is_narrow(op: ir.Operation) -> bool:
    if not is_contraction(op) or zero_start(op) is None:
        return False
    types = {str(v.type.element_type) for v in (*inputs(op), op.results[0])}
    return len(types) == 1 and types <= _NARROW


def _widen(op: ir.Operation) -> bool:
    """Replace one; says whether its products are rounded."""
    start, narrow, wide = outputs(op)[0], op.results[0].type.element_type, ir.F32Type.get(op.context)
    fill, reader = owner(start), only_user(op.results[0])
    multiply = next(o.operation for o in body(op).operations if o.operation.name == "arith.mulf")
    with ir.InsertionPoint(op), op.location:
        empty = tensor.EmptyOp(tensor_sizes(start, function_of(op)), wide).result
        zero = linalg.fill(arith.constant(wide, 0.0), outs=[empty])

        def add(a: list[ir.Value]) -> list[ir.Value]:
            product = arith.mulf(arith.extf(wide, a[0]), arith.extf(wide, a[1]))
            return [arith.addf(a[2], product)]

        total = build(inputs(op), [zero], maps(op), kinds(op), add, op.location).results[0]
    if is_elementwise(reader):
        _read_wide(reader, op.results[0], total)
    else:
        with ir.InsertionPoint(op), op.location:
            same = ir.AffineMap.get_identity(start.type.rank)
            made = build([total], [fill.operands[1]], [same, same], [PARALLEL] * start.type.rank, lambda a: [arith.truncf(narrow, a[0])], op.location)
        op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
    return ROUNDS in multiply.attributes


def _read_wide(reader: ir.Operation, value: ir.Value, total: ir.Value) -> None:
    """Let an elementwise operation read ``total``, and round it where it reads it."""
    numbers = [i for i, v in enumerate(inputs(reader)) if v == value]

    def fill(arguments: list[ir.Value]) -> list[ir.Value]:
        known = list(arguments)
        for i in numbers:
            known[i] = arith.truncf(value.type.element_type, arguments[i])
        return clone_body(body(reader), known, [ir.AffineDimExpr.get(d) for d in range(len(kinds(reader)))])

    with ir.InsertionPoint(reader), reader.location:
        read = [total if i in numbers else v for i, v in enumerate(inputs(reader))]
        made = build(read, outputs(reader), maps(reader), kinds(reader), fill, reader.location)
    drop_round_trips(made)
    for old, new in zip(reader.results, made.results):
        old.replace_all_uses_with(new)
    reader.erase()
