"""Import ``x.view(dtype)`` of another kind of type as wide as the tensor's own, which torch-mlir has no lowering for."""

from inferno.mlir import arith, ir, walk
from inferno.passes.torch_tensors import element_name, replace_elementwise, replace_found


def import_bitcasts(module: ir.Module) -> None:
    """Replace every ``torch.aten.view.dtype`` from a float to an integer of as many bits, or back."""
    found = [o for o in walk(module.operation, "torch.aten.view.dtype") if _is_bitcast(*map(element_name, (o.operands[0], o.results[0])))]
    replace_found(module, found, lambda op: replace_elementwise(op, arith.bitcast))


def _is_bitcast(source: str, target: str) -> bool:
    floats = {"f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
    kinds = floats, {"si8": 8, "ui8": 8, "si16": 16, "si32": 32, "si64": 64}
    return any(a.get(source) == b.get(target, -1) for a, b in (kinds, kinds[::-1]))
