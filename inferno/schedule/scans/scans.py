"""The schedule of running sums, products and extrema: who has which elements, and how what lies in front of them gets there."""

from dataclasses import dataclass, replace
from math import ceil

from inferno.element_sizes import element_bytes
from inferno.mlir import func, walk
from inferno.powers import last_power_of_two, next_power_of_two
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import BodyCombiner
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.reductions.log_sums import in_pairs
from inferno.schedule.scans.gathers import gathers_neighbours
from inferno.schedule.scans.kernel import ScanKernel, parse_scan_kernel, parse_sized_scan
from inferno.schedule.scans.scan_schedule import THREADS, WARP, Scans
from inferno.target import Target


_HELD = 64  # bytes that a thread holds of a tile, and where tiles are few twice as many
_COLUMNS = 4  # running values of a thread across rows
_WALKS = 512  # threads of a block that walks
# Threads of a multiprocessor, below which more have a row that is one tile: on an H100 4x957 in float32 took 2.8 us and takes 2.4, 20x2000 in bf16
# with an addition 3.6 and 2.4, 60x500 in float32 with a gelu 2.9 and 2.3.
_ENOUGH = 64
FEW = 4  # tiles that a block walks before many blocks look back: 1024x1024 along the first dimension took 3.5 us, and 4.8 looking back
# Threads, lanes and items of recurrences of many rows, whose running values are two numbers each: places that a thread walks by itself are cheaper than
# what its block's threads tell each other.  On an H200 a state-space model's 1024 steps of 2048x16 states, in bf16 with what makes them, took 67 us by 512
# threads with 4 items, 54 with 8, 50 by 128 with 16, and 47 so.
_PAIRS = 64, 16, 16
# Bytes of neighbours that the threads across a row read at once: whole lines of the cache, two where there are many rows, half of one where there are few.
_LINE = 128
# Items, and tiles of a group, where few columns of 16-bit numbers are whole lines: of 65536x1024 in bf16 along the first dimension an H100 took 187 us by 512
# threads that read two lines at once, with 8 items and groups of 16, and 130 so; 115 where tiles wait in shared memory, in groups of 8.  That took 109 us for
# 8192x8192 instead of 120, and 113 instead of 118 with maps in front and behind; but 127 instead of 118 for 65536x1000, whose lines are not whole.
# Most tiles of a group where lines are halved: of 1Mx64 in bf16 135 us, 161 of whole lines in groups of 16.
_FEW_HALVES = 16, 16, 32
# Groups of columns below which they are narrower, down to a sector of memory: the groups of tiles of each wait for each other, so that more are shorter
# chains.  1Mx64 in float32 took 339 us by 64 columns and 247 by 8, 4Mx16 382 by 16 and 278 by 8.
_CHAINS, _SECTOR = 8, 32
_MANY = 16  # blocks of a multiprocessor from which on it is how many bytes are under way that counts, and not how soon the first ones come
# Bytes that a thread has of a tile where blocks, one a multiprocessor, walk all columns with a tile ahead in shared memory; for which part of them
# there is to be a block, and tiles of a walk.  16384x4096 took an H100 199 us in float32 and 104 in bf16; by two blocks each, of half the columns or tiles,
# 230 and 120.
_ALONE = 128, 0.9, 16
_BLOCKS = 2  # a multiprocessor, below which there are too few for blocks that walk whole rows
_ASKED_BYTES = 16  # that a thread asks for at once
_ASKED = 8  # tiles that a lane asks for at once, in registers
_HOP = 8 << 20  # bytes that are read and written while one group of tiles learns from the one in front of it what the running value is


def read(kernel: func.FuncOp, target: Target) -> ScanKernel | None:
    """What ``kernel`` computes if that is of a kind that can be generated."""
    return _supported(parse_scan_kernel(kernel)) if target.kind == "nvptx" else None


def read_sized(kernel: func.FuncOp, target: Target) -> ScanKernel | None:
    """The same where sizes vary: the length of rows, their number, or that of neighbours that belong to different ones."""
    return _supported(parse_sized_scan(kernel)) if target.kind == "nvptx" else None


def _supported(c: ScanKernel | None) -> ScanKernel | None:
    """The scan if the generator has what its maps compute, and reads neighbours together; its running values as the generator keeps them."""
    if c is None or any(not supported_body(s.generic) for s in c.steps):
        return None
    elements = [x.element for x in (*c.values, *c.accesses)] + [o.operands[0].type.element_type for s in c.gathering for o in walk(s.generic, "tensor.extract")]
    if not all(map(supported_element, elements)) or any(s not in c.before or not gathers_neighbours(s.generic) for s in c.gathering):
        return None
    if not all(a.strides[-1] in (-1, 0, 1) for a in c.accesses if a.strides):
        return None  # neighbours are read together
    combiner = in_pairs(c.combiner)
    if not c.along and combiner.sums and combiner.narrow.width == 16:
        # Parts that follow each other are few next to the points that 16 bits tell apart, and hide what float32 rounds.
        combiner = replace(combiner, total=combiner.type)
    return replace(c, combiner=combiner)


def choose(kernel: func.FuncOp, target: Target) -> Scans | None:
    """A schedule for every scan whose running values combine in any order."""
    c = read(kernel, target)
    return spread(pick(c, target), c, target) if c is not None else None


def pick(c: ScanKernel, target: Target) -> Scans:
    """The schedule that the rows' length and their number ask for."""
    return _along(c, target) if c.along else _across(c, target)


def spread(s: Scans, c: ScanKernel, target: Target) -> Scans:
    """The same where few rows are one tile each: more threads have a row, with fewer of its vectors each, and fewer rows are a block's."""
    if not c.along or s.tiles(c) > 1 or s.group:
        return s
    lanes = s.lanes
    while s.items > 1 and lanes < _WALKS // 2 and c.outer * lanes < enough(target):
        lanes *= 2
        s = replace(s, lanes=lanes, items=ceil(max(1, c.length // s.vector) / lanes))
    threads = s.threads
    while threads > max(WARP, lanes) and ceil(c.outer * lanes / threads) < target.multiprocessors:
        threads //= 2
    found = replace(s, threads=max(threads, lanes))
    return found if found.fits(c) else replace(found, packed=False)


def walking(c: ScanKernel) -> Scans:
    """Blocks for each row or for some neighbouring ones, of which they have as few as memory moves at least."""
    vector = _vector(c) if c.along else min(_COLUMNS, _vector(c))
    items = max(1, min(8, _HELD // (vector * c.bytes)))
    if c.along:
        return Scans(_WALKS, _WALKS, vector, items)
    narrow = min(element_bytes(a.element) for a in c.accesses if not a.strides or a.strides[-1])
    return Scans(_WALKS, max(1, min(next_power_of_two(ceil(c.inner / vector)), _SECTOR // (vector * narrow))), vector, items)


def enough(target: Target) -> int:
    """Threads, below which more have a row."""
    return _ENOUGH * target.multiprocessors


def _vector(c: ScanKernel) -> int:
    """Neighbours that are read at once: 16 bytes of what is scanned and at most 8, if they divide a row."""
    vector = max(1, min(8, 16 // c.bytes))
    while c.neighbours % vector:
        vector //= 2
    return vector


def _along(c: ScanKernel, target: Target) -> Scans:
    vector = _vector(c)
    vectors, items = max(1, c.length // vector), max(1, min(8, _HELD // (vector * c.bytes)))
    # Short vectors, as of rows of 18, are several a thread where rows are many: one of 4 bytes keeps a quarter of what memory moves under way.  On an H200
    # 424984 rows of 18 took 13 us in bf16 instead of 33, 500000 of 50 31 instead of 76, in float32 18.6 instead of 33.
    # Single ones of 4 bytes are two a thread: 1000000 of 7 took 27.9 us on an H100, four a thread 43.9, all of a row 33.2, one 42.1.
    asked = 2 if (vector, c.bytes) == (1, 4) else max(1, _ASKED_BYTES // (vector * c.bytes))
    each = asked if c.outer * next_power_of_two(vectors) > target.multiprocessors * THREADS else 1
    lanes = max(min(WARP, next_power_of_two(ceil(vectors / each))), next_power_of_two(ceil(vectors / items)))
    if lanes <= 2 * _WALKS:  # a row is one tile
        lanes = min(lanes, _WALKS)
        # Vectors of 4 bytes as they were read: 500000 rows of 50 in bf16 took 31.4 us instead of 33.4, 1000000 of 30 38.5 and 39.0; of 16 bytes the same.
        s = Scans(max(WARP, lanes, min(256, next_power_of_two(c.outer) * lanes)), lanes, vector, ceil(vectors / lanes), packed=(vector, c.bytes) == (2, 2))
        return s if s.fits(c) else replace(s, packed=False)
    s = Scans(_WALKS, _WALKS, vector, items)
    if c.outer >= _BLOCKS * target.multiprocessors or s.tiles(c) <= FEW:
        return s
    if c.outer < WARP and c.bytes <= 4:
        # Of one row of 64M, in float32 three blocks of 256 threads took 172 us, one of 512 took 193, in bf16 100 and 121; groups of 128 tiles 187 and
        # 135.  Two bytes took 93 in 8 items as they were read, 99 in 6.  Running values of 64 bits take twice the registers: logarithms of sums took 241 us
        # with 5 items, 283 with 4.
        wide = c.combiner.type.width > 32
        s = Scans(256, 256, vector, 5 if wide else 8, resident=3)
        s = replace(s, group=min(64, _group(s, c)), packed=True)
        return s if s.fits(c) else replace(s, packed=False, items=6 if c.bytes == 2 else s.items)
    # Of 64 rows of 1M 512 threads took 155 us in float32 and 256 took 154, in bf16 110 and 80.
    s = Scans(256, 256, vector, min(8, 2 * items))
    return replace(s, group=_group(s, c))


@dataclass(frozen=True)
class _Across:
    """A scan across memory, and how its neighbours are read: ``vector`` at once, of tensors of which the narrowest has elements of ``narrow`` bytes;
    ``widest`` threads have all neighbours, and one has ``items`` vectors of a tile."""

    c: ScanKernel
    target: Target
    vector: int
    narrow: int
    widest: int
    items: int

    def lanes(self, bytes_: int) -> int:
        """Threads that read so many neighbouring bytes of the narrowest tensor."""
        return min(self.widest, max(1, bytes_ // (self.vector * self.narrow)))

    @property
    def single(self) -> bool:
        """Whether nothing is computed in front, and running values take a register each."""
        return isinstance(self.c.source, Access) and self.c.combiner.type.width == 32


def _across(c: ScanKernel, target: Target) -> Scans:
    vector = min(_COLUMNS, _vector(c))
    narrow = min(element_bytes(a.element) for a in c.accesses if not a.strides or a.strides[-1])
    widest = min(WARP, next_power_of_two(ceil(c.inner / vector)))
    a = _Across(c, target, vector, narrow, widest, max(1, min(8, _HELD // (vector * c.bytes))))
    return _by_threads(a) or _by_pairs(a) or _by_single_blocks(a) or _by_walks(a) or _by_groups(a)


def _by_threads(a: _Across) -> Scans | None:
    """A thread has whole rows, if they are short: 4 of a million in float32 took an H200 21.6 us by warps of 16 columns, a copy 7."""
    c = a.c
    if c.length > a.items or c.inner < WARP * a.vector:
        return None
    threads, multiprocessors = min(_WALKS, next_power_of_two(c.inner // a.vector)), a.target.multiprocessors
    while threads > WARP and (c.outer * c.inner < threads * a.vector * multiprocessors or not Scans(threads, threads, a.vector, c.length).fits(c)):
        threads //= 2
    return Scans(threads, threads, a.vector, c.length)


def _by_pairs(a: _Across) -> Scans | None:
    """Blocks walk recurrences of many rows."""
    c, pairs = a.c, Scans(_PAIRS[0], _PAIRS[1], 2, _PAIRS[2])
    many = c.length >= FEW * pairs.tile(c) and pairs.blocks(c) >= 2 * _BLOCKS * a.target.multiprocessors
    return pairs if many and a.vector == 2 and c.bytes == 8 and isinstance(c.combiner, BodyCombiner) else None


def _by_single_blocks(a: _Across) -> Scans | None:
    """Blocks walk whole rows, one a multiprocessor, with a tile ahead."""
    c, multiprocessors = a.c, a.target.multiprocessors
    for bytes_ in (_LINE, _LINE // 2) if c.bytes == 2 else (_LINE,):
        s = Scans(256, a.lanes(bytes_), a.vector, _ALONE[0] // (a.vector * c.bytes), stages=1)
        if a.single and c.bytes <= 4 and _ALONE[1] * multiprocessors <= s.blocks(c) <= multiprocessors and s.tiles(c) >= _ALONE[2] and s.fits(c):
            return s
    return None


def _by_walks(a: _Across) -> Scans | None:
    """Blocks walk whole rows, if these are many or short: of as many neighbours as still gives enough of them."""
    c, multiprocessors = a.c, a.target.multiprocessors
    enough = (_BLOCKS - 0.5) * multiprocessors

    def walks(lanes: int) -> Scans:
        return Scans(max(WARP, min(_WALKS, lanes * next_power_of_two(ceil(c.length / a.items)))), lanes, a.vector, a.items)

    for bytes_, blocks in ((2 * _LINE, 8 * multiprocessors), (_LINE, enough), (_LINE // 2, enough)):
        s = walks(a.lanes(bytes_))
        if s.blocks(c) >= blocks:
            # 8192x8192 in bf16 took 78 us with a tile ahead in shared memory and 100 without, in float32 154 and 146; 256x512x512 in bf16 99 and 71.
            ahead = replace(s, stages=1)
            return ahead if c.bytes == 2 and s.blocks(c) < 2 * _BLOCKS * multiprocessors and ahead.fits(c) else s
    if s.tiles(c) > FEW:
        return None
    # (Of fewer columns, down to a sector of memory, are more blocks, each of which has fewer tiles one after the other: smallest ones of 256x64 from the end in
    # bf16 took an H200 4.5 us by two blocks that walk two tiles.)
    while 1 < s.tiles(c) and s.blocks(c) < multiprocessors and s.lanes * a.vector * a.narrow > _SECTOR:
        s = walks(s.lanes // 2)
    return s


def _by_groups(a: _Across) -> Scans:
    """Blocks look back, in groups of tiles."""
    c, target, vector = a.c, a.target, a.vector
    few = c.outer * c.inner * c.bytes < WARP * _LINE
    if c.bytes == 2 and a.lanes(_LINE) * vector * c.bytes == _LINE and (s := _halves_by_groups(a, few)) is not None:
        return s
    if c.bytes == 8 and a.narrow == 2:
        # Largest numbers of bf16, and where they are: of 65536x1024 334 us with 16 items that wait, 404 with 8 in registers.
        waiting = _waiting(Scans(256, a.lanes(_LINE // 2), vector, _FEW_HALVES[0]), c, target)
        if waiting is not None:
            return waiting
    if few:
        s = Scans(512, a.lanes(2 * _LINE), vector, 8)
        while c.bytes == 4 and s.chains(c) < _CHAINS and s.lanes * vector * a.narrow > _SECTOR:
            s = replace(s, lanes=s.lanes // 2)
        return replace(s, group=_group(s, c))
    s = Scans(256, a.lanes(_LINE), vector, 8)
    s = replace(s, group=_group(s, c))
    if a.single and not c.steps and c.bytes == 4 and s.blocks(c) >= _MANY * target.multiprocessors:
        # Of 65536x1024 in float32 an H100 took 217 us in groups of 4 by three blocks, which have all registers they want; 209 and 213 so.
        return replace(s, resident=4, group=min(128, 2 * s.group))
    return s


def _halves_by_groups(a: _Across, few: bool) -> Scans | None:
    """The same for 16-bit numbers whose columns are whole lines, where they are few or tiles wait in shared memory."""
    s = Scans(256, a.lanes(_LINE), a.vector, _FEW_HALVES[0])
    if s.chains(a.c) < _CHAINS:
        s = replace(s, lanes=s.lanes // 2)
        return replace(s, group=min(_FEW_HALVES[2], _group(s, a.c)))
    waiting = _waiting(replace(s, resident=5), a.c, a.target)
    return waiting or (replace(s, group=_FEW_HALVES[1]) if few else None)


def _waiting(s: Scans, c: ScanKernel, target: Target) -> Scans | None:
    """The same where tiles wait in shared memory, if they are many and it is one tensor's, of whole lines, that what is in front of the scan is cheap to
    compute twice."""
    s = replace(s, group=min(next_power_of_two(s.tiles(c)), max(8, _group(s, c))), stages=1)
    whole = tuple(at for at in c.all_reads if all(at.strides[c.begin:c.end]))
    costly = any(o.operation.name.startswith("math.") for step in c.before for o in step.generic.regions[0].blocks[0].operations)
    many = s.blocks(c) >= _MANY * target.multiprocessors and c.inner % s.columns(c) == 0
    return s if many and not c.gathering and len(whole) == 1 and s.staged(c) == whole and not costly and s.fits(c) else None


def _group(s: Scans, c: ScanKernel) -> int:
    """Tiles of a group, such that memory and not the chain of groups is what takes the time, and that a lane does not ask for many of them."""
    bytes_ = 2 * s.threads * s.vector * s.items * c.bytes * s.chains(c)
    asked = _ASKED * min(WARP, last_power_of_two(s.threads // s.columns(c)))
    return min(128, asked, next_power_of_two(ceil(_HOP / bytes_)), next_power_of_two(s.tiles(c)))
