"""What a kernel computes that scatters single elements into rows, or adds them there.

A row of ``places`` results has ``updates`` elements that may go to any of its places; both are ``inner`` apart in memory, where that many rows lie side by
side.  ``scatter_add`` along a dimension, in eager's terms.
"""

from dataclasses import dataclass
from math import prod

from inferno.mlir import func, ir, owner, terminator
from inferno.passes.programs import operations_in, root_of
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import argument_index, filled
from inferno.schedule.analysis.combiners import Combiner, read_combiner, term_of
from inferno.schedule.scatters.flat_elements import Elements, read_elements
from inferno.schedule.scatters.place_cases import Bounds, Digit, Linear, Unknown, cases


@dataclass(frozen=True)
class Rows:
    """The result is [``outer``, ``places``, ``inner``], of which the first ``filled`` are given elements, a box [``filled``, ``updates``, ``inner``]."""

    outer: int
    filled: int
    places: int
    updates: int
    inner: int


@dataclass(frozen=True)
class ScatterKernel:
    """``updates`` go to ``target``, an argument, at ``targets``, numbers of its elements, of type ``place``; those that are none of them are left
    out.  It begins as ``start``, another argument, or one value.  ``combiner``: how an update is joined with what is there; None if it takes its place."""

    updates: Elements
    targets: Elements
    start: int | ir.Attribute
    target: int
    element: ir.Type
    place: ir.Type
    combiner: Combiner | None
    rows: Rows


def parse_scatter(kernel: func.FuncOp) -> ScatterKernel | None:
    """What ``kernel`` computes; None if it is anything else, or if it is not known that no element leaves its row."""
    operations = operations_in(kernel)
    scatters = [o for o in operations if o.name == "tm_tensor.scatter"]
    end = operations[-1]
    if symbol_arguments(kernel.operation) or len(scatters) != 1 or len(end.operands) != 1 or root_of(end.operands[0]) != scatters[0].results[0]:
        return None
    op = scatters[0]
    updates, table, old = op.operands
    if not all(v.type.has_static_shape and prod(v.type.shape) for v in op.operands) or ir.RankedTensorType(old.type).rank != 1:
        return None
    if list(updates.type.shape) not in ([table.type.shape[0]], [table.type.shape[0], 1]) or table.type.shape[1] != 1:
        return None
    start = start_of(kernel, old)
    body = op.regions[0].blocks[0]
    moves = terminator(body).operands[0] == body.arguments[0]
    combiner = None if moves else read_combiner(body, body.arguments[1])
    if start is None or (combiner is None and not moves) or (combiner is not None and not is_update(body)):
        return None
    if str(table.type.element_type) not in ("i32", "i64"):
        return None
    numbers, places = read_elements(kernel, updates), read_elements(kernel, table)
    rows = _rows(places, prod(table.type.shape), old.type.shape[0]) if places is not None and numbers is not None else None
    if rows is None:
        return None
    return ScatterKernel(numbers, places, *start, old.type.element_type, table.type.element_type, combiner, rows)


def start_of(kernel: func.FuncOp, value: ir.Value) -> tuple[int | ir.Attribute, int] | None:
    """What the destination begins as, and which argument it is."""
    op = owner(root_of(value))
    if op is None or not op.name.startswith("linalg."):
        return None
    target = argument_index(kernel, root_of(op.operands[len(op.operands) - 1]))
    constant = filled(op.results[0])
    if constant is not None:
        return None if target is None else (constant, target)
    source = argument_index(kernel, root_of(op.operands[0])) if op.name == "linalg.copy" else None
    return None if None in (source, target) else (source, target)


def is_update(body: ir.Block) -> bool:
    """Whether what a scatter's body joins with what is there is the update itself, where ``read_combiner`` understands the body."""
    term = term_of(body, body.arguments[1])
    op = owner(term) if term is not None else None
    if op is not None and op.name == "arith.extf":
        term = op.operands[0]
    return term == body.arguments[0]


def _rows(places: Elements, count: int, total: int) -> Rows | None:
    """The rows that elements stay in, of ``count`` that go to ``total`` places."""
    found: set[Rows] = set()
    try:
        for place, bounds in cases(places):
            low, high = place.range(bounds)
            if high < 0 or low >= total:
                continue
            found.add(_rows_of(place, bounds, count, total))
    except Unknown:
        return None
    return found.pop() if len(found) == 1 else None


def _rows_of(place: Linear, bounds: Bounds, count: int, total: int) -> Rows:
    """The same of one case: ``outer * places * inner + read * inner + inner's own number``; Unknown where it is not that."""
    read = [(t, by) for t, by in place.terms if not isinstance(t, Digit)]
    digits = sorted(((t.stride, t.size, by) for t, by in place.terms if isinstance(t, Digit)))
    if len(read) != 1 or read[0][1] < 1:
        raise Unknown
    inner, reached = read[0][1], 1
    while digits and reached < inner and digits[0][0] == digits[0][2] == reached:
        reached *= digits.pop(0)[1]
    if reached != inner:
        raise Unknown
    if digits:
        step, size = digits[0][0], digits[0][2]  # elements of a row, and places
        reached = step
        for stride, n, by in digits:
            if stride != reached or by * step != size * stride:
                raise Unknown
            reached *= n
        if reached != count:
            raise Unknown
    else:
        step, size = count, total
    low, high = (place.constant + inner * n for n in bounds[read[0][0]])
    if step % inner or size % inner or total % size or low % inner or low < 0 or high > size - inner or count // step > total // size:
        raise Unknown
    return Rows(total // size, count // step, size // inner, step // inner, inner)
