"""Import the largest and the smallest of rows at places as tm_tensor.scatter.

Decompositions have them as ``inferno::reduce_rows``, which torch-mlir does not know.
"""

from collections.abc import Callable

from inferno.errors import PassError
from inferno.mlir import arith, ir, owner, tensor
from inferno.passes.torch_tensors import from_builtin, replace_operators, size_of, to_builtin

_KINDS = {"amax": arith.maxsi, "amin": arith.minsi}


def import_row_extremes(module: ir.Module) -> None:
    """Replace every such ``torch.operator``; PassError for a kind or a type that there is not."""
    replace_operators(module, ("torch.inferno.reduce_rows",), _replace)


def _replace(op: ir.Operation) -> None:
    old, places, rows = map(to_builtin, list(op.operands)[:3])
    kind, element = ir.StringAttr(owner(op.operands[3]).attributes["value"]).value, old.type.element_type
    if kind not in _KINDS or not isinstance(element, ir.IntegerType):
        raise PassError(f"import-row-extremes: no {kind} of rows of {element}; there are {' and '.join(_KINDS)} of integers")
    made = scatter_rows(old, places, rows, False, lambda update, before: _KINDS[kind](before, update))
    op.results[0].replace_all_uses_with(from_builtin(made, op.results[0].type))
    op.erase()


def scatter_rows(old: ir.Value, places: ir.Value, rows: ir.Value, unique: bool, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """``old`` with each of ``rows`` at its place of the first dimension: ``combine(update, before)``.  ``unique``: of equal places the last one counts."""
    element = old.type.element_type
    made = ir.Operation.create(
        "tm_tensor.scatter", results=[old.type], operands=[_with_one(rows), _with_one(places), old], regions=1,
        attributes={
            "unique_indices": ir.BoolAttr.get(unique), "dimension_map": ir.DenseI64ArrayAttr.get([0]), "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
        },
    )
    body = made.regions[0].blocks.append(element, element, arg_locs=[ir.Location.current] * 2)
    with ir.InsertionPoint(body):
        ir.Operation.create("tm_tensor.yield", operands=[combine(*body.arguments)])
    return made.results[0]


def _with_one(value: ir.Value) -> ir.Value:
    """The same with a dimension of size 1 behind the first: of an update along the dimension that its place is told in, of the places of each."""
    type_, sizes = value.type, [size_of(value, d) for d in range(value.type.rank)]
    shape = [type_.shape[0], 1, *type_.shape[1:]]
    groups = [[0, 1], *([d + 1] for d in range(1, type_.rank))]
    known = [ir.ShapedType.get_dynamic_size() if isinstance(s, ir.Value) else s for s in (sizes[0], 1, *sizes[1:])]
    given = [s for s in sizes if isinstance(s, ir.Value)]
    return tensor.ExpandShapeOp(ir.RankedTensorType.get(shape, type_.element_type), value, groups, given, known).result
