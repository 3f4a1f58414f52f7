"""The bytes of a tensor constant, as they lie in memory: row-major, little-endian, one byte for an i1."""

import re

import numpy as np

from inferno.element_sizes import element_bytes
from inferno.errors import PassError
from inferno.mlir import arith, func, ir, run_upstream

# What the bindings hand to numpy element by element; every other float is read as an integer of its width.
_DIRECT = {"i1", "i8", "i16", "i32", "i64", "si8", "si16", "si32", "si64", "ui8", "ui16", "ui32", "ui64", "index", "f16", "f32", "f64"}


def constant_values(value: ir.Attribute, module: ir.Module) -> bytes:
    """The data of ``value``, a ``dense`` or ``dense_resource`` attribute of ``module``.

    Raises PassError for elements that do not fill bytes (i4), for complex numbers, and for resources that are not there.
    """
    type_ = ir.RankedTensorType(value.type)
    element = type_.element_type
    if str(value).startswith("dense_resource<"):
        return _resource(value, type_, module)
    if str(element) not in _DIRECT:
        if not isinstance(element, ir.FloatType) or element.width % 8:
            raise PassError(f"constant-values: a constant of {type_} cannot be read")
        value = _as_integers(value, type_)
    array = np.array(ir.DenseElementsAttr(value))
    if array.dtype == object:
        raise PassError(f"constant-values: a constant of {type_} cannot be read")
    return np.ascontiguousarray(array.astype(np.uint8) if array.dtype == bool else array).tobytes()


def _as_integers(value: ir.Attribute, type_: ir.RankedTensorType) -> ir.Attribute:
    """The same bits as integers: MLIR folds a bitcast of the constant."""
    with value.context, ir.Location.unknown():
        integers = ir.RankedTensorType.get(list(type_.shape), ir.IntegerType.get_signless(type_.element_type.width))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("bits", ([], [integers]))
            with ir.InsertionPoint(function.add_entry_block()):
                func.ReturnOp([arith.BitcastOp(integers, arith.ConstantOp(type_, value).result).result])
        run_upstream(module, "canonicalize")
    constant = function.entry_block.operations[0]
    if constant.operation.name != "arith.constant":
        raise PassError(f"constant-values: a constant of {type_} cannot be read")
    return constant.attributes["value"]


def _resource(value: ir.Attribute, type_: ir.RankedTensorType, module: ir.Module) -> bytes:
    """The data of a ``dense_resource``: the bindings do not give it, the module's text does, behind its alignment."""
    name = re.match(r"dense_resource<([^>]+)>", str(value))[1].strip('"')
    blob = re.search(rf'"?{re.escape(name)}"?: "0x([0-9A-Fa-f]*)"', str(module))
    if blob is None:
        raise PassError(f"constant-values: the data of {name} is not in the module")
    data = bytes.fromhex(blob[1])[4:]
    count, width = int(np.prod(type_.shape, dtype=int)), element_bytes(type_.element_type)
    if len(data) not in (width, count * width):
        raise PassError(f"constant-values: the data of {name} has {len(data)} bytes, {type_} has {count * width}")
    return data * count if len(data) == width else data  # a blob of one element stands for all
