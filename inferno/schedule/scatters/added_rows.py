"""What a kernel computes that adds rows to others (``index_add``, ``scatter_add`` with one index a row, ``index_put`` that accumulates, the gradient of an
embedding), or joins them by the larger or the smaller of two whole numbers. The rows that are added may be read from a tensor or be computed element by
element, such as gathered rows of a table, or casts.
"""

from dataclasses import dataclass

from inferno.dialect.sizes import SIZES, sizes_attribute
from inferno.mlir import clone_onto, func, ir, owner, run_upstream
from inferno.passes.generics import PARALLEL, build
from inferno.passes.programs import operations_in, root_of
from inferno.passes.shapes import argument_attributes, is_dynamic, shape, symbol_arguments
from inferno.schedule.analysis.accesses import argument_index, knows_arguments
from inferno.schedule.analysis.combiners import Combiner, read_combiner
from inferno.schedule.maps.pointwise import Pointwise, parse_pointwise
from inferno.schedule.maps.supported import supported
from inferno.schedule.maps.transposed import transposed
from inferno.schedule.passes.calls import generics_of
from inferno.schedule.passes.recompute_maps import compute_first
from inferno.schedule.scatters.flat_elements import Elements, read_elements
from inferno.schedule.scatters.kernel import is_update, start_of
from inferno.symbolic import Int, product, reach

EXTREMES = ("arith.maxsi", "arith.minsi")
_INTEGERS = ("i32", "i64")
_TYPES = {"arith.addf": ("f16", "bf16", "f32", "f64"), "arith.addi": _INTEGERS, **dict.fromkeys(EXTREMES, _INTEGERS)}


@dataclass(frozen=True)
class AddedRows:
    """``count`` rows of ``columns`` elements, the points of ``updates`` in order, are joined with those of ``rows`` rows of ``target``, an argument, that
    ``places`` says; a place that is none is left out.  Single elements are rows of one.  They begin as ``start``, another argument, or one value."""

    updates: Pointwise
    places: Elements
    start: int | ir.Attribute
    target: int
    element: ir.Type
    combiner: Combiner
    rows: Int
    columns: Int
    count: Int
    computed: bool
    """Whether the rows are more than those of a tensor."""

    @property
    def varies(self) -> bool:
        """Whether any of the sizes does, of what rows are read from, too."""
        return bool(symbol_arguments(self.updates.module.body.operations[0].operation))


def parse_added_rows(kernel: func.FuncOp) -> AddedRows | None:
    """What ``kernel`` computes; None if it is anything else."""
    operations = operations_in(kernel)
    scatters = [o for o in operations if o.name == "tm_tensor.scatter"]
    if len(scatters) != 1 or list(operations[-1].operands) != list(scatters[0].results):
        return None
    op = scatters[0]
    updates, table, old = op.operands
    if not knows_arguments(kernel) or list(ir.DenseI64ArrayAttr(op.attributes["dimension_map"])) != [0] or any(0 in shape(v) for v in op.operands):
        return None
    (count, each), (rows, *inner) = shape(table), shape(old)
    start, body = start_of(kernel, old), op.regions[0].blocks[0]
    combiner = read_combiner(body, body.arguments[1])
    if start is None or combiner is None or not is_update(body) or str(old.type.element_type) not in _TYPES.get(combiner.name, ()):
        return None
    if each != 1 or product(shape(updates)) != count * product(inner) or str(table.type.element_type) not in ("i32", "i64"):
        return None
    places = read_elements(kernel, table)
    terms = _updates(kernel, updates) if places is not None and max(reach(count), reach(rows)) < 1 << 31 else None
    if terms is None:
        return None
    return AddedRows(terms, places, *start, old.type.element_type, combiner, rows, product(inner), count, owner(root_of(updates)) is not None)


def _updates(kernel: func.FuncOp, value: ir.Value) -> Pointwise | None:
    """The rows that are added, as what an elementwise kernel of the same arguments would write behind the last of them."""
    root = root_of(value)
    if argument_index(kernel, root) is None and (owner(root) is None or len(owner(root).results) != 1):
        return None
    with kernel.context, kernel.location:
        module, type_ = ir.Module.create(), root.type
        with ir.InsertionPoint(module.body):
            alone = func.FuncOp("updates", ([*kernel.type.inputs, type_], [type_]), visibility="private")
        block = alone.add_entry_block()
        if symbols := list(symbol_arguments(kernel.operation)):
            own = ir.DictAttr.get({SIZES: sizes_attribute(shape(root), symbols)} if is_dynamic(root) else {})
            alone.attributes["arg_attrs"] = ir.ArrayAttr.get([*argument_attributes(kernel.operation), own])
        known, target = dict(zip(kernel.entry_block.arguments, block.arguments)), block.arguments[len(block.arguments) - 1]
        with ir.InsertionPoint(block):
            for op in _makers(kernel, root):
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


def _makers(kernel: func.FuncOp, value: ir.Value) -> list[ir.Operation]:
    """The operations that a value is computed by, in order."""
    found, pending = set(), [value]
    while pending:
        op = owner(pending.pop())
        if op is not None and op not in found:
            found.add(op)
            inner = [v for region in op.regions for b in region.blocks for o in b.operations for v in o.operation.operands]
            pending += [v for v in (*op.operands, *inner) if owner(v) is None or owner(v).block == kernel.entry_block]
    return [o for o in operations_in(kernel) if o in found]
