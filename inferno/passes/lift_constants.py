"""Tensor constants become arguments of ``@main``, and one-valued ones fills: no kernel holds data.

What is lifted here was made by the import (tables of indices, for instance); the model's own constants are arguments
from the start.  A lifted argument carries its value as ``inferno.constant``.
"""

import re

import numpy as np

from inferno.errors import PassError
from inferno.mlir import func, ir, linalg, tensor, walk

ATTRIBUTE = "inferno.constant"


def lift_constants(module: ir.Module) -> None:
    """Replace each ``arith.constant`` of a tensor in ``@main`` by a fill or a trailing argument."""
    main = next((o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == "main"), None)
    if main is None:
        raise PassError("lift-constants: the module has no @main")
    block = main.regions[0].blocks[0]
    lifted: list[ir.Attribute] = []
    for op in walk(main, "arith.constant"):
        type_ = op.results[0].type
        if not isinstance(type_, ir.RankedTensorType):
            continue
        value = op.attributes["value"]
        if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
            with ir.InsertionPoint(op), op.location:
                from inferno.mlir import arith

                scalar = arith.ConstantOp(type_.element_type, value.get_splat_value()).result
                new = linalg.fill(scalar, outs=[tensor.EmptyOp(list(type_.shape), type_.element_type).result])
        elif op.operation.parent.operation == main.operation:
            new = block.add_argument(type_, op.location)
            lifted.append(value)
        else:
            raise PassError(f"lift-constants: a tensor constant inside of a region: {str(op)[:200]}")
        op.results[0].replace_all_uses_with(new)
        op.erase()
    if lifted:
        _declare(main, lifted)


def _declare(main: func.FuncOp, lifted: list[ir.Attribute]) -> None:
    block = main.regions[0].blocks[0]
    count = len(block.arguments) - len(lifted)
    old = list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else [ir.DictAttr.get({})] * count
    new = [
        ir.DictAttr.get({ATTRIBUTE: value, "inferno.name": ir.StringAttr.get(f"constant {i}"), "inferno.kind": ir.StringAttr.get("constant")})
        for i, value in enumerate(lifted)
    ]
    main.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get([a.type for a in block.arguments], list(main.type.results))
    )
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(old + new)


def lifted_values(module: ir.Module) -> list[tuple[str, tuple[int, ...], bytes]]:
    """(element type, shape, bytes in row-major order) of each constant that lift-constants made an argument, in order."""
    main = next(o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == "main")
    found = []
    for attributes in main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else []:
        attributes = ir.DictAttr(attributes)
        if ATTRIBUTE in attributes:
            found.append(_bytes(attributes[ATTRIBUTE], module))
    return found


def _bytes(value: ir.Attribute, module: ir.Module) -> tuple[str, tuple[int, ...], bytes]:
    type_ = ir.RankedTensorType(value.type)
    element, shape = str(type_.element_type), tuple(type_.shape)
    if str(value).startswith("dense_resource<"):
        data = _resource(value, module)
        count, width = int(np.prod(shape, dtype=int)), max(8, type_.element_type.width) // 8
        return element, shape, data * count if len(data) == width else data  # a blob of one element stands for all
    try:
        array = np.array(ir.DenseElementsAttr(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise PassError(f"lift-constants: a constant of {type_} cannot be read: {error}") from error
    if element == "i1":
        array = array.astype(np.uint8)
    return element, shape, np.ascontiguousarray(array).tobytes()


def _resource(value: ir.Attribute, module: ir.Module) -> bytes:
    """The data of a ``dense_resource``: the bindings do not give it, the module's text does, behind its alignment."""
    name = re.match(r"dense_resource<([^>]+)>", str(value))[1].strip('"')
    blob = re.search(rf'"?{re.escape(name)}"?: "0x([0-9A-Fa-f]*)"', str(module))
    if blob is None:
        raise PassError(f"lift-constants: the data of {name} is not in the module")
    return bytes.fromhex(blob[1])[4:]
