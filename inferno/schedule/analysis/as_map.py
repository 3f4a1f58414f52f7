"""What a kernel computes element by element for something else that it does, as rows that it adds or sorts, as an elementwise kernel of its own."""

from collections.abc import Collection, Sequence

from inferno.dialect.sizes import SIZES, sizes_attribute
from inferno.mlir import clone_onto, func, ir, owner, run_upstream
from inferno.passes.generics import PARALLEL, build
from inferno.passes.programs import operations_in, root_of
from inferno.passes.shapes import argument_attributes, is_dynamic, shape, symbol_arguments
from inferno.schedule.analysis.accesses import argument_index
from inferno.schedule.maps.pointwise import Pointwise, parse_pointwise
from inferno.schedule.maps.supported import supported
from inferno.schedule.maps.transposed import transposed
from inferno.schedule.passes.calls import generics_of
from inferno.schedule.passes.recompute_maps import compute_first
from inferno.symbolic import product


def as_map(kernel: func.FuncOp, value: ir.Value, given: Sequence[ir.Value] = ()) -> Pointwise | None:
    """A value of a kernel as what an elementwise kernel of the same arguments, and behind them of values that are ``given``, would write behind the last of
    these, in the order in which it lies; None if it is anything else.  Values of sizes that vary are given to none."""
    root = root_of(value)
    if argument_index(kernel, root) is None and (owner(root) is None or len(owner(root).results) != 1):
        return None
    with kernel.context, kernel.location:
        module, type_ = ir.Module.create(), root.type
        with ir.InsertionPoint(module.body):
            alone = func.FuncOp("alone", ([*kernel.type.inputs, *(v.type for v in given), type_], [type_]), visibility="private")
        block = alone.add_entry_block()
        if symbols := list(symbol_arguments(kernel.operation)):
            own = ir.DictAttr.get({SIZES: sizes_attribute(shape(root), symbols)} if is_dynamic(root) else {})
            alone.attributes["arg_attrs"] = ir.ArrayAttr.get([*argument_attributes(kernel.operation), own])
        known, target = dict(zip([*kernel.entry_block.arguments, *given], block.arguments)), block.arguments[len(block.arguments) - 1]
        with ir.InsertionPoint(block):
            for op in _makers(kernel, root, given):
                clone_onto(op, known)
            if (last := owner(known[root])) is None:
                same = [ir.AffineMap.get_identity(type_.rank)] * 2
                made = build([known[root]], [target], same, [PARALLEL] * type_.rank, lambda arguments: arguments[:1], kernel.location).results[0]
            else:
                last.operands[len(last.operands) - 1] = target
                made = last.results[0]
            func.ReturnOp([made])
        if len(generics_of(alone)) == 2 and compute_first(alone):
            run_upstream(module, "func.func(cse)")
        point = parse_pointwise(alone, views=True)
    if point is None or point.sources[-1] is not None or not supported(point) or transposed(point) is not None:
        return None  # (rows that lie across memory are better written in order before)
    (place,) = point.destinations
    return point if point.flat(place) and place.offset == 0 and point.points == product(shape(value)) else None


def _makers(kernel: func.FuncOp, value: ir.Value, given: Collection[ir.Value]) -> list[ir.Operation]:
    """The operations that a value is computed by of arguments and of what is given, in order."""
    found, pending = set(), [value]
    while pending:
        value = pending.pop()
        op = owner(value) if value not in given else None
        if op is not None and op not in found:
            found.add(op)
            inner = [v for region in op.regions for b in region.blocks for o in b.operations for v in o.operation.operands]
            pending += [v for v in (*op.operands, *inner) if owner(v) is None or owner(v).block == kernel.entry_block]
    return [o for o in operations_in(kernel) if o in found]
