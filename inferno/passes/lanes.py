"""How many sectors of memory neighbouring points of a map read, found by computing their places: of quotients and remainders, as in reshaped tensors, no rule
says whether they are neighbours."""

from collections.abc import Sequence
from math import ceil, prod

import numpy as np

from inferno.element_sizes import element_bytes
from inferno.mlir import dim_of, ir, owner
from inferno.passes.generics import dims, inputs, is_elementwise, loop_sizes, maps
from inferno.passes.neighbours import generic_around
from inferno.passes.shapes import row_major

_LANES = 128  # points next to each other: four warps, whose sectors the first-level cache keeps
_SECTOR = 32  # bytes that memory reads at least
_MORE = 3  # times the fewest sectors, which caches keep: writing and reading all of it moves more (no measurement chose it)
_ORDERS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)  # arith's, of which the last four come without a sign, too
_NUMBERS = {"addi": np.add, "subi": np.subtract, "muli": np.multiply, "maxsi": np.maximum, "minsi": np.minimum, "maxui": np.maximum, "minui": np.minimum,
            "divui": np.floor_divide, "remui": np.remainder, "index_cast": np.array, "extsi": np.array, "trunci": np.array}


def reads_whole_sectors(producer: ir.Operation, gather: ir.Operation) -> bool:
    """Whether what an elementwise operation reads of its large tensors, all of known sizes, where a map gathers its elements, is of about as few sectors as
    there can be.  False where places are no functions of loops alone."""
    generic = generic_around(gather)
    if not is_elementwise(generic) or dims(maps(generic)[-1]) is None or not all(isinstance(s, int) and s for s in loop_sizes(generic)):
        return False
    places = _places(generic, list(gather.operands)[1:])
    if places is None:
        return False
    at, lanes = dict(zip(dims(maps(producer)[-1]), places)), min(_LANES, prod(loop_sizes(generic)))
    found = fewest = 0
    for value, map_ in zip(inputs(producer), maps(producer)):
        type_ = value.type
        if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
            continue
        width = element_bytes(type_.element_type)
        address = np.zeros(lanes, np.int64)
        for e, step in zip(map_.results, row_major(type_.shape)):
            if isinstance(e, ir.AffineDimExpr):
                address += at[ir.AffineDimExpr(e).position] * step
            elif not isinstance(e, ir.AffineConstantExpr):
                return False
        found += len(np.unique(address * width // _SECTOR))
        fewest += ceil(min(lanes, prod(type_.shape)) * width / _SECTOR)
    return found <= _MORE * fewest


def _places(generic: ir.Operation, numbers: Sequence[ir.Value]) -> list[np.ndarray] | None:
    """The numbers that a body computes at points in the middle, the result's neighbours; None where they are made of anything but the loops' numbers."""
    sizes, order = loop_sizes(generic), dims(maps(generic)[-1])
    count = prod(sizes)
    lanes = min(_LANES, count)
    points = np.unravel_index(np.arange(lanes) + (count - lanes) // 2, [sizes[d] for d in order]) if order else ()  # one number has no loops
    loops = dict(zip(order, points))
    known: dict[ir.Value, np.ndarray | None] = {}

    def number(value: ir.Value) -> np.ndarray | None:
        if value not in known:
            known[value] = computed(value)
        return known[value]

    def computed(value: ir.Value) -> np.ndarray | None:
        op = owner(value)
        if op is None:
            return None
        if op.name == "linalg.index":
            return loops[dim_of(op)]
        if op.name == "arith.constant":
            return np.full(lanes, ir.IntegerAttr(op.attributes["value"]).value, np.int64) if isinstance(value.type, (ir.IndexType, ir.IntegerType)) else None
        operands = [number(v) for v in op.operands]
        if any(v is None for v in operands):
            return None
        if op.name == "arith.cmpi":
            predicate = ir.IntegerAttr(op.attributes["predicate"]).value
            return _ORDERS[predicate](*operands) if predicate < len(_ORDERS) else _ORDERS[predicate - 4](*(v.astype(np.uint64) for v in operands))
        if op.name == "arith.select":
            return np.where(*operands)
        if op.name in ("arith.divsi", "arith.remsi"):  # towards zero
            quotient = np.fix(operands[0] / np.maximum(np.abs(operands[1]), 1)).astype(np.int64) * np.sign(operands[1])
            return quotient if op.name == "arith.divsi" else operands[0] - quotient * operands[1]
        function = _NUMBERS.get(op.name.removeprefix("arith."))
        return function(*operands) if function is not None else None

    found = [number(v) for v in numbers]
    return None if any(v is None for v in found) else found
