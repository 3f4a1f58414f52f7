"""Import tensors that are one number everywhere as fills of builtin tensors, which torch-mlir's own folding does not see.

That folding takes the bits of an integer for those of a float in ``torch.ones(3) + -1`` and in ``torch.ones(3) < 0`` (so do the signs
that it decomposes other operations to), and ends the process at a comparison of an integer with a float.  Later folding is right.
"""

from inferno.mlir import arith, ir, linalg, owner, tensor, walk
from inferno.passes.torch_tensors import builtin_type, from_builtin, load_casts

_NUMBERS = {"ones": 1, "ones_like": 1, "new_ones": 1, "zeros": 0, "zeros_like": 0, "new_zeros": 0}
_GIVEN = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}  # which operand is the number
_ELEMENTS = ("f16", "bf16", "f32", "f64", "si8", "si16", "si32", "si64", "i1")


def import_constants(module: ir.Module) -> None:
    """Replace every ``torch.aten.full``, ``ones_like`` and their like whose number and sizes are known."""
    found = [(o, n) for o in walk(module.operation) if (n := _number(o)) is not None]
    if found:
        load_casts(module.context)
    for op, number in found:
        with ir.InsertionPoint(op), op.location:
            type_ = builtin_type(op.results[0].type)
            value = arith.constant(type_.element_type, _attribute(type_.element_type, number))
            filled = linalg.fill(value, outs=[tensor.EmptyOp(type_.shape, type_.element_type).result])
            op.results[0].replace_all_uses_with(from_builtin(filled, op.results[0].type))
            op.erase()


def _number(op: ir.Operation) -> bool | int | float | None:
    """The number that all elements of the result are; None for another operation, or if that or its type is not known."""
    name = op.name.removeprefix("torch.aten.")
    if (name not in _NUMBERS and name not in _GIVEN) or not _is_known(op.results[0].type):
        return None
    if name in _NUMBERS:
        return _NUMBERS[name]
    value = owner(op.operands[_GIVEN[name]])
    if value is None or value.name not in ("torch.constant.int", "torch.constant.float", "torch.constant.bool"):
        return None
    return value.attributes["value"].value


def _is_known(type_: ir.Type) -> bool:
    sizes, _, element = str(type_).removesuffix(">").partition("],")
    return sizes.startswith("!torch.vtensor<[") and "?" not in sizes and element in _ELEMENTS


def _attribute(element: ir.Type, number: bool | int | float) -> ir.Attribute:
    if not isinstance(element, ir.IntegerType):
        return ir.FloatAttr.get(element, float(number))
    return ir.IntegerAttr.get(element, bool(number) if element.width == 1 else int(number))
