"""The schedule of contractions of which a kernel also adds up each column of a result: each channel's numbers over all pixels, and their squares.

That is what batch norm needs of a convolution while it is trained.  As ``im2col`` or ``wgmma`` with tiles of the same columns for all turns of a block: each
warp adds up what it writes, in float32 through the 16 rows of a tile that it has, and in float64 from there on.  The squares of numbers of 16 bits with 8
of precision, and their sums over 16 rows, are exact in float32 wherever they are nearly alike, so nothing that a variance needs is lost; of others one of
the 16 is taken off before, and what that changes is added in float64.  A second launch adds up the blocks' sums, in one order.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from math import ceil, prod
from typing import ClassVar

from inferno.mlir import func, ir, owner
from inferno.passes.generics import PARALLEL, body, dims, inputs, is_generic, kinds, maps, outputs, yielded
from inferno.passes.programs import root_of
from inferno.schedule import im2col, wgmma
from inferno.schedule.accesses import destination_index, filled
from inferno.schedule.contraction import Contraction, parse_contraction
from inferno.schedule.cost import CLOCK, bit_width
from inferno.schedule.halo import takes
from inferno.schedule.im2col import Im2col
from inferno.schedule.result_parts import columns_together, store_maps
from inferno.schedule.shared_tiles import height
from inferno.schedule.tiling import Tiling, tile_contraction
from inferno.schedule.wgmma_schedule import Shared, precision, raw_bytes, shared_of_block, supported
from inferno.target import Target

WARPS = 4  # of a consumer
_SUM = 8  # bytes of a sum in shared memory
# Guesses: clocks of a warp for its part of 64x64 results, and where one of them is taken off, of which ping-pong hides a share; microseconds of the launch
# that adds up the blocks' sums.
_CLOCKS, _HIDDEN, _LAST = {False: 260, True: 400}, 0.7, 2.0
_LEAST_SLOTS = 2, 3  # of the lhs, and of a halo's weights


@dataclass(frozen=True)
class ChannelSums(Im2col):
    """As ``Im2col``, or without ``windows``, where the terms are neighbours in memory, as ``Wgmma``.  ``sums``: how many there are of each column."""

    generator: ClassVar[str] = "channel_sums"

    sums: int = 2
    windows: bool = False

    def shared(self, raw_bytes: int = 0, rhs_height: int = 0) -> Shared:
        """The sums are in front of the barriers."""
        laid = self.plain().shared(raw_bytes, rhs_height)
        return replace(laid, barriers=laid.barriers + self.sums_bytes, total=laid.total + self.sums_bytes)

    def plain(self) -> Im2col:
        """The same without sums."""
        return Im2col(**{f.name: getattr(self, f.name) for f in fields(Im2col)})

    @property
    def sums_bytes(self) -> int:
        return WARPS * self.consumers * self.sums * self.tile_n * _SUM


@dataclass(frozen=True)
class Summed:
    """What such a kernel computes: ``head``, a kernel function of the first arguments, is the contraction, result ``source`` of which is added up
    over all but its last dimension.  ``squares``, ``into`` and ``elements``: of each sum whether it is of squares, the argument that it
    goes to, one of the last, and its type there.  ``centered``: what is added up is less one of a warp's 16 rows."""

    head: func.FuncOp
    contraction: Contraction
    source: int
    squares: tuple[bool, ...]
    into: tuple[int, ...]
    elements: tuple[ir.Type, ...]
    centered: bool
    module: ir.Module


def choose(kernel: func.FuncOp, target: Target) -> ChannelSums | None:
    """The schedule with the lowest estimate if ``kernel`` is a contraction with sums of its columns for Hopper's tensor cores."""
    found = list(candidates(kernel, target))
    return min(found, key=lambda item: item[0])[1] if found else None


def candidates(kernel: func.FuncOp, target: Target) -> Iterator[tuple[float, ChannelSums]]:
    """Schedules with their estimates in microseconds."""
    overlap = False  # what a plain contraction reads of an image
    for windows in (True, False):
        c = read(kernel, target, windows)
        overlap |= windows and c is not None
        tiling = tiling_of(c.contraction) if c is not None else None
        if tiling is None:
            continue
        for time, s in im2col.at_size(c.head, c.contraction, target) if windows else wgmma.candidates(c.head, c.contraction, target):
            plain = s if windows else im2col.im2col(s)
            made = _fit(ChannelSums(**asdict(replace(plain, group=1, inside=False)), sums=len(c.squares), windows=windows), tiling, target)
            if made is not None and takes_schedule(made, c.contraction, tiling):
                if overlap and not windows:
                    time = max(time, im2col.time_of_rows(s, c.contraction, tiling, bit_width(c.contraction.lhs.element) // 8, target))
                yield time + _time(made, c.centered, tiling, target), made


def tiling_of(c: Contraction) -> Tiling | None:
    width = bit_width(c.lhs.element) // 8
    return tile_contraction(c, width, only_along_k=width == 4, offset=c.windows is None)


def takes_schedule(s: ChannelSums, c: Contraction, tiling: Tiling) -> bool:
    """Whether a block's tiles all have the same columns, each row of the result is in one of them, and is staged."""
    alone = s.split == s.cluster == s.group == 1 and s.persistent and s.resident == 1
    plain = not (s.stream or s.lhs_rows or s.inside or s.swapped or s.bring or s.line or s.by_threads or s.registers or s.parts)
    as_they_lie = tiling.n.size == c.N and not (any(raw_bytes(s, tiling, 1)) or tiling.lhs.copied or tiling.rhs.copied)
    if not (alone and plain and as_they_lie) or len(store_maps(c, tiling, s)) != len(c.destinations):
        return False
    width = columns_together(c, tiling, s)
    return s.tile_n % width == 0 and s.sums * width % 32 == 0 and (not s.patch or takes(s, c, tiling))


def _fit(s: ChannelSums, tiling: Tiling, target: Target) -> ChannelSums | None:
    """``s`` with as many slots as there is room for beside the sums; None if there are too few."""
    high = height(s.tile_n, tiling.rhs.along_k, s.panel)
    while s.shared(0, high).total > shared_of_block(s, target):
        if s.weights > _LEAST_SLOTS[1]:
            s = replace(s, weights=s.weights - 1)
        elif s.stages > _LEAST_SLOTS[0]:
            s = replace(s, stages=s.stages - 1)
        else:
            return None
    return s


def _time(s: ChannelSums, centered: bool, tiling: Tiling, target: Target) -> float:
    """Microseconds that the sums take beside the contraction."""
    turns = ceil(tiling.tiles(s.tile_m, s.tile_n) / target.multiprocessors)
    return _LAST + turns * s.rows * s.tile_n / 64**2 * _CLOCKS[centered] * (1 - _HIDDEN if s.pingpong else 1) / CLOCK


def read(kernel: func.FuncOp, target: Target, windows: bool) -> Summed | None:
    """What ``kernel`` computes, if it is a contraction and sums of the columns of a result of its in one operation; None for anything else.  ``windows``:
    a factor is those of an image."""
    if not target.hopper or len(kernel.type.results) < 2:
        return None
    with kernel.context, kernel.location:
        module = ir.Module.create()
        module.body.append(kernel.operation.clone(ip=False))
        found = _take_sums(module.body.operations[0])
        if found is None:
            return None
        (summed, squares, into), head = found, module.body.operations[0]
        elements = tuple(ir.RankedTensorType(kernel.type.inputs[a]).element_type for a in into)
        c = im2col.parse_unfolded(head, target) if windows else parse_contraction(head)
        if c is None or c.varies or precision(head, c) is None or not supported(c) or not c.n.flat or (c.windows is not None and c.windows.group is not None):
            return None
        place = next((i for i, d in enumerate(c.destinations) if d.access.argument == summed), None)
        if place is None:
            return None
        access = c.destinations[place].access
        columns = c.n.stride(access) == 1 and access.offset == 0 and c.n.size == access.shape[-1] and prod(access.shape) == c.B * c.M * c.N
        centered = any(squares) and str(access.element) != "bf16"
        if not columns or (centered and squares != (False, True)):
            return None
        return Summed(head, c, place, squares, into, elements, centered, module)


def _take_sums(kernel: func.FuncOp) -> tuple[int, tuple[bool, ...], tuple[int, ...]] | None:
    """Take the sums out of a kernel function: the argument that is summed, which sums are of squares, and the arguments that they go to."""
    operations = [o.operation for o in kernel.entry_block.operations]
    last, sums = operations[-1], next((o for o in reversed(operations) if is_generic(o) and filled(o.results[0]) is None), None)
    if sums is None or len(inputs(sums)) != 1 or not all(r in list(last.operands) for r in sums.results):
        return None
    whole = root_of(inputs(sums)[0])
    if owner(whole) is None or not is_generic(owner(whole)) or whole not in list(last.operands) or not _of_columns(sums):
        return None
    squares, into, summed = _squares(sums), tuple(destination_index(kernel, r) for r in sums.results), destination_index(kernel, whole)
    count = len(kernel.type.inputs)
    if squares is None or summed is None or into != tuple(range(count - len(into), count)):
        return None  # they are the last ones
    kept = [v for v in last.operands if v not in list(sums.results)]
    with ir.InsertionPoint(last):
        func.ReturnOp(kept)
    starts = [owner(v) for v in outputs(sums)]
    for op in (last, sums, *starts):
        op.erase()
    for number in reversed(into):
        kernel.entry_block.erase_argument(number)
    taken = list(kernel.type.inputs)[: into[0]]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(taken, [v.type for v in kept]))
    return summed, squares, into


def _of_columns(sums: ir.Operation) -> bool:
    """Whether an operation adds up, from zero, what lies along all but the last dimension of a tensor."""
    read, results, loops = dims(maps(sums)[0]), [dims(m) for m in maps(sums)[1:]], kinds(sums)
    if read is None or any(r != [read[-1]] for r in results) or sorted(read) != list(range(len(loops))):
        return False
    starts = [filled(v) for v in outputs(sums)]
    zero = all(s is not None and isinstance(s.type, ir.FloatType) and s.type.width >= 32 and ir.FloatAttr(s).value == 0 for s in starts)
    return zero and [d for d, k in enumerate(loops) if k == PARALLEL] == [read[-1]]


def _squares(sums: ir.Operation) -> tuple[bool, ...] | None:
    """Of each result whether it is a sum of squares, otherwise of the numbers; None where one is neither."""
    block, found = body(sums), []
    term, *running = block.arguments
    for value, total in zip(yielded(sums), running):
        add = owner(value)
        if add is None or add.name != "arith.addf" or list(add.operands).count(total) != 1:
            return None
        (taken,) = [v for v in add.operands if v != total]
        op, wide = owner(taken), str(total.type) in ("f32", "f64")
        is_square = op is not None and op.name == "arith.mulf" and op.operands[0] == op.operands[1]
        if not wide or not _is_widened(op.operands[0] if is_square else taken, term):
            return None
        found.append(is_square)
    return tuple(found)


def _is_widened(value: ir.Value, term: ir.Value) -> bool:
    op = owner(value)
    return value == term or (op is not None and op.name == "arith.extf" and op.operands[0] == term)
