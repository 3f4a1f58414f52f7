"""Import ``x.view(dtype)`` of another kind of type as wide as the tensor's own, which torch-mlir only knows between integers."""

from inferno.mlir import arith, ir, linalg, tensor, walk
from inferno.passes.torch_tensors import from_builtin, load_casts, to_builtin


def import_bitcasts(module: ir.Module) -> None:
    """Replace every ``torch.aten.view.dtype`` from a float to an integer of as many bits, or back."""
    found = [o for o in walk(module.operation, "torch.aten.view.dtype") if _is_bitcast(*(_element(v.type) for v in (o.operands[0], o.results[0])))]
    if found:
        load_casts(module.context)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            _replace(op)


def _element(type_: ir.Type) -> str:
    """``si32`` of ``!torch.vtensor<[4,5],si32>``; nothing for a type that does not say so."""
    sizes, _, element = str(type_).partition("],")
    return element.removesuffix(">") if sizes.startswith("!torch.vtensor<[") else ""


def _is_bitcast(source: str, target: str) -> bool:
    kinds = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}, {"si16": 16, "si32": 32, "si64": 64}
    return any(a.get(source) == b.get(target, -1) for a, b in (kinds, kinds[::-1]))


def _replace(op: ir.Operation) -> None:
    source = to_builtin(op.operands[0])
    type_ = ir.RankedTensorType(source.type)
    element = ir.Type.parse(_element(op.results[0].type).replace("si", "i"))
    sizes = [tensor.DimOp(source, arith.constant(ir.IndexType.get(), d)).result if type_.is_dynamic_dim(d) else n for d, n in enumerate(type_.shape)]
    target = tensor.EmptyOp(sizes, element).result
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp([target.type], [source], [target], ir.ArrayAttr.get([identity] * 2), ir.ArrayAttr.get([parallel] * type_.rank))
    body = generic.regions[0].blocks.append(type_.element_type, element, arg_locs=[op.location] * 2)
    with ir.InsertionPoint(body):
        linalg.YieldOp([arith.bitcast(element, body.arguments[0])])
    op.results[0].replace_all_uses_with(from_builtin(generic.results[0], op.results[0].type))
    op.erase()
