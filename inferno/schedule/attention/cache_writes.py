"""Rows that a kernel writes to caches before it reads them: as its function begins, copies of the old caches into which updates are scattered.

The caches are the function's first results.  What it reads of them afterwards is memory of its own, the results' arguments.
"""

from dataclasses import dataclass

from inferno.mlir import func, ir, owner, users
from inferno.passes.programs import operations_in, root_of
from inferno.passes.shapes import row_major


@dataclass(frozen=True)
class CacheWrite:
    """Numbers of the function's arguments: ``cache`` begins as a copy of ``old``; then each update of ``new``, its outermost dimension, takes the place
    that a row of ``table`` says, and one whose place is none of the cache's is left out.  No two have one place.

    ``along``: the cache's dimensions that the table's columns are places in; an update has one element along these, and all along the others.
    ``steps``: by how many elements ``new`` moves with each of the cache's dimensions.
    """

    old: int
    cache: int
    new: int
    table: int
    along: tuple[int, ...]
    shape: tuple[int, ...]
    updates: int
    size: int
    steps: tuple[int, ...]
    element: ir.Type
    place: ir.Type


def take_writes(function: func.FuncOp) -> tuple[CacheWrite, ...] | None:
    """Take the writes out of a function, which then reads caches that have been written to and returns its other results; None where they are not the
    first thing that happens to the caches."""
    scatters = [o for o in operations_in(function) if o.name == "tm_tensor.scatter"]
    found = [_read(function, op, number) for number, op in enumerate(scatters)]
    if None in found:
        return None
    arguments, end = list(function.entry_block.arguments), list(function.entry_block.operations)[-1]
    for op, write in zip(scatters, found):
        copy = owner(op.operands[2])
        op.results[0].replace_all_uses_with(arguments[write.cache])
        op.erase()
        copy.erase()
    if found:
        with ir.InsertionPoint(end), end.location:
            func.ReturnOp(list(end.operands)[len(found):])
        end.operation.erase()
        kept = ir.FunctionType.get(list(function.type.inputs), list(function.type.results)[len(found):], function.context)
        function.attributes["function_type"] = ir.TypeAttr.get(kept)
    return tuple(found)


def _read(function: func.FuncOp, op: ir.Operation, number: int) -> CacheWrite | None:
    """What a scatter writes, if that is the ``number``-th result."""
    copy = owner(op.operands[2])
    if copy is None or copy.name != "linalg.copy" or len(list(users(copy.results[0]))) != 1 or copy.operands[0].type != copy.operands[1].type:
        return None
    places = [_argument(function, v) for v in (*copy.operands, *op.operands[:2])]
    results = len(function.type.results)
    end = list(function.entry_block.operations)[-1]
    destination = len(function.type.inputs) - results + number
    if None in places or number >= results or places[1] != destination or end.operands[number] != op.results[0]:
        return None
    if any(len(list(users(v))) != 1 for v in copy.operands) or sum(v == op.results[0] for v in end.operands) != 1:
        return None
    body = op.regions[0].blocks[0]
    if len(body.operations) != 1 or body.operations[0].operands[0] != body.arguments[0] or not ir.BoolAttr(op.attributes["unique_indices"]).value:
        return None
    new, table, cache = (v.type for v in op.operands)
    if not all(t.has_static_shape for t in (new, table, cache)):
        return None
    shape, along = tuple(cache.shape), tuple(ir.DenseI64ArrayAttr(op.attributes["dimension_map"]))
    extra, of_new = len(shape) - new.rank + 1, row_major(list(new.shape))
    window = [1 if d < extra else new.shape[d - extra + 1] for d in range(len(shape))]
    if any(n != (1 if d in along else shape[d]) for d, n in enumerate(window)) or str(table.element_type) not in ("i32", "i64"):
        return None
    steps = tuple(0 if d < extra or d in along else of_new[d - extra + 1] for d in range(len(shape)))
    return CacheWrite(places[0], places[1], places[2], places[3], along, shape, new.shape[0], of_new[0], steps, cache.element_type, table.element_type)


def _argument(function: func.FuncOp, value: ir.Value) -> int | None:
    root = root_of(value)
    return ir.BlockArgument(root).arg_number if isinstance(root, ir.BlockArgument) and root.owner == function.entry_block else None
