"""Tensor constants become arguments of ``@main``, and one-valued ones scalars or fills: no kernel holds data.  So do tensors full of a size.

What is lifted here was made by the import (tables of indices, for instance); the model's own constants are arguments
from the start.  A lifted argument carries its value as ``inferno.constant``; ``lifted_values`` reads it.
"""

from inferno.errors import PassError
from inferno.mlir import arith, func, ir, is_read, linalg, owner, tensor, users, walk
from inferno.passes.constant_values import constant_values
from inferno.passes.programs import find_main
from inferno.passes.shapes import number
from inferno.symbolic import Size

ATTRIBUTE = "inferno.constant"


def lift_constants(module: ir.Module) -> None:
    """Replace each ``arith.constant`` of a tensor in ``@main``.

    One value for all elements: a scalar in the bodies of the generics that read it, and a fill for every other use.
    Anything else: a trailing argument of ``@main``; equal constants share one.
    A fill with what is computed of sizes that vary: the same in the bodies that read it.
    """
    main = _main(module)
    block = main.regions[0].blocks[0]
    lifted: dict[ir.Attribute, ir.Value] = {}
    for op in walk(main, "arith.constant"):
        type_ = op.results[0].type
        if not isinstance(type_, ir.RankedTensorType):
            continue
        value = _value(op)
        if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
            _inline_splat(op, value.get_splat_value())
            continue
        if op.parent.operation != main.operation:
            raise PassError(f"lift-constants: a tensor constant inside of a region: {str(op)[:200]}")
        if value not in lifted:
            lifted[value] = block.add_argument(type_, op.location)
        op.results[0].replace_all_uses_with(lifted[value])
        op.erase()
    if lifted:
        _declare(main, list(lifted))
    for fill in walk(main, "linalg.fill"):
        if owner(fill.operands[0]) is not None and isinstance(number(fill.operands[0]), Size):
            _inline_everywhere(fill.results[0], fill.operands[0])


def lifted_values(module: ir.Module) -> list[tuple[str, tuple[int, ...], bytes]]:
    """(element type, shape, bytes in row-major order) of each constant that lift-constants made an argument, in order."""
    main = _main(module)
    found = []
    for attributes in main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else []:
        attributes = ir.DictAttr(attributes)
        if ATTRIBUTE in attributes:
            value = attributes[ATTRIBUTE]
            type_ = ir.RankedTensorType(value.type)
            found.append((str(type_.element_type), tuple(type_.shape), constant_values(value, module)))
    return found


def _main(module: ir.Module) -> func.FuncOp:
    if (main := find_main(module)) is None:
        raise PassError("lift-constants: the module has no @main")
    return main


def _value(op: ir.Operation) -> ir.Attribute:
    try:
        return op.attributes["value"]
    except TypeError as error:  # the bindings have no class for constants of complex numbers
        raise PassError(f"lift-constants: a constant of {op.results[0].type} cannot be read: {str(op)[:200]}") from error


def _inline_splat(constant: ir.Operation, element: ir.Attribute) -> None:
    value = constant.results[0]
    type_ = ir.RankedTensorType(value.type)
    with ir.InsertionPoint(constant), constant.location:
        scalar = arith.ConstantOp(type_.element_type, element).result
    _inline_everywhere(value, scalar)
    if is_read(value):
        with ir.InsertionPoint(constant), constant.location:
            filled = linalg.fill(scalar, outs=[tensor.EmptyOp(list(type_.shape), type_.element_type).result])
        value.replace_all_uses_with(filled)
    constant.erase()


def _inline_everywhere(value: ir.Value, scalar: ir.Value) -> None:
    """Let the bodies of all generics that read ``value`` read ``scalar``."""
    for generic in {u: None for u in users(value) if u.name == "linalg.generic"}:
        _read_scalar(generic, value, scalar)


def _read_scalar(generic: ir.Operation, value: ir.Value, scalar: ir.Value) -> None:
    """Rebuild ``generic`` without the inputs that are ``value``: its body reads ``scalar``.

    Left alone where ``value`` is also an output, or where the other operands do not say how long each loop is.
    """
    count = len(generic.operands)
    inputs = count - len(generic.opview.outputs)
    dropped = [i for i in range(inputs) if generic.operands[i] == value]
    kept = [i for i in range(count) if i not in dropped]
    maps = [m if isinstance(m, ir.AffineMap) else m.value for m in generic.opview.indexing_maps]
    walked = {ir.AffineDimExpr(e).position for i in kept for e in maps[i].results if isinstance(e, ir.AffineDimExpr)}
    if len(walked) < maps[0].n_dims or value in list(generic.operands)[inputs:]:
        return
    attributes = generic.attributes
    with ir.InsertionPoint(generic), generic.location:
        new = linalg.GenericOp(
            [r.type for r in generic.results],
            [generic.operands[i] for i in kept if i < inputs], list(generic.operands)[inputs:],
            ir.ArrayAttr.get([ir.AffineMapAttr.get(maps[i]) for i in kept]), attributes["iterator_types"],
        )
    for name in attributes:
        if name not in ("indexing_maps", "iterator_types", "operandSegmentSizes"):
            new.attributes[name] = attributes[name]
    body = generic.regions[0].blocks[0]
    body.append_to(new.regions[0])
    for i in reversed(dropped):
        body.arguments[i].replace_all_uses_with(scalar)
        body.erase_argument(i)
    for old, result in zip(generic.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    generic.erase()


def _declare(main: func.FuncOp, lifted: list[ir.Attribute]) -> None:
    arguments = main.regions[0].blocks[0].arguments
    count = len(arguments) - len(lifted)
    old = list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else [ir.DictAttr.get({})] * count
    kind = ir.StringAttr.get("constant")
    new = [
        ir.DictAttr.get({ATTRIBUTE: value, "inferno.name": ir.StringAttr.get(f"constant {i}"), "inferno.kind": kind})
        for i, value in enumerate(lifted)
    ]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in arguments], list(main.type.results)))
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(old + new)
