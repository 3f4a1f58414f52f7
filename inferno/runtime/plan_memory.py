"""Place the buffers of ``@main`` in one workspace: buffers that are never alive together share memory.

Greedy by size (Pisarchyk and Lee, 2020): the largest buffer first, each at the lowest offset where it meets no other
that is alive with it.
"""

from inferno.codegen.launcher import integer
from inferno.dialect import WorkspaceOp
from inferno.errors import PassError
from inferno.mlir import func, ir, users, walk
from inferno.schedule.cost import tensor_bytes

ALIGNMENT = 256  # bytes; what torch's allocator gives, and more than any access needs


def plan_memory(module: ir.Module) -> None:
    """Replace each ``memref.alloc`` by an ``inferno.workspace``; ``@main`` gets ``inferno.workspace_bytes``."""
    main = next((o for o in module.body.operations if isinstance(o, func.FuncOp) and o.name.value == "main"), None)
    if main is None:
        raise PassError("plan-memory: the module has no @main")
    order = {id_: i for i, id_ in enumerate(_number(main))}
    buffers = [(op, tensor_bytes(op.results[0].type), *_lifetime(op, order)) for op in walk(main.operation, "memref.alloc")]
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first use, last use
    for op, size, first, last in sorted(buffers, key=lambda b: -b[1]):
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        offset = 0
        for begin, end, other_first, other_last in sorted(placed):
            if other_last < first or last < other_first:
                continue
            if offset + size <= begin:
                break
            offset = max(offset, end)
        placed.append((offset, offset + size, first, last))
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(WorkspaceOp(op.results[0].type, integer(offset)).buffer)
        op.erase()
    for op in walk(main.operation):
        if _MARK in op.attributes:
            del op.attributes[_MARK]
    main.attributes["inferno.workspace_bytes"] = integer(max((end for _, end, _, _ in placed), default=0))


_MARK = "inferno.position"


def _number(main: func.FuncOp) -> list[int]:
    """Number the operations by an attribute: the bindings give an operation no stable identity."""
    operations = [o.operation for o in main.regions[0].blocks[0].operations]
    for i, op in enumerate(operations):
        op.attributes[_MARK] = integer(i)
    return list(range(len(operations)))


def _lifetime(op: ir.Operation, order: dict[int, int]) -> tuple[int, int]:
    """(first, last) position of an operation that touches the buffer, through views and parameters."""
    positions: list[int] = []

    def visit(value: ir.Value) -> None:
        for user in users(value):
            positions.append(order[ir.IntegerAttr(user.attributes[_MARK]).value])
            for result in user.results:
                visit(result)

    visit(op.results[0])
    return min(positions, default=0), max(positions, default=0)
