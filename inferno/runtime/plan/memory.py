"""Place the buffers of ``@main`` in one workspace: buffers that are never alive together share memory.

``placement`` says where.

Buffers with sizes that vary lie behind the others.  For them what is larger depends on the call, so that each takes the place of
one that is no longer needed and is known to be at least as large, or a new place at the end; offsets are expressions.
"""

from dataclasses import dataclass

from inferno.dialect import SizedWorkspaceOp, WorkspaceOp
from inferno.dialect.sizes import integer, sizes_attribute
from inferno.element_sizes import element_bytes
from inferno.errors import PassError
from inferno.mlir import arith, func, ir, users, walk
from inferno.passes.programs import MAIN, programs
from inferno.passes.shapes import shape, symbol_arguments
from inferno.passes.size_values import SizeValues
from inferno.runtime.plan.placement import Lifetime, place
from inferno.schedule.analysis.cost import tensor_bytes
from inferno.symbolic import Int, bounds, ceildiv, hint, product

ALIGNMENT = 256  # bytes; what torch's allocator gives, and more than any access needs


def plan_memory(module: ir.Module) -> None:
    """Replace each ``memref.alloc`` by an ``inferno.workspace``; ``@main`` and ``@prepare`` get ``inferno.workspace_bytes``."""
    found = programs(module)
    if not found or found[0].name.value != MAIN:
        raise PassError("plan-memory: the module has no @main")
    for program in found:
        _place_buffers(program)


def _place_buffers(main: func.FuncOp) -> None:
    order = {o.operation: i for i, o in enumerate(main.regions[0].blocks[0].operations)}
    every = [(op, *_lifetime(op, order)) for op in walk(main.operation, "memref.alloc")]
    buffers = [(op, tensor_bytes(op.results[0].type), *alive) for op, *alive in every if not len(op.operands)]
    varying = [b for b in every if len(b[0].operands)]
    sizes = [max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT) for _, size, _, _ in buffers]
    offsets, end = place([Lifetime(size, first, last) for size, (_, _, first, last) in zip(sizes, buffers)])
    for (op, *_), offset in zip(buffers, offsets):
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(WorkspaceOp(op.results[0].type, integer(offset)).buffer)
        op.erase()
    total = _place_varying(main, varying, end) if varying else end
    symbols = list(symbol_arguments(main.operation))
    main.attributes["inferno.workspace_bytes"] = integer(total) if isinstance(total, int) else sizes_attribute([total], symbols)


@dataclass
class _Place:
    """A part of the workspace: its bytes, and the last use of what is in it."""

    offset: Int
    size: Int
    last: int


def _place_varying(main: func.FuncOp, buffers: list[tuple[ir.Operation, int, int]], begin: int) -> Int:
    """Place buffers whose sizes vary behind ``begin``, in the order of their first use; where the last place ends."""
    places: list[_Place] = []
    end: Int = begin
    sizes = SizeValues(main.operation)
    for op, first, last in sorted(buffers, key=lambda b: b[1]):
        type_ = op.results[0].type
        size = ceildiv(product(shape(op.results[0])) * element_bytes(type_.element_type), ALIGNMENT) * ALIGNMENT
        free = [p for p in places if p.last < first and bounds(p.size - size)[0] >= 0]
        if free:
            place = min(free, key=lambda p: hint(p.size))
            place.last = last
        else:
            place = _Place(end, size, last)
            places.append(place)
            end = end + size
        with ir.InsertionPoint(op), op.location:
            offset = sizes.get(place.offset)
            value = offset if isinstance(offset, ir.Value) else arith.constant(ir.IndexType.get(), offset)
            op.results[0].replace_all_uses_with(SizedWorkspaceOp(type_, [value, *op.operands]).buffer)
        op.erase()
    return end


def _lifetime(op: ir.Operation, order: dict[ir.Operation, int]) -> tuple[int, int]:
    """(first, last) position of an operation that touches the buffer, through views and parameters."""
    positions: list[int] = []

    def visit(value: ir.Value) -> None:
        for user in users(value):
            positions.append(order[user])
            for result in user.results:
                visit(result)

    visit(op.results[0])
    return min(positions, default=0), max(positions, default=0)
