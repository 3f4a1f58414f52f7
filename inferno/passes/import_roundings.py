"""Import casts to 16 bits that the program asks for as roundings, which no fusion takes away.

Of a decomposition's own casts, which are other operations, fused kernels leave out those that are extended again: they only add error.
But ``x - x.bfloat16().float()`` is what ``x`` has beyond 16 bits, and ``x.half().float()`` is infinite where ``x`` is large.
"""

from inferno.mlir import arith, ir, linalg, tensor, walk
from inferno.passes.torch_tensors import builtin_type, from_builtin, load_casts, to_builtin
from inferno.passes.widen_arithmetic import ROUNDS

_OPERATION = "torch.aten._to_copy"


def import_roundings(module: ir.Module) -> None:
    """Replace every ``torch.aten._to_copy`` from a number to bf16 or f16 that has not all of its values."""
    found = [o for o in walk(module.operation, _OPERATION) if _rounds(o)]
    if found:
        load_casts(module.context)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            _replace(op)


def _element(value: ir.Value) -> str:
    """``bf16`` of ``!torch.vtensor<[4,5],bf16>``; nothing for a type that does not say its sizes."""
    sizes, _, element = str(value.type).partition("],")
    return element.removesuffix(">") if sizes.startswith("!torch.vtensor<[") else ""


def _rounds(op: ir.Operation) -> bool:
    source, target = _element(op.operands[0]), _element(op.results[0])
    return target in ("bf16", "f16") and source != target and source in ("f64", "f32", "f16", "bf16", "si64", "si32", "si16")


def _replace(op: ir.Operation) -> None:
    source, result = to_builtin(op.operands[0]), builtin_type(op.results[0].type)
    type_ = ir.RankedTensorType(source.type)
    sizes = [tensor.DimOp(source, arith.constant(ir.IndexType.get(), d)).result if type_.is_dynamic_dim(d) else n for d, n in enumerate(type_.shape)]
    target = tensor.EmptyOp(sizes, result.element_type).result
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp([target.type], [source], [target], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * type_.rank))
    body = generic.regions[0].blocks.append(type_.element_type, result.element_type, arg_locs=[op.location] * 2)
    with ir.InsertionPoint(body):
        rounded = _convert(result.element_type, body.arguments[0])
        rounded.owner.attributes[ROUNDS] = ir.UnitAttr.get()
        linalg.YieldOp([rounded])
    op.results[0].replace_all_uses_with(from_builtin(generic.results[0], op.results[0].type))
    op.erase()


def _convert(narrow: ir.Type, value: ir.Value) -> ir.Value:
    """By way of float32, as torch casts floats of all types."""
    if isinstance(value.type, ir.IntegerType):
        return arith.sitofp(narrow, value)
    wide = ir.F32Type.get()
    convert = {16: arith.extf, 32: lambda _, same: same, 64: arith.truncf}[value.type.width]
    return arith.truncf(narrow, convert(wide, value))
