"""What is made of each row of a tensor alone: of equal rows it is the same, and of rows that are taken it can be taken, too."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.mlir import ir, users, walk
from inferno.passes.contraction import is_convolution
from inferno.passes.generics import PARALLEL, dims, inputs, is_generic, is_reduction, kinds, loop_of, loops_alone, loops_of, maps, outputs, reads_outputs
from inferno.passes.programs import RESHAPES
from inferno.passes.shapes import reassociation
from inferno.passes.takings import beginning

# Dividing an integer by zero ends a process of a CPU; rows that nobody takes may have zeros.
_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui")


@dataclass(frozen=True)
class Rows:
    """Where a tensor has its rows: in as many dimensions as there are ``sizes``, from the ``first`` on."""

    first: int
    sizes: tuple[int, ...]

    @property
    def dims(self) -> list[int]:
        """Those dimensions."""
        return list(range(self.first, self.first + len(self.sizes)))


@dataclass
class RowRegion:
    """``operations`` that make something of each row alone, in order, where their results have their ``rows``, and ``ends``, which others read."""

    operations: list[ir.Operation] = field(default_factory=list)
    rows: dict[ir.Value, Rows] = field(default_factory=dict)
    ends: list[ir.Value] = field(default_factory=list)


def row_region(op: ir.Operation, rows: Rows) -> RowRegion:
    """All that is made of each row of what ``op`` makes, in its block."""
    region = RowRegion(rows={op.results[0]: rows})
    every = [o.operation for o in op.block.operations]
    known = {op}
    for other in every[every.index(op) + 1:]:
        if any(v in region.rows for v in other.operands):
            results = _rows_of(other, region.rows)
            if results is not None:
                region.operations.append(other)
                region.rows.update(zip(other.results, results))
                known.add(other)
    region.ends = [v for v in region.rows if any(u not in known for u in users(v))]
    return region


def _rows_of(op: ir.Operation, rows: dict[ir.Value, Rows]) -> list[Rows] | None:
    """Where each result of ``op`` has the rows of what it reads; None where it is made of more than one row, or of its number."""
    if not all(t.has_static_shape for t in (v.type for v in (*op.operands, *op.results)) if isinstance(t, ir.RankedTensorType)):
        return None
    if op.name == "tensor.extract_slice":
        own, before, after = rows[op.operands[0]], op.operands[0].type, op.results[0].type
        whole = before.rank == after.rank and all(before.shape[d] == after.shape[d] for d in own.dims)
        return [own] if whole and len(op.operands) == 1 else None
    if op.name in RESHAPES:
        found = _reshaped(reassociation(op), rows[op.operands[0]], op)
        return [found] if found is not None else None
    return _rows_of_generic(op, rows) if is_generic(op) and not is_convolution(op) else None


def _reshaped(groups: Sequence[Sequence[int]] | None, own: Rows, op: ir.Operation) -> Rows | None:
    """Where what is reshaped has the rows: all of their dimensions become one, or one becomes several, or they stay as they are."""
    whole, shape = op.name == "tensor.collapse_shape", list(op.results[0].type.shape)
    for i, group in enumerate(groups or ()):
        if whole and own.first in group:
            if list(group) == own.dims:
                return Rows(i, (shape[i],))
            singles = [list(g) for g in groups[i:i + len(own.sizes)]] == [[d] for d in own.dims]
            return Rows(i, own.sizes) if singles else None
        if not whole and own.first == i:
            if len(own.sizes) == 1:
                return Rows(group[0], tuple(shape[d] for d in group))
            singles = all(len(g) == 1 for g in groups[i:i + len(own.sizes)])
            return Rows(group[0], own.sizes) if singles else None
    return None


def _rows_of_generic(op: ir.Operation, rows: dict[ir.Value, Rows]) -> list[Rows] | None:
    """Where the results of a generic have the rows, if its loops over them are the same for all that it reads of rows, and select nothing else."""
    every, walked = maps(op), loops_alone(op)
    found = {tuple(alone[d] for d in rows[v].dims) for v, alone in zip(inputs(op), walked) if v in rows}
    if len(found) != 1 or None in (loops := list(found.pop())):
        return None
    sizes = next(rows[v].sizes for v in inputs(op) if v in rows)
    for value, map_ in zip(inputs(op), every):
        if [d for d, e in enumerate(map_.results) if loops_of(e) & set(loops)] != (rows[value].dims if value in rows else []):
            return None
    results = []
    for value, map_ in zip(outputs(op), every[len(inputs(op)):]):
        order = dims(map_)
        if order is None or value in rows or beginning(value) is None or loops[0] not in order:
            return None
        first = order.index(loops[0])
        if order[first:first + len(loops)] != loops:
            return None
        results.append(Rows(first, sizes))
    parallel = all(kinds(op)[r] == PARALLEL for r in loops) and (is_reduction(op) or not reads_outputs(op))
    counted = any(loop_of(o.results[0]) in loops for o in walk(op, "linalg.index"))
    return results if parallel and not counted and not walk(op, "tensor.extract", *_DIVISIONS) else None
