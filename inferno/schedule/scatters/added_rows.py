"""What a kernel computes that adds rows to others (``index_add``, ``scatter_add`` with one index a row, ``index_put`` that accumulates, the gradient of an
embedding), or joins them by the larger or the smaller of two whole numbers. The rows that are added may be read from a tensor or be computed element by
element, such as gathered rows of a table, or casts.
"""

from dataclasses import dataclass

from inferno.mlir import func, ir, owner
from inferno.passes.programs import operations_in, root_of
from inferno.passes.shapes import shape, symbol_arguments
from inferno.schedule.analysis.accesses import knows_arguments
from inferno.schedule.analysis.as_map import as_map
from inferno.schedule.analysis.combiners import Combiner, read_combiner
from inferno.schedule.maps.pointwise import Pointwise
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
    terms = as_map(kernel, updates) if places is not None and max(reach(count), reach(rows)) < 1 << 31 else None
    if terms is None:
        return None
    return AddedRows(terms, places, *start, old.type.element_type, combiner, rows, product(inner), count, owner(root_of(updates)) is not None)
