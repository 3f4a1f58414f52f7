"""The cost model of attention: an estimate of its time by a schedule."""

from collections.abc import Sequence
from math import ceil

from inferno.element_sizes import element_bytes
from inferno.schedule.analysis.cost import CLOCK, At, accessed_bytes
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.schedule import FEW_ROWS, Attention, adders, completed, lines
from inferno.schedule.attention.support import elements
from inferno.schedule.attention.tiling import AttentionTiling
from inferno.schedule.attention.warps import block_clocks
from inferno.schedule.matmul.contraction import Operand
from inferno.symbolic import hint
from inferno.target import Target

# What a block of keys takes, by the number of consumers: this share of its products' clocks, clocks for each key, and others.  Fitted to 150 times
# of 17 shapes on an H200, as all that follows: 4x32x4096x128 in blocks of 128 keys 1549 us, of 144 1665, with three consumers and 64 keys 1716;
# 2x16x8192x64 with two consumers and 192 keys 1182, with three and 128 1047, and 96 1081; 2x16x4096x256 in blocks of 64 keys 736; 2x16x4096x80 with
# two consumers and 160 keys 353, with three and 112 335, and 96 352.
_CLOCKS = {1: (0.75, 2.7, 500), 2: (0.65, 6.0, 620), 3: (0.75, 7.1, 480)}
# Clocks of a tile beside its blocks: where each has a block of threads of its own, or the next one's begin meanwhile (4x32x1024x128, causal: 84.3
# and 71.8 us; 8x12x197x64: 7.5 and 6.2); and where results take the place of queries (4x32x4096x128, causal: 905 and 938).
_TILE, _NEXT_TILE, _IN_PLACE = 3500, 1000, 1500
# Clocks of two tiles that a block of threads has a part of, where each has equally many blocks of keys (on an H200 1x8x16384x64 1016 us, with whole tiles
# 1169, of two consumers 1277; 1x2x32768x64 998 and 1262; 2x16x8192x64 1032 and 1083; 1x8x16384x128 1667 and 1716).
_MEETING = 4000
_EVEN = 1.02  # so much more they have to be estimated to save (32x25x128x128, 192 columns: 52.0 us, whole tiles 41.2, where both estimates are 40.4)
_START, _COUNTER = 2.5, 1.5  # microseconds (1x32x512x128: 8.6 in single tiles, 10.3 by the counter)
_COPY_RATE = 60  # bytes a clock (an estimate)
# One query's tile takes nearly nothing beside (1x32x512x128 of 8 heads of keys, a block of threads each: 6.7 us; 2048 keys: 18.9; 8192: 69.7).
_FEW = 200
# Of these, in 16 bits, clocks of a block of keys beside, and bytes a clock of the first one, which is waited for (an H200, heads of 64 columns, of 32 8
# of keys: 2048 keys in 16 splits of blocks of 64 keys 4.2 us, of 128 4.6, in 8 splits 4.2, in 11 splits of 192 5.0; of 128 columns, 8192 keys in 16 splits
# of blocks of 64 7.9, of 128 8.5).
_FEW_BLOCK, _FIRST_RATE = 300, 32
# Microseconds of a block of threads that follows another one (64x32x512x128: 38.1, and 36.7 where tiles have none of their own).
_NEXT_BLOCK = 0.4
# Bytes a microsecond, of memory (64x32x4096x128: 257 us), and of L2 (1x32x8192x128 of 8 heads of keys in 16 splits: 9.9 us; from memory 12.9), where
# so many keys and values have room.
_MEMORY_RATE, _L2_RATE, _L2 = 4.15e6, 6.4e6, 48e6
# The part of a head's keys and values that comes from memory again for each further tile of its queries, where all that are worked on do not fit: tiles do not
# keep step, and less so where they begin at different keys (3x32x128x8192x160: a tile of two consumers 147 us, tiles of one 194, even ones 224).
_AGAIN = {False: 0.6, True: 0.9}
# The share of it that clusters of more than two blocks have (8x32x8192x128 of 4 heads of keys: 42.2 us in clusters of 3, 37.2 of 2), and the exponent
# of the norm of its time and that of clocks, which is more than the larger where they are alike (8 heads of keys: 72.6 us where both are 65).
_OF_CLUSTERS, _SHARP = 0.85, 8
# The power of the share of multiprocessors that have something to do by which their number tells in memory's rate (32768 keys: 8 heads of keys by 96
# blocks 42.4 us, by 128 36.1; 4 heads 25.3 and 21.9; 8x32x4096x128 of 4 heads of keys 23.1 and 19.8).
_BUSY = 0.6
# Microseconds that sharing keys takes: by the blocks of a cluster, and for each; by memory, for each share, and for each of its places that a thread
# adds up; and by both.  Of one query, 32 heads of 128 columns: 8 heads of keys, 512 keys in 4 parts 3.8, in 4 splits 4.4; 4096 in 16 splits 6.3, in 2
# parts and 8 splits 6.7; 32768 34.8 and 34.8; 4 heads, 4096 keys in 16 splits 6.0, in 2 parts and 8 splits 5.9 (by one adder 6.4), and 16 splits 6.3 (6.7),
# in 4 and 4 6.1 (6.4); 32768 in 32 splits 22.1, in 2 parts and 16 splits 20.5 (21.0); 2 heads, 32768 in 2 parts and 32 splits 12.1 (14.5), in 7 and 7 12.2.
_PARTS, _PARTS_EACH, _SPLITS, _SPLITS_EACH, _SPLITS_PLACE, _BOTH = 0.1, 0.15, 0.8, 0.05, 0.035, 0.55
_ADDED = 512  # numbers that the threads of a block add up at a time
# Clocks of each score for what is read for it and is its own: in memory, and in shared memory (4x16x4096x64 with a mask of 4096x4096 1146 us and 759, without
# it 601; 8x16x2048x128 711, 505 and 424; 32x12x128x64 12.2 and 9.4; 2x8x512x64 9.0 and 6.1).
_READ, _BROUGHT = 0.125, 0.035
# Of operands in pieces (estimates): products, clocks for each key that weights take, those of a block that waits for its only slot, and what the
# launch in front takes in microseconds.
_PRODUCTS = {1: 1, 2: 3, 3: 6}
_SPLIT_KEY, _ONE_SLOT, _PIECES = 6, 500, 2.0
# Of blocks that cut operands themselves: clocks of each number, and of a wait for 4096 that are read at a time; how much of the shorter of multiplying and
# of cutting for another slot comes on top of the longer, since both need the same instruction slots; and what each of two takes longer that share a
# multiprocessor.  Fitted to 90 times of 15 shapes on an H100: 8x12x32x64 4.2 us (by the launch in front 6.9), 1x12x16x64 3.0 (4.0), 128x12x32x64 25.4
# (60.0; one on a multiprocessor 27.0), 16x12x64x64 8.2 (11.9; one 8.9), 8x12x128x64 12.3 (13.9), 32x12x128x64 37.6 (59.3), 4x16x128x128 15.0 (19.4),
# 64x4x49x32 6.3 (9.6), 4x16x512x64, causal, 47.1 (59.1), but 8x12x512x64 90.3 (94.2), 4x8x300x64 23.6 (20.9), 2x16x2048x64 451.6 (330.3), as each tile
# of queries has the keys cut again.
_CUT, _READ_TOGETHER, _WAIT, _BOTH_WORK, _OF_TWO = 0.28, 4096, 200, 0.6, 1.55


def estimate(s: Attention, a: AttentionKernel, tiling: AttentionTiling, target: Target, at: At = hint) -> float:
    """Microseconds: a block of keys after the other, and what a tile takes beside.  Where tiles are equally long whole rounds of them."""
    depth, width = a.depth.size, a.width.size
    each_product, each_key, each_block = _CLOCKS[s.consumers]
    seen, rows = blocks_seen(s, a, at), min(64, s.queries, at(a.queries.size))
    few, single = rows <= FEW_ROWS, s.order == "single"
    read = few and s.pieces == 1 and not a.pages  # what takes time is to read the keys
    if read:
        each_block = _FEW_BLOCK
    multiply = s.queries * s.keys * (depth + width) / 2048 * _PRODUCTS[s.pieces]
    copy = s.pieces * s.keys * (lines(depth) + lines(width)) * 128 / _COPY_RATE
    read_beside = dict.fromkeys((*a.score_extras, *a.weighting_extras))
    own = sum(any(x.strides[d] for d in a.queries.dims) and any(x.strides[d] for d in a.keys.dims) for x in read_beside)
    brought = len(s.mask_slot.panels)
    each_key += s.queries * (_READ * max(0, own - brought) + _BROUGHT * brought)
    copy += s.mask_slot.bytes / _COPY_RATE
    if s.pieces > 1:
        each_key, each_block = each_key + _SPLIT_KEY, each_block + (_ONE_SLOT if s.stages == 1 else 0)
    block = each_product * multiply + each_key * s.keys + each_block
    if s.warp_rows:
        block = block_clocks(s, a)
    elif s.cut:
        cutting = _cutting(s.keys * (depth + width))
        block = max(block, cutting) + (1 if s.stages == 1 else _BOTH_WORK) * min(block, cutting)
    else:
        block = max(block, copy)
    beside = _FEW if few else _TILE if single else _NEXT_TILE
    if read:
        beside += copy * _COPY_RATE / _FIRST_RATE
    begin = _cutting(min(s.queries, at(a.queries.size)) * depth) if s.cut else 0
    if s.resident == 2 and at(tiling.tiles(s)) * s.shares > target.multiprocessors:
        block, begin, beside = block * _OF_TWO, begin * _OF_TWO, beside * (1 if single else _OF_TWO)
    tiles = [begin + ceil(n / s.shares) * block + beside + (0 if s.apart else _IN_PLACE) for n in seen]
    rounds = at(tiling.tiles(s)) * s.shares / (target.multiprocessors * s.resident)
    if s.order == "even":
        clocks = rounds * max(tiles) + _MEETING
    else:
        clocks = ceil(rounds) * max(tiles) if len(set(seen)) == 1 or rounds <= 1 else rounds * sum(tiles) / len(tiles) + max(tiles) / 2
    moved = _moved(s, a, seen, tiling, target, at)
    busy = min(1.0, rounds)
    memory = moved / (_MEMORY_RATE * busy**_BUSY if moved > _L2 else _L2_RATE) / (_OF_CLUSTERS if s.parts > 2 else 1)
    if read:
        memory += block / CLOCK  # the last block's products, when all is there
    time = ((clocks / CLOCK)**_SHARP + memory**_SHARP)**(1 / _SHARP)
    if s.order == "even":
        time *= _EVEN
    if few and single:
        time += _NEXT_BLOCK * (ceil(rounds) - 1)
    if s.parts > 1:
        time += _PARTS + _PARTS_EACH * s.parts
    if s.splits > 1:
        places = max(1, rows * width / _ADDED / adders(completed(s, a), a))
        time += _SPLITS + (_SPLITS_EACH + _SPLITS_PLACE * places) * s.splits + (_BOTH if s.parts > 1 else 0)
    if s.pieces > 1 and not s.cut:
        time += _PIECES + sum(10 * at(elements(o, a)) for o in (a.q, a.k, a.v)) / _MEMORY_RATE
    return _START + (_COUNTER if s.order == "dynamic" else 0) + time


def _cutting(count: int) -> float:
    """Clocks of a producer that cuts so many numbers."""
    return count * _CUT + ceil(count / _READ_TOGETHER) * _WAIT


def _moved(s: Attention, a: AttentionKernel, seen: Sequence[int], tiling: AttentionTiling, target: Target, at: At) -> float:
    """Bytes: queries, as many results, and once the keys and values that are seen; a share of them again for each further tile of a head, where the heads that
    are worked on at a time have more than the L2 cache."""
    q, *others = (_read(o, a, at) for o in (a.q, a.k, a.v))
    heads = max(1, at(tiling.tiles(s)) // len(seen))
    together = min(heads, target.multiprocessors * s.resident / len(seen))
    again = _AGAIN[s.order == "even"] * (len(seen) - 1) if sum(others) * together / heads > _L2 else 0
    return 2 * q + sum(others) * min(1.0, sum(seen) * s.keys / at(a.keys.size)) * (1 + again)


def _read(o: Operand, a: AttentionKernel, at: At) -> int:
    """Bytes of an operand, each once, which several places of it may read."""
    return at(elements(o, a)) * element_bytes(o.element) if o.pages is not None else accessed_bytes(o.access, a.sizes, at)


def blocks_seen(s: Attention, a: AttentionKernel, at: At) -> list[int]:
    """Blocks of keys that the tiles of a head see."""
    keys, low, high = at(a.keys.size), *(None if end is None else at(end) for end in ((None, None) if a.band is None else (a.band.low, a.band.high)))
    found = []
    for first in range(0, at(a.queries.size), s.queries):
        end = keys if high is None else min(keys, max(1, first + s.queries + high))
        begin = 0 if low is None else min(end - 1, max(0, first + low))
        found.append(ceil(end / s.keys) - begin // s.keys)
    return found
