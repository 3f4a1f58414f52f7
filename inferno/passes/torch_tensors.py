"""Tensors of the torch dialect as builtin ones and back, where operations on builtin tensors stand among those of the torch dialect.

torch-mlir's own conversion of types folds the casts away.
"""

from inferno.errors import PassError
from inferno.mlir import ir, run_upstream

_INTEGERS = {"si64": "i64", "si32": "i32", "si16": "i16", "si8": "i8"}


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
