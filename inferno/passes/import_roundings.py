"""Import casts to 16 bits that the program asks for as roundings, which no fusion takes away.

Of a decomposition's own casts, which are other operations, fused kernels leave out those that are extended again: they only add error.
But ``x - x.bfloat16().float()`` is what ``x`` has beyond 16 bits, and ``x.half().float()`` is infinite where ``x`` is large.
"""

from inferno.mlir import arith, ir, walk
from inferno.passes.torch_tensors import element_name, replace_elementwise, replace_found
from inferno.passes.widen_arithmetic import ROUNDS

_OPERATION = "torch.aten._to_copy"


def import_roundings(module: ir.Module) -> None:
    """Replace every ``torch.aten._to_copy`` from a number to bf16 or f16 that has not all of its values."""
    replace_found(module, [o for o in walk(module.operation, _OPERATION) if _rounds(o)], lambda op: replace_elementwise(op, _round))


def _rounds(op: ir.Operation) -> bool:
    source, target = element_name(op.operands[0]), element_name(op.results[0])
    return target in ("bf16", "f16") and source != target and source in ("f64", "f32", "f16", "bf16", "si64", "si32", "si16")


def _round(narrow: ir.Type, value: ir.Value) -> ir.Value:
    rounded = _convert(narrow, value)
    rounded.owner.attributes[ROUNDS] = ir.UnitAttr.get()
    return rounded


def _convert(narrow: ir.Type, value: ir.Value) -> ir.Value:
    """By way of float32, as torch casts floats of all types."""
    if isinstance(value.type, ir.IntegerType):
        return arith.sitofp(narrow, value)
    wide = ir.F32Type.get()
    convert = {16: arith.extf, 32: lambda _, same: same, 64: arith.truncf}[value.type.width]
    return arith.truncf(narrow, convert(wide, value))
