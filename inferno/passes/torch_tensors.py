"""Tensors of the torch dialect as builtin ones and back, where operations on builtin tensors stand among those of the torch dialect.

torch-mlir's own conversion of types folds the casts away.
"""

from collections.abc import Callable

from inferno.errors import PassError
from inferno.mlir import arith, ir, linalg, run_upstream, tensor

_INTEGERS = {"si64": "i64", "si32": "i32", "si16": "i16", "si8": "i8", "ui8": "i8"}


def load_casts(context: ir.Context) -> None:
    """Load the dialect of the casts, which only the passes that use it do."""
    with context:
        run_upstream(ir.Module.create(ir.Location.unknown()), "torch-backend-to-linalg-on-tensors-backend-pipeline")


def to_builtin(value: ir.Value) -> ir.Value:
    """``tensor<4x?xf32>`` for ``!torch.vtensor<[4,?],f32>``."""
    return ir.Operation.create("torch_c.to_builtin_tensor", results=[builtin_type(value.type)], operands=[value]).results[0]


def builtin_type(type_: ir.Type) -> ir.RankedTensorType:
    text = str(type_)
    if not text.startswith("!torch.vtensor<["):
        raise PassError(f"{text} does not say its sizes")
    sizes, _, element = text.removeprefix("!torch.vtensor<[").removesuffix(">").partition("],")
    return ir.RankedTensorType(ir.Type.parse("tensor<" + "".join(f"{s}x" for s in sizes.split(",") if s) + _INTEGERS.get(element, element) + ">"))


def from_builtin(value: ir.Value, type_: ir.Type) -> ir.Value:
    """Of the torch dialect's ``type_``, which is that of the same tensor."""
    return ir.Operation.create("torch_c.from_builtin_tensor", results=[type_], operands=[value]).results[0]


def element_name(value: ir.Value) -> str:
    """``si32`` of ``!torch.vtensor<[4,5],si32>``; nothing for a type that does not say its sizes."""
    sizes, _, element = str(value.type).partition("],")
    return element.removesuffix(">") if sizes.startswith("!torch.vtensor<[") else ""


def replace_elementwise(op: ir.Operation, compute: Callable[[ir.Type, ir.Value], ir.Value]) -> None:
    """Compute an operation's result of the elements of its first operand, of the same shape: ``compute(type, element)``."""
    source, element = to_builtin(op.operands[0]), builtin_type(op.results[0].type).element_type
    made = map_elements([source], element, lambda value: compute(element, value))
    op.results[0].replace_all_uses_with(from_builtin(made, op.results[0].type))
    op.erase()


def map_elements(sources: list[ir.Value], element: ir.Type, compute: Callable[..., ir.Value]) -> ir.Value:
    """A builtin tensor of what is computed of the elements of others, all of one shape."""
    type_ = ir.RankedTensorType(sources[0].type)
    sizes = [tensor.DimOp(sources[0], arith.constant(ir.IndexType.get(), d)).result if type_.is_dynamic_dim(d) else n for d, n in enumerate(type_.shape)]
    target = tensor.EmptyOp(sizes, element).result
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    every = ir.ArrayAttr.get([identity] * (len(sources) + 1))
    generic = linalg.GenericOp([target.type], sources, [target], every, ir.ArrayAttr.get([parallel] * type_.rank))
    elements = [*(s.type.element_type for s in sources), element]
    body = generic.regions[0].blocks.append(*elements, arg_locs=[generic.operation.location] * len(elements))
    with ir.InsertionPoint(body):
        linalg.YieldOp([compute(*list(body.arguments)[:-1])])
    return generic.results[0]
