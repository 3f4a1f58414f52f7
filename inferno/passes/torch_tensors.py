"""Tensors of the torch dialect as builtin ones and back, where operations on builtin tensors stand among those of the torch dialect.

torch-mlir's own conversion of types folds the casts away.
"""

from collections.abc import Callable, Container, Sequence

from inferno.errors import PassError
from inferno.mlir import arith, ir, run_upstream, tensor, walk
from inferno.passes.generics import PARALLEL, build

_INTEGERS = {"si64": "i64", "si32": "i32", "si16": "i16", "si8": "i8", "ui8": "i8"}


def load_casts(context: ir.Context) -> None:
    """Load the dialect of the casts, which only the passes that use it do."""
    with context:
        run_upstream(ir.Module.create(ir.Location.unknown()), "torch-backend-to-linalg-on-tensors-backend-pipeline")


def replace_found(module: ir.Module, found: Sequence[ir.Operation], rewrite: Callable[[ir.Operation], None]) -> None:
    """Rewrite each of these operations, at the insertion point in front of it, with the dialect of the casts at hand."""
    if found:
        load_casts(module.context)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            rewrite(op)


def replace_operators(module: ir.Module, names: Container[str], rewrite: Callable[[ir.Operation], None]) -> None:
    """The same of each ``torch.operator`` with one of these names."""
    replace_found(module, [o for o in walk(module.operation, "torch.operator") if operator_name(o) in names], rewrite)


def operator_name(op: ir.Operation) -> str:
    """What a ``torch.operator`` is called in torch."""
    return ir.StringAttr(op.attributes["name"]).value


def to_builtin(value: ir.Value) -> ir.Value:
    """``tensor<4x?xf32>`` for ``!torch.vtensor<[4,?],f32>``."""
    return ir.Operation.create("torch_c.to_builtin_tensor", results=[builtin_type(value.type)], operands=[value]).results[0]


def builtin_type(type_: ir.Type) -> ir.RankedTensorType:
    """The builtin tensor type of torch's; PassError where that does not say sizes."""
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
    rank = sources[0].type.rank
    target = tensor.EmptyOp([size_of(sources[0], d) for d in range(rank)], element).result
    every = [ir.AffineMap.get_identity(rank)] * (len(sources) + 1)
    return build(sources, [target], every, [PARALLEL] * rank, lambda arguments: [compute(*arguments[:-1])], ir.Location.current).results[0]


def size_of(value: ir.Value, d: int) -> ir.Value | int:
    """The size of a builtin tensor's dimension: a number, or what is told when the program runs."""
    type_ = value.type
    return tensor.DimOp(value, arith.constant(ir.IndexType.get(), d)).result if type_.is_dynamic_dim(d) else type_.shape[d]


def broadcast_map(value: ir.Value, sizes: Sequence[ir.Value | int], end: int) -> ir.AffineMap:
    """How loops of these sizes read a builtin tensor whose last dimension is that of the loop before ``end``, and which repeats where it is of size 1."""
    type_, first = value.type, end - value.type.rank
    repeats = [not type_.is_dynamic_dim(d) and type_.shape[d] == 1 and sizes[first + d] != 1 for d in range(type_.rank)]
    read = [ir.AffineExpr.get_constant(0) if again else ir.AffineExpr.get_dim(first + d) for d, again in enumerate(repeats)]
    return ir.AffineMap.get(len(sizes), 0, read)
