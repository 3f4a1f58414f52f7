"""Import the operation ``inferno::running`` of decompositions, which torch-mlir does not know, as ``tm_tensor.scan``.

One whose body is more than an operation says in ``inferno.running`` what it computes.
"""

from collections.abc import Callable

from inferno.errors import PassError
from inferno.mlir import arith, ir, math, owner, tensor, walk
from inferno.passes.torch_tensors import from_builtin, load_casts, to_builtin

RUNNING = "inferno.running"
_OPERATOR = "torch.inferno.running"
_FLOATS = {"max": "arith.maximumf", "min": "arith.minimumf", "mul": "arith.mulf"}
_INTEGERS = {"max": "arith.maxsi", "min": "arith.minsi", "mul": "arith.muli"}


def import_scans(module: ir.Module) -> None:
    """Replace every ``torch.operator "torch.inferno.running"``; PassError for a kind that there is not."""
    found = [o for o in walk(module.operation, "torch.operator") if ir.StringAttr(o.attributes["name"]).value == _OPERATOR]
    if not found:
        return
    load_casts(module.context)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            _replace(op)


def _replace(op: ir.Operation) -> None:
    source, dim, kind = op.operands[0], _integer(op.operands[1]), _text(op.operands[2])
    values = to_builtin(source)
    type_ = ir.RankedTensorType(values.type)
    dim %= type_.rank
    sizes = [tensor.DimOp(values, arith.constant(ir.IndexType.get(), d)).result if type_.is_dynamic_dim(d) else type_.shape[d] for d in range(type_.rank)]
    whole = tensor.EmptyOp(sizes, type_.element_type).result
    last = tensor.EmptyOp(sizes[:dim] + sizes[dim + 1:], type_.element_type).result
    scan = ir.Operation.create(
        "tm_tensor.scan", results=[whole.type, last.type], operands=[values, whole, last], regions=1,
        attributes={
            "dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim), "inclusive": ir.BoolAttr.get(True),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 2]),
        },
    )
    element = type_.element_type
    body = scan.regions[0].blocks.append(element, element, arg_locs=[op.location] * 2)
    names = _INTEGERS if isinstance(element, ir.IntegerType) else _FLOATS
    with ir.InsertionPoint(body):
        if kind in names:
            value = ir.Operation.create(names[kind], results=[element], operands=list(body.arguments)).results[0]
        elif kind in BODIES:
            value = BODIES[kind](*body.arguments)
            scan.attributes[RUNNING] = ir.StringAttr.get(kind)
        else:
            raise PassError(f"import-scans: no running {kind} of {element}; there are {', '.join([*names, *BODIES])}")
        ir.Operation.create("tm_tensor.yield", operands=[value])
    op.results[0].replace_all_uses_with(from_builtin(scan.results[0], op.results[0].type))
    op.erase()


def _logaddexp(a: ir.Value, b: ir.Value) -> ir.Value:
    """Of equal infinities too: their difference is none."""
    zero = arith.constant(a.type, ir.FloatAttr.get(a.type, 0.0))
    apart = arith.negf(math.absf(arith.subf(a, b)))
    apart = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, a, b), zero, apart)
    return arith.addf(arith.maximumf(a, b), math.log1p(math.exp(apart)))


BODIES: dict[str, Callable[[ir.Value, ir.Value], ir.Value]] = {"logaddexp": _logaddexp}


def _integer(value: ir.Value) -> int:
    return ir.IntegerAttr(owner(value).attributes["value"]).value


def _text(value: ir.Value) -> str:
    return ir.StringAttr(owner(value).attributes["value"]).value
