"""Multiply two per-channel scales into one: batch norm multiplies by the reciprocal root of a variance and by a weight, both of which are vectors.

The weight may be in 16 bits: its factor is widened where it is multiplied then.  (bf16, 32x112x112x16 to 96 features: of 26 instructions for an element
a multiplication, and half of the weight's widening.)"""

from inferno.mlir import arith, ir, owner, rewrite, tensor
from inferno.passes.contraction import CONVOLUTIONS, has_one_reader
from inferno.passes.generics import PARALLEL, body, build, inputs, is_elementwise, kinds, maps, outputs, yielded
from inferno.passes.greedy import rewrite_greedily
from inferno.passes.locations import merge

_Scaled = tuple[ir.Value, ir.Value, ir.AffineMap]
_BODIES = (["arith.mulf", "linalg.yield"], ["arith.extf", "arith.mulf", "linalg.yield"])


def merge_scales(module: ir.Module) -> None:
    """Rewrite ``(x * a) * b`` as ``x * (a * b)`` where a and b are vectors along the same dimension, and nothing else reads the first product, so that
    their product is computed once for each of their elements.  Only modules with marked convolutions (``inferno.convolutions``) are changed."""
    if CONVOLUTIONS in module.operation.attributes:
        patterns = rewrite.RewritePatternSet(module.context)
        patterns.add("linalg.generic", _merge)
        rewrite_greedily(module, patterns)


def _merge(op, rewriter) -> bool:
    """Falsy when the operation was rewritten, as the bindings want it."""
    op = op.operation
    if (outer := _scaled(op)) is None or (inner := _scaled(owner(outer[0]))) is None or not has_one_reader(outer[0]):
        return True
    (_, second, along), (value, first, other) = outer, inner
    element = outputs(op)[0].type.element_type
    if along != other or first.type.shape != second.type.shape or outputs(owner(outer[0]))[0].type.element_type != element:
        return True
    with rewriter.ip, op.location:
        empty = tensor.EmptyOp(first.type.shape, element).result
        one = ir.AffineMap.get_identity(1)
        scale = build([first, second], [empty], [one] * 3, [PARALLEL], lambda a: [_product(op, a)], op.location).results[0]
        same = maps(op)[-1]
        new = build(
            [value, scale], outputs(op), [same, along, same], kinds(op), lambda a: [_product(op, a)], merge(op.location, owner(outer[0]).location),
        )
    rewriter.replace_op(op, new)
    return False


def _product(op: ir.Operation, arguments: list[ir.Value]) -> ir.Value:
    multiply = owner(yielded(op)[0])
    factors = [a if a.type == multiply.results[0].type else arith.extf(multiply.results[0].type, a) for a in arguments[:2]]
    multiply = multiply.clone()
    multiply.operands[0], multiply.operands[1] = factors
    return multiply.results[0]


def _scaled(op: ir.Operation | None) -> _Scaled | None:
    """The tensor, the vector and the vector's map, if all that an operation does is to multiply them; the tensor has the result's map."""
    if not is_elementwise(op) or len(inputs(op)) != 2 or [o.operation.name for o in body(op).operations] not in _BODIES:
        return None
    multiply = owner(yielded(op)[0])
    factors = [v if (made := owner(v)) is None else made.operands[0] for v in multiply.operands] if multiply.name == "arith.mulf" else []
    if set(factors) != set(list(body(op).arguments)[:2]) or not maps(op)[-1].is_permutation:
        return None
    for number in (0, 1):
        value, vector = inputs(op)[number], inputs(op)[1 - number]
        shaped = all(isinstance(v.type, ir.RankedTensorType) for v in (value, vector))
        if shaped and maps(op)[number] == maps(op)[-1] and vector.type.rank == 1 < value.type.rank and vector.type.has_static_shape:
            return value, vector, maps(op)[1 - number]
    return None
