"""Accumulate sums of 16-bit products in float32, as of operands that are broadcast, multiplied and summed.

Kernels add in float32 in any case; what multiplies matrices knows a product by it, and tensor cores have no other sums.  As a pass this is done of matrices:
a few rows or columns may be better off among the rows that other kernels make of them.
"""

from inferno.mlir import arith, ir, linalg, owner, tensor, walk
from inferno.passes.contraction import is_contraction, zero_start
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, kinds, loop_sizes, loops_of, maps, only_user, outputs
from inferno.passes.shapes import function_of
from inferno.passes.size_values import sizes as tensor_sizes
from inferno.passes.widen_arithmetic import ROUNDS, drop_round_trips
from inferno.symbolic import hint, product

_NARROW = {"bf16", "f16"}
_SIDE = 16  # rows and columns of a matrix: a tile of tensor cores


def widen_sums(module: ir.Module) -> None:
    """Rewrite every plain sum of products of matrices whose products are not rounded."""
    for op in [op for op in walk(module.operation, "linalg.generic") if _is_narrow(op) and not _is_rounded(op) and _is_of_matrices(op)]:
        _widen(op)


def widen_every_sum(module: ir.Module) -> ir.Type | None:
    """Rewrite every plain sum of products.  Returns the type that their products are rounded to before they are added, if they say so."""
    rounds = None
    for op in [op for op in walk(module.operation, "linalg.generic") if _is_narrow(op)]:
        rounds = op.results[0].type.element_type if _is_rounded(op) else rounds
        _widen(op)
    return rounds


def _is_narrow(op: ir.Operation) -> bool:
    if not is_contraction(op) or zero_start(op) is None:
        return False
    types = {str(v.type.element_type) for v in (*inputs(op), op.results[0])}
    return len(types) == 1 and types <= _NARROW and {name for name in _multiply(op).attributes} <= {ROUNDS, "fastmath"}


def _multiply(op: ir.Operation) -> ir.Operation:
    return next(o.operation for o in body(op).operations if o.operation.name == "arith.mulf")


def _is_rounded(op: ir.Operation) -> bool:
    return ROUNDS in _multiply(op).attributes


def _is_of_matrices(op: ir.Operation) -> bool:
    """Whether each factor has many loops' steps of its own."""
    sizes = loop_sizes(op)
    left, right = (set().union(*map(loops_of, m.results)) for m in maps(op)[:2])
    return all(n is not None for n in sizes) and all(hint(product(sizes[d] for d in own)) >= _SIDE for own in (left - right, right - left))


def _widen(op: ir.Operation) -> None:
    """Replace one."""
    start, narrow, wide = outputs(op)[0], op.results[0].type.element_type, ir.F32Type.get(op.context)
    fill, reader = owner(start), only_user(op.results[0])
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
