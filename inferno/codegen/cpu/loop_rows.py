"""Operations that go over the same rows (softmax, layer norm), row by row: a row stays in the L1 cache from the first
operation to the last, and what only the next one reads is never more than one row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.cpu.loop_nests import Nest
from inferno.element_sizes import element_bytes
from inferno.mlir import ir

# Bytes of one row's temporaries, which are on the stack; a quarter of a usual L2 cache and far from the end of a thread's stack.
LOCAL_BYTES = 1 << 18


@dataclass(frozen=True)
class Rows:
    """``nests`` in order, each with its rows as items; ``local`` are the buffers of which one row at a time is alive, and
    ``outer`` has for each nest the loops that count rows."""

    nests: tuple[Nest, ...]
    outer: tuple[set[int], ...]
    local: tuple[ir.Value, ...]
    count: int

    def types(self) -> dict[ir.Value, ir.MemRefType]:
        """For each local buffer the type of one row of it."""
        return {r: ir.MemRefType.get([math.prod(r.type.shape) // self.count], r.type.element_type) for r in self.local}

    def loops(self, nest: Nest) -> dict[ir.Value, set[int]]:
        outer = next(o for n, o in zip(self.nests, self.outer) if n is nest)
        return dict.fromkeys(self.local, outer)


def read_rows(plan: Sequence, rows: int, temporaries: set[ir.Value]) -> Rows | None:
    """The operations of ``plan`` row by row; None where that would not be the same, or a row is too long for the stack.

    It is the same where every buffer that one of them writes and another touches is touched in row r by row r only.
    """
    if not all(isinstance(n, Nest) for n in plan) or len(plan) < 2:
        return None
    orders = [n.by_rows(rows) for n in plan]
    if any(o is None for o in orders):
        return None
    written = dict.fromkeys(r.operand.root for n in plan for r in n.results)  # in an order: the same code each time
    for nest, (_, outer) in zip(plan, orders):
        if not all(nest.in_rows(o, rows, outer) for o in nest.operands if o.root in written):
            return None
        inside = {v for inner in _operations(nest) for v in inner.operands if isinstance(v.type, ir.MemRefType)}
        if inside:
            return None  # a body that reads buffers by itself
    local = tuple(r for r in written if r in temporaries)
    if sum(math.prod(r.type.shape) // rows * element_bytes(r.type.element_type) for r in local) > LOCAL_BYTES:
        return None
    for nest, (order, _) in zip(plan, orders):
        nest.order = order
    return Rows(tuple(plan), tuple(o for _, o in orders), local, rows)


def _operations(nest: Nest) -> list[ir.Operation]:
    found = []
    nest.op.walk(lambda o: (found.append(o), ir.WalkResult.ADVANCE)[1])
    return [o for o in found if o != nest.op]
