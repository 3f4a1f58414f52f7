"""How long a schedule of ``wgmma`` takes: the cost model, fitted to what was measured on an H200."""

from dataclasses import replace
from math import ceil

from inferno.element_sizes import bit_width, element_bytes
from inferno.schedule.analysis.cost import CLOCK, MEMORY_RATE, At, moved_bytes
from inferno.schedule.matmul.contraction import Contraction, Operand
from inferno.schedule.matmul.short_sums import clocks_of_shared_rows, ends_beside, is_short
from inferno.schedule.matmul.wgmma_schedule import Wgmma, has_few_rows, is_of_bytes, leaves_half
from inferno.schedule.tiles.result_parts import ROW, brought_tensors, written_by_element, written_in_lines
from inferno.schedule.tiles.shared_tiles import begins_inside_of_sectors, height, line_factors, panel, read_again, shared_memory_clocks, waiting_factor
from inferno.schedule.tiles.tile_ends import are_long, read_clocks, work_clocks
from inferno.schedule.tiles.tiling import Tiling
from inferno.symbolic import hint, product
from inferno.target import Target, clusters_at_once

_START = 2.0  # microseconds of a kernel that does next to nothing (fitted to weights of 4096 x 4096 and 4096 x 11008: 10.6 and 24.4 us)
# Bytes a clock that a multiprocessor gets from L2 (fitted like the tiles' shares), and of numbers of four bytes (on an H100, TF32, 2048^3 in 128x256 44.6 us,
# which the tensor core takes, in 128x128 51.6, 64x256 57.3, 64x128 66.9, 128x96 74.2).
_COPY_RATE, _WIDE_COPY_RATE = 70, 55
# The same where L2, which holds so many bytes, keeps neither factor, nor the rows and columns of the tiles that are computed at a time (on an H100, GELU,
# bf16, 8192x11008x4096 in 128x128 1225 us, in turns 1474, in 128x160 1181, in 128x256 1110; 4096x11008x4096 in 128x128 635, in 128x256 514; but of fewer
# terms 8192x4096x11008 in 128x160 1082, in 128x256 1148).
_FAR_RATE, _KEPT = 50, 50e6
# Times longer a row of windows takes than one of weights, which blocks read at the same time (on an H100, bf16, 3x3 and ReLU, us: 512 channels of 32x64x64
# to 256 in 128x256 398, 256x128 449, 64x256 in turns 440, 128x128 576; 256 of 32x28x28 in 128x128 50, 64x256 in turns 45; 1024 of 1x32x32 to 512 in three
# parts of 128x128 24, in two of 128x64 31, in 64x64 31; with 2.2, by which these times would be right, 512 of 32x7x7 took 23.5, now 19.6).
_WINDOWS = 1.6
# Clocks that the copy engine takes for a row of a tile, by its bytes, where a tap's channels are no whole rows of 128: one that they fill, and their last one,
# which they do not.  Fitted to 96 times of 8 convolutions of 16 to 80 channels on an H200 (us, 3x3 by 2, bf16: 48 channels of 32x56x56 to 96 11.5 in 256x96, in
# 128x96 14.1, in rows of 32 bytes 17.4; 80 of 28x28 to 160 10.7 in 128x80, in 64x192 of 64 bytes 11.3; TF32: 40 of 56x56 to 80 16.3 in 256x80, in
# 128x96 of 64 bytes 21.4).
_FULL_ROW, _LAST_ROW = {32: 2.4, 64: 2.7, 128: 2.4}, {32: 2.4, 64: 3.5, 128: 4.8}
# Times longer a product of such numbers takes in parts (640x2048x2048 in two of 128x160 28.6 us, whole in 128x80 19.7: 25 are estimated without it, for both).
_WIDE_PARTS = 1.2
# Times longer the rhs takes where its lines are a tile's columns, and every other tile begins inside of 128 bytes (columns innermost, 4096^3 in 128x160
# 217 us, in 128x128 180; 3072^3 102 and 80, 8192^3 1739 and 1388; 768x11008x1024 in two parts of 128x96 47.7, of 128x128 32.5).
_STRADDLING = 1.5
_LATENCY = 1200  # clocks from the start of a copy to its arrival
_ALONE = 0.91  # of that time where one consumer reads what arrives (fitted like the tiles' shares)
_SWAPPED, _WIDE = 1.2, 160  # times longer a step takes with the sides exchanged, where a tile has fewer columns: the rows are the operand that each
# consumer reads all of (9 times of 5 matmuls; of 112 columns 0.9 of the estimate with it, as others are, of 160 and 176 0.9 without)
_SWAPPED_WIDE = 1.01  # the same of others: of equal ones the usual is chosen (8 x 256x1024x2048, `x @ w`, in 256x128 14.6 us, exchanged 15.9)
# Clocks that a row outside of the tensor takes to become zeros (1 and 16 x 4096 x 4096 in tiles of 64 rows: 21 and 18.5 us; on an H100, 3x3 by 2, bf16, 320
# channels of 4x64x64 to 320 in 64x192, of which a half of the tiles have 64 such rows of weights, 26.1 us, in 128x80 20.2).
_OUTSIDE = 7
# Of few rows.  Memory takes longer by this share of the time in which multiprocessors have nothing to read, where k is innermost or not.
# (4x8192x28672, 359 of 396 places taken: 118.6 us, 598 of 660: 117.2, 512 of 528: 113.5; columns innermost, 1x4096x11008 172 of 264: 26.7,
# 115 of 132: 26.7, 16x18944x3584 56 of 132: 39.2, 112: 37.3.)
_IDLE = {True: 0.6, False: 0.35}
# Of that time with columns innermost and half of the shared memory, by whether lines have 128 bytes, where that is still enough bytes under way:
# the next kernel's blocks are there when this one's end, and lines are read closer to each other (8x4096x6144 in tiles of 64 16.1 and 13.4 us,
# 1x4096x11008 in tiles of 128 27.1 and 23, of 96 25.6 and 24.5, 16x18944x3584 36 and 33.2; 1x3584x3072, 3 MB under way: 8.2 and 8.3).
_RESIDENT, _ENOUGH = {True: 0.89, False: 0.95}, 6.5e6
# Of the memory's rate where columns are innermost: of lines of 128 bytes that come to L2 one by one (those of two rhs do not); of 64 bytes, where
# a tile has more of them side by side or not.
# Fitted to 64 times of 21 matmuls (64x4096x11008 25.3 us with three panels of 64 bytes, 27.5 in two parts of three of 128; 32 columns 28).
_BY_LINE, _LINES = 1.04, {False: 0.97, True: 0.88}
# The same where the last panel is not filled, or lines are shorter or begin anywhere (1x8192x28672, 112 and 224 columns: 148 and 132 us;
# 4x4096x11008 in panels of 32 bytes: 36.2; 16x4096x10008 with 64 bytes: 29.6, with 128: 28.1).
_CUT = 0.82
_ISSUE = 200  # clocks that the thread which starts copies needs for those of a slot (an estimate)
_LEAST = 100  # clocks of the products of one tile, however narrow: 64 rows of the lhs are read (an estimate)
# What the blocks of a cluster take to add up, in clocks and bytes a clock: where one of them does (fitted to 64 x 4096 x 4096: tiles of 64
# in two parts 12.1 us, of 32 in one 11.1), and where all read at once (fitted like the tiles' shares).
_EXCHANGE, _EXCHANGE_RATE = 4000, 14
_SPREAD, _SPREAD_RATE = 2300, 12.7
# Where sums are sent, without a barrier of the cluster and one way, not two; and times longer a step takes there, where blocks are at two different terms.
# Fitted, like what is said of parts, to 57 times of 18 matmuls on an H100: what is then chosen loses 0.7% to the best of 228 times of ours, and 4% at most.
_SENT, _SENDING = 1500, 1.04
_MANY = 300  # for each block behind the fourth (128x3072x768 with a residual: tiles of 64 in four parts 5.1 us, of 128 in four 5.8, in eight 6.9)
# Where a block of few rows does, after all that memory takes (4x4096x11008, 192 columns in two parts: 26.9; 1x18944x3584, 56 columns: 35.6).
FEW_EXCHANGE, FEW_EXCHANGE_RATE = 1700, 10
_BOTH = {True: 0.1, False: 0.19}  # of the shorter one of clocks and memory's time that the longer one does not hide: of few rows, of others
_HOT = 0.19  # of a product's clocks that it takes longer because the GPU's clock falls under load (fitted like the tiles' shares)
_LEAVE, _FIND_RATE = 1000, 30  # clocks until others' sums, which come through the workspace, are known to be there, and bytes a clock to read them
_CLEAR = 1.0  # microseconds of the kernel that lowers flags (an estimate)
_APART = 1.3  # times longer a step takes where blocks are at different terms, and find less in L2 (89 times of 35 matmuls: the middle 80% 1.0 to 1.5)
# Clocks of a step whose tile is made of bytes, and of each of its elements, where k is innermost or not, by scaling it; and with two
# raw slots.  Fitted to 16x4096x4096 (32 columns: 18.1 us), 16x4096x11008 (88: 29, 48: 39.7), 64x8192x28672 (112: 137, 224: 115);
# columns innermost, 16x4096x11008 (192: 36.2, 48: 48.9); two slots, 16x4096x11008 (88: 55, 32: 97) and 16x8192x28672 (56: 324).
_BYTES = {True: (330, 0.078), False: (530, 0.03)}
_TWO_SLOTS = (550, 0.15)
# Clocks of an operation on an element of a factor that is computed in shared memory, by three warps, and the share of the step's products that takes longer
# meanwhile, since both read there (on an H100, bf16, rows times a vector, 9 operations, us: 512x2048x2048 in 64x128 18.9, in 64x192 19.9, in 64x256 20.8;
# 512x2048x5632 in 128x192 33.2, in 128x224 35; 4096x1024x2816 in 128x192 65, in 128x256 65, in 64x256 63, and 43.5 with a kernel in front).
_WORK, _WORK_BESIDE = 1.8, 0.4
# Clocks of an element of TF32 that is transposed in shared memory, and the share of the step's products that are not done meanwhile, since both read there
# (H200, columns innermost: 1024^3 in 64x128 19.7 us, lines along k 8.3; 2048^3 in 128x128 84.7 and 49; 6144^3 in 128x192 2386, in 128x256 along k 1303).
_TRANSPOSE, _TRANSPOSE_BESIDE = 0.165, 0.65
# Clocks of a step whose tile of TF32 is computed, besides (16 images of 196 pixels and 672 scaled channels to 112, H200: 21 steps in 128x64 17.2 us, in
# two parts 11.7, 42 of 64x32 24; of 49 pixels and 960 channels to 160 30 steps of 64x32 17.8, in three parts of 128x64 12.6).
_WIDE_COMPUTED = 550
# Clocks of each result that is written by itself where lines begin anywhere (SwiGLU of 2048x768x50257 in 80 columns 736 us, in 64, of which warps write
# lines, 435).
_BY_ELEMENT = 0.6
# Of writing a tile, what the next one's products do not hide, where its warps write lines or the copy engine does (512x768x50257, ReLU, in 128x128 70.9 us,
# 67.3 by turns).
_SHOWN = {True: 0.6, False: 0.3}
STORE_RATE = 20  # bytes a clock and multiprocessor, when all write at once
# Of up to so many rows with k innermost: microseconds that blocks take longer which leave the next kernel's none of the shared memory to begin in
# (4x8192x8192 in 64 columns 35.5, of half of it 34.4; 4x4096x11008 in 88 25.4 and 24.2; 4x13824x5120 in 40 36.9 and 36.6), and the share of memory's
# time where a multiprocessor has two blocks (4x8192x28672 in 112 columns 110.6, one block of them 112.8; 16x28672x8192 110.6 and 111.6).
LEAVES_HALF, _WHOLE, _TWO_BLOCKS = 16, 0.6, 0.991


def _rewriting(s: Wgmma, c: Contraction, tiling: Tiling, depth: int, few: bool, multiply: float) -> float:
    """Clocks that it takes to rewrite a step's tiles beside products of ``multiply`` clocks: about four instructions an element besides the body, three
    warps; for ``few`` rows and bytes, and where tiles are transposed, what was measured."""
    transposed, bytes_ = tiling.lhs.is_transposed or tiling.rhs.is_transposed, few and is_of_bytes(tiling)
    rewritten = tiling.lhs.raw is not None or tiling.rhs.raw is not None
    clocks = _TRANSPOSE_BESIDE * multiply if transposed else _WORK_BESIDE * multiply if rewritten and not bytes_ else 0.0
    for rows, operand, source in ((s.lhs_height, c.lhs, tiling.lhs), (s.tile_n, c.rhs, tiling.rhs)):
        if source.raw is not None:
            body = list(operand.prologue.block.operations) if operand.prologue is not None else []
            work = sum(12 if o.operation.name.startswith("math.") else 1 for o in body)
            start, each = (_BYTES[source.along_k] if s.raw > 3 else _TWO_SLOTS) if bytes_ else (0, 9 / (128 * s.helpers - 32))
            each *= 1 if bytes_ or source.is_transposed else _WORK
            start += _WIDE_COMPUTED if source.prologue and bit_width(operand.element) == 32 and not source.is_transposed else 0
            clocks += start + rows * depth * (_TRANSPOSE + each * work / 9 if source.is_transposed else each * (4 + work) / 9)
    return clocks


def _slowed(s: Wgmma, tiling: Tiling, width: int, target: Target, at: At, columns: int) -> float:
    """How much longer memory takes where not all multiprocessors read to the end, as those do that tiles are dealt out to, and by the lines that are
    read, of ``columns`` together."""
    blocks = at(tiling.tiles(s.tile_m, s.tile_n)) * s.split
    rounds = ceil(blocks / target.multiprocessors)
    idle = 1 + _IDLE[tiling.rhs.along_k] * (1 - blocks / (rounds * target.multiprocessors)) * (not s.stream)
    if tiling.rhs.along_k:
        return idle
    line = panel(columns, False, s.panel) * width
    cut = columns * width % line != 0 or line < 64 or (line < 128 and at(tiling.rhs.strides[1]) * width % 64 != 0)
    whole = 1.0 if columns < s.tile_n else _BY_LINE
    under_way = blocks * s.stages * s.chunks * height(columns, False, s.panel) * ROW
    idle *= _RESIDENT[line == 128] if s.resident > 1 and rounds == 1 and under_way >= _ENOUGH else 1
    return idle / (_CUT if cut else whole if line == 128 else _LINES[columns * width < 128])


def _ends(s: Wgmma, c: Contraction, tiling: Tiling, rounds: float, products: float, finish: float, short: bool) -> float:
    """Clocks that the ends of tiles take beside writing them, where products of so many clocks a tile do not hide that."""
    tile_n = s.tile_n // s.split if s.spread else s.tile_n
    brought = [b.access for b in brought_tensors(c, tiling, s)] if s.bring else []
    alone = s.consumers == 1  # its 128 threads read half as fast, and nobody multiplies meanwhile (256x4096x4096 with a residual in 64x128 19.4, 128x64 17.7)
    reads, work = read_clocks(c, s.tile_m, tile_n, brought) * (2 if alone else 1), work_clocks(c, s.tile_m, tile_n, 1 if s.pingpong else s.consumers, short)
    if s.pingpong:
        return work + max(0.0, (reads + work + finish - products) / 2) * (rounds - 1)
    return work * rounds + reads * (rounds if alone else rounds - 1)


def _has_windows(c: Contraction) -> bool:
    """Whether a factor is windows of images, of which that was timed: of 16 bits, whole rows of channels, not in groups."""
    w, width = c.windows, element_bytes(c.lhs.element)
    return w is not None and w.group is None and width == 2 and w.shape[-1] * width >= ROW


def _row_of_tap(s: Wgmma, c: Contraction) -> float:
    """Clocks of a row that holds channels of one tap, where that is what was timed: window by window, of channels that are no whole rows."""
    w = c.windows
    channels = 0 if w is None or w.group is not None or s.lhs_rows else w.shape[-1] * element_bytes(c.lhs.element)
    return row_clocks(channels, s.row) if channels % ROW else 0


def row_clocks(bytes_: int, row: int) -> float:
    """Clocks that the copy engine takes for each of the rows of so many bytes that hold ``bytes_`` of a pixel."""
    full, last = bytes_ // row, min(1, bytes_ % row)
    return (full * _FULL_ROW[row] + last * _LAST_ROW[row]) / (full + last)


def _step(s: Wgmma, share: float, c: Contraction, tiling: Tiling, target: Target, at: At, rounds: float, second: Operand | None) -> float:
    """Clocks of a step along k: the longest of the tensor core's, the copy engine's, those of warps that rewrite, and a copy's way."""
    width, few = element_bytes(c.lhs.element), has_few_rows(c, tiling, at)
    lhs, rhs = s.sharing
    # A multiprocessor multiplies 64 x 256 x 32 bytes in 128 clocks, whatever the type.
    multiply = s.chunks * max(s.tile_m * s.tile_n * 4 / 128 / share, _LEAST) * s.row / ROW
    depth = s.chunks * s.row // width
    wide = height(s.tile_n, tiling.rhs.along_k, s.panel)
    lines = (1, 1) if c.windows is not None else line_factors(tiling, width, at)
    if few:
        lines = lines if width == 4 and begins_inside_of_sectors(tiling, width, at) else (1, 1)
    straddling = not few and not tiling.rhs.along_k and s.tile_n * width % ROW and at(tiling.n.size) > s.tile_n
    if _has_windows(c):
        lines = (_WINDOWS, 1) if c.lhs.unfolded is not None else (1, _WINDOWS)
    tall, wide = s.lhs_height * lines[0], wide * max(lines[1], _STRADDLING if straddling else 1)
    wide = 0 if s.kept and c.windows is not None else wide
    copied = s.chunks * (tall / lhs + wide / rhs) * s.row
    copied *= _ALONE if s.consumers == 1 and not few and second is None else 1
    rate = _WIDE_COPY_RATE if width == 4 and not s.registers else _COPY_RATE
    terms = at(tiling.k_steps(depth)) * depth * width
    together = s.group * s.tile_m + target.multiprocessors / s.group * s.tile_n
    far = min(at(tiling.m.size), at(tiling.n.size), together) * terms > _KEPT and c.windows is None
    rate = min(rate, _FAR_RATE) if far else rate
    step = max(multiply, copied / rate, _rewriting(s, c, tiling, depth, few, multiply), _LATENCY / (s.stages - 1))
    step = step if s.row == ROW else max(step, s.chunks * _ISSUE)
    step = max(step, s.chunks * (s.tile_m / lhs + (s.tile_n / rhs if wide else 0)) * _row_of_tap(s, c))
    if (tiling.lhs.raw is not None or tiling.rhs.raw is not None) and not is_of_bytes(tiling):
        step = max(step, _LATENCY / (s.raw - 1))
    step = max(step, shared_memory_clocks(s)) if s.registers else step * ((_SWAPPED if s.tile_n < _WIDE else _SWAPPED_WIDE) if s.swapped else 1)
    # The tiles of the last rows may take longer: all others wait for them in the only round, and share them out among several.
    row_tiles = ceil(at(tiling.m.size) / s.tile_m)
    outside = s.chunks * _OUTSIDE * max(0, (row_tiles - 1) * s.tile_m + s.lhs_height - at(tiling.m.size))
    step += 0 if s.inside else max(0, outside - step) / (1 if rounds <= 1 else row_tiles)
    if s.swapped:
        column_tiles = ceil(at(tiling.n.size) / s.tile_n)
        step += max(0, _OUTSIDE * (column_tiles * s.tile_n - at(tiling.n.size)) - step) / (1 if rounds <= 1 else column_tiles)
    if c.lhs.has_windows and not s.kept and at(c.B) == 1:  # (of groups, whose weights lie together, this was not measured)
        column_tiles = ceil(at(tiling.n.size) / s.tile_n)
        beyond = column_tiles * s.tile_n - at(tiling.n.size)  # features that there are not: the last tile's rows of weights come as zeros
        copies = s.chunks * (_FULL_ROW[s.row] * (s.lhs_height / lhs + (s.tile_n - beyond) / rhs) + _OUTSIDE * beyond / rhs)
        step += max(0, copies - step) / (1 if rounds <= 1 else column_tiles) if beyond else 0
    return step * (_SENDING if s.sends else _APART if s.stream and not s.parts else 1)


def copy_time(bytes_: float) -> float:
    """Microseconds in which a kernel in front writes a factor anew."""
    return 2 + 2 * bytes_ / MEMORY_RATE


def estimate(
    s: Wgmma, share: float, c: Contraction, tiling: Tiling, target: Target, at: At = hint, second: Operand | None = None,
) -> float:
    """Microseconds: rounds of tiles, each a step of 128 bytes along k at the tensor core's or the copy engine's rate, the last
    round's results, but no less than memory takes; and the temporaries of operands that are computed first.  With a ``second`` rhs its
    columns are among the ``tiling``'s, and of two sums comes one result."""
    width = element_bytes(c.lhs.element)
    lhs, rhs = s.sharing
    rounds = at(tiling.tiles(s.tile_m * rhs, s.tile_n * lhs)) * max(1, s.parts) / clusters_at_once(s.blocks, target.multiprocessors)
    # Of many rounds the last one costs less than it should: the others' clock rises meanwhile.  (Of two rhs 5.2, 1024x4096x11008, take as long as 6.)
    rounds = rounds if s.stream and not s.parts else ceil(rounds) if rounds <= 4 or second is not None else rounds + 0.5
    few, depth = has_few_rows(c, tiling, at), s.chunks * s.row // width
    step = _step(s, share, c, tiling, target, at, rounds, second)
    out = sum(element_bytes(d.access.element) for d in c.destinations)
    finish = s.tile_m * s.tile_n * out / STORE_RATE / (1 if second is None else 2)
    short = is_short(c, tiling, at, s.swapped)
    # What of a tile's end is not hidden behind the next one's products.
    shown = 0 if s.pingpong or (short and ends_beside(s, rounds)) else _SHOWN[bool(written_in_lines(c, tiling, s))]
    if _has_windows(c) and step > s.tile_m * s.tile_n * 4 / 128 / share * s.row / ROW:
        shown = 0  # their copies take longer than products and go on (64 channels of 32x256x256 to 64 in 256x64 429 us, 64x64 in turns 529)
    finish *= ceil(s.tile_n / s.share / s.split) * s.share / s.tile_n if s.spread else 1
    steps = ceil((at(tiling.k_steps(depth)) - s.lead) / (s.parts or s.split))
    clocks = rounds * steps * step + finish * (1 + shown * (rounds - 1))
    clocks += s.kept * s.tile_n * s.row / _COPY_RATE if c.windows is not None else 0  # all are there before the first products
    sums, after = s.tile_m * s.tile_n * 4, 0.0
    if s.spread:
        clocks += (_SENT if s.sends else _SPREAD) + sums / _SPREAD_RATE + _MANY * max(0, s.split - 4)
    elif s.split > 1 and not (few or s.registers):
        clocks += _EXCHANGE + (s.split - 1) * sums / _EXCHANGE_RATE
    elif s.split > 1:
        warps = ceil((s.lhs_rows or s.tile_m) / 16) / (s.tile_m // 16)  # that have rows of the tensor
        after = FEW_EXCHANGE + (s.split - 1) * sums * warps / FEW_EXCHANGE_RATE
    clocks *= _WIDE_PARTS if max(s.split, s.parts) > 1 and width == 4 and not s.registers else 1
    if s.parts:
        clocks += max(s.lead * step, _LEAVE + sums / STORE_RATE) + (s.parts - 1) * sums / _FIND_RATE
    elif s.stream:  # a tile's sums there and back again
        clocks += 2 * sums / _EXCHANGE_RATE
    clocks += rounds * clocks_of_shared_rows(s, tiling) if short else 0
    columns = s.tile_n // (1 if second is None else 2)
    clocks += rounds * s.tile_m * columns * written_by_element(c, tiling, s if second is None else replace(s, tile_n=columns)) * _BY_ELEMENT
    if second is None and (short or (not few and are_long(c))):
        clocks += _ends(s, c, tiling, rounds, steps * step, finish, short)
    products = at(tiling.tiles(s.tile_m, s.tile_n)) * at(tiling.k_steps(depth)) * s.chunks * s.tile_m * s.tile_n * 4 / 128 * s.row / ROW
    clocks += _HOT * products / target.multiprocessors
    held = {a.argument for a in c.rhs.reads}  # two chunks of one tensor are all of it
    memory = moved_bytes(c, at, () if second is None else tuple(a for a in second.reads if a.argument not in held)) / MEMORY_RATE
    memory += read_again(s, c, tiling, at) if second is None and not few else 0
    if few or s.registers:
        memory *= _slowed(s, tiling, width, target, at, columns)
    if few and tiling.rhs.along_k and second is None and not (c.varies or tiling.lhs.raw or tiling.rhs.raw):
        memory *= _TWO_BLOCKS if s.resident == 2 else 1
        after += 0 if at(tiling.m.size) > LEAVES_HALF or leaves_half(s, target) else _WHOLE * CLOCK
    copies = sum(copy_time(at(product(o.shape)) * width) for o in (tiling.lhs, tiling.rhs) if o.copied)
    time = max(clocks / CLOCK, memory) + _BOTH[few] * min(clocks / CLOCK, memory) + after / CLOCK
    return waiting_factor(s, tiling, width, at) * (_START + _CLEAR * s.stream + time + copies)
