"""The schedule of reductions over any dimensions: whole vectors are read, by many threads a sum, and by several blocks where sums are few."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from types import ModuleType

from inferno.mlir import func, ir
from inferno.powers import next_power_of_two
from inferno.schedule.analysis.cost import CLOCK, accessed_bytes, extracted_bytes
from inferno.schedule.analysis.unchanged import kept_with, read_by_text
from inferno.schedule.reductions import joined_rows, transposed_sums
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.parser import parse_reduction, parse_varying
from inferno.schedule.reductions.reduction_schedule import TOGETHER, Reductions
from inferno.schedule.rows import rows
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_work import LANES, body_instructions, busy
from inferno.symbolic import Undecided, hint, is_multiple, product
from inferno.target import SECTOR, STATIC_SHARED, WARP, Target

_THREADS = 256  # of a block
_ACROSS = 32  # threads side by side: 512 bytes of a line of memory
_RESIDENT = 4  # blocks of 256 threads that a multiprocessor has at once
# Elements at once where several sums are in float64, whose registers are many, and twice the threads where shared memory is enough: a batch norm of
# 64x256x64x64 with channels last took 115 us in bf16 and 193 in float32, and 130 and 199 by what other sums have.
_WIDE = 16
# Terms of a sum that a thread reads at once: of 256x512x512 along the first and the last dimension an H200 took in bf16 42.9 us with 64 and 32.4 with 32, in
# float32 61.6 with 32 and with 16.
_ALONG = 32
_CLEARLY, _LARGE = 1.25, 1 << 23  # times, of estimates of kernels that move so many bytes
_LAUNCH, _RATE = 0.9, 3e4  # microseconds of a small kernel behind others, bytes a microsecond for each multiprocessor
_ONE = 6e4  # and of a block's, where they are few
# Sums, where their number varies: a maximum of 65536x1024 in bf16 took 80 us by the schedule for 64 rows, and 31 by that for as many.
_VARYING = 1 << 14
_LEAST = 4  # vectors that a thread has before a sum is cut for more blocks, if there is little to compute
# Where what divides a sum leaves vectors of 8 bytes and less: bytes that a thread has of it at least, and threads.  Sums of 250951x258 in float16 took 31.7
# us by 16 threads of 5 and 9 vectors, 77.5 by 64 of 3, of 250951x129 21.1 by 16, 39.1 by 32 and 76.7 by 64, of 24369x1026 in bf16 12.1 by 32 and 30.8 by 256.
_OWN, _TOGETHER = 64, 16
# Bytes of vectors of numbers of 16 bits, up to which threads that have a sum each have twice as many under way, of all tensors: sums of the columns of
# 250951x129 in float16 took 28.0 us, and 32.1.
_NARROW = 4
_UNROLLED = 8  # units of a thread at once where vectors of the example's sizes are not those of all
_TURN = 0.25  # microseconds until what a thread has under way is there and added, however little it is
# Bytes of sums that are asked whether they are faster whole than cut, and bytes a microsecond of their blocks, of neighbours that are different sums and
# terms of one.  An H200 took 1.0 us for sums of 75x90 along the first dimension in bf16, 1.7 cut, the largest of 422x58 1.2 and 2.0, sums of 647x22 1.4
# and 1.9; sums of rows of 4x3317 1.1 and 2.0, 32x2417 1.2 and 1.9, means of 12x9001 in float32 1.4 and 1.6; sums of 963x128 2.1 and 2.3, with 31 KB a
# block.  But for the largest of 2000x16 it took 3.0 and 2.0, with 64 KB a block, and for means of 1341x45, with 40, 0.8 more than cut.
# Of what takes much to compute more bytes are asked: tanh(gelu(tanh(tanh(x * y)))) of 39x10752 in float16 took 4.2 us whole, and 7.2 cut in two.
# So are more of what lies along the sums: the largest of rows of 100x30001 in bf16 took an H200 2.3 us whole, by 1024 threads each, and 3.5 cut.
_SMALL, _COMPUTED, _ALONG_SMALL, _WHOLE = 1 << 19, 1 << 21, 1 << 24, {False: 3e4, True: 4e4}
_MOST_THREADS = 1024  # of a block that has sums whole
_SCALED = 4  # lanes of a vector whose sums of exponentials are scaled when their largest grows, for which a thread has few registers
# Numbers from which twice as many threads read two of 4 bytes each by themselves, and not eight: sums of 4099x4099 along the first dimension in float32 took an
# H200 30.3 us by 256 threads, 20.0 so (torch.compile 24).
_SINGLE = 1 << 22
# Instructions of a term from which a thread has few at once: the largest of tanh(exp(x - m) / s) of 1998x18176 in bf16 took 181 registers and 103 us.
# So do vectors: sums of the columns of 9859x202 in bf16, of what is chosen of a quotient times another, took an H200 10.1 us by 8 vectors of 2 and 7.5 by 4,
# of silu(x) * y of 3000x1001 8.8 and 8.1 of 1, of 20000x768 28.3 and 22.5 of 4.
_MUCH, _FEW, _FEW_VECTORS = 24, 16, 4
# And from which a thread has one vector at once, of two: the mean of a loss of two boxes' overlap (two arcus tangents, six quotients, 14 tensors) of 262144
# in float32 took 255 registers and 23 us by 4 vectors of 4, and 36 and 6.4 so.
_VERY_MUCH, _SHORT = 100, 2
# Columns of rows that are joined where little is computed of each point, and bytes from which more are: sums of 21323x202 in bf16 took an H200 4.0 us as they
# are and 5.1 joined, of 158415x202 21.1 and 22.1, in float32 4.5 and 4.8, the largest's places 4.4 and 5.4, of 158415x202 27.8 and 20.1; of silu(x) * y 10.9
# and 8.2.
_FEW_COLUMNS, _MANY_ROWS = 128, 1 << 25
_RUNNING = 20  # registers of a thread's running values, of joined rows: three sums of float16 by 8 lanes had 40, and spilled 216 bytes
# Threads of a block then, where sums are neighbours and blocks are few: by 256 a multiprocessor the sums of 215x34688 in bf16, of a norm that is flipped, gated
# and squashed, took an H200 51.2 us, and torch.compile's 22.
_COMPUTING = 512
# What small sums take besides: threads of a multiprocessor that have an instruction of each of its four schedulers every cycle, if those of one warp wait four
# cycles for each other; instructions of a load, of a term that is compared and whose place is chosen, and of a word that threads exchange; cycles of a barrier
# with the stores in front of it and the loads behind, and of a shuffle.  The places of the largest of 197x32 took an H200 2.7 us more than a launch by 256
# threads that had four terms of eight columns each, and met three times.
_FILLED, _LOADED, _COMPARED, _EXCHANGED, _MET, _SHUFFLED = 512, 3, 5, 6, 100, 30


def choose(kernel: func.FuncOp, target: Target) -> Reductions | None:
    """A schedule if ``kernel`` is one reduction of a kind that can be generated."""
    found = planned(kernel, target)
    if found is None:
        return None
    c, s = found
    return None if c.taken and not _is_faster(kernel, s, c, target) else s


@read_by_text
def planned(kernel: func.FuncOp, target: Target) -> tuple[ReductionKernel, Reductions] | None:
    """What ``kernel`` computes, of any sizes, and the schedule that these ask for."""
    if (c := read(kernel, target)) is not None:
        return c, pick(c, target)
    try:
        c = read_sized(kernel, target)
        return None if c is None else (c, pick_sized(c, target))
    except Undecided:
        return None  # what the schedule rests on depends on the call


def read_sized(kernel: func.FuncOp, target: Target) -> ReductionKernel | None:
    """What ``kernel`` computes where it has sums of lengths that vary, or neighbours in memory that are different ones of a number that does."""
    return parse_varying(kernel) if target.kind == "nvptx" else None


def pick_sized(c: ReductionKernel, target: Target) -> Reductions:
    """The schedule that memory asks for of sizes like the example's, with vectors that divide neighbours of all sizes, or leave few of all."""
    sizes = [max(1, hint(x)) for x in c.sizes]
    if c.is_flat:
        sizes = [1] * len(sizes)
        sizes[c.terms[0][-1]] = 8 * ceil(hint(c.length) / 8)
    own = _by_size(replace(c, sizes=tuple(sizes)), target)
    if own.rows and not own.fits(c):
        own = _by_size(replace(c, sizes=tuple(sizes)), target, join=False)
    vector = own.vector
    while not own.takes(c, vector):
        vector //= 2
    return replace(own, vector=vector, unroll=min(_UNROLLED, own.unroll * own.vector // vector), interleaved=False)


def _is_faster(kernel: func.FuncOp, s: Reductions, c: ReductionKernel, target: Target) -> bool:
    """Whether every other generator that takes a kernel with maps in front of its sums takes clearly longer, and not by launches: those that keep rows read
    them once, too."""
    large, others = _moved(c) > (_SMALL if c.count == 1 else _LARGE), _others(kernel, target)  # one row is a block's or a cluster's
    return not others or (large and _CLEARLY * estimate(s, c, target) < _least(others, target))


def _takes_least(kernel: func.FuncOp, s: Reductions, c: ReductionKernel, target: Target) -> bool:
    """Whether large sums side by side that are not cut, with a map behind them, take less than by a generator that keeps rows: means of 2000x16386 along the
    first dimension were two kernels."""
    return not c.along and _moved(c) > _LARGE and estimate(s, c, target) < _least(_others(kernel, target), target)


def _others(kernel: func.FuncOp, target: Target) -> list[tuple[ModuleType, RowKernel]]:
    """The other generators' modules that take a kernel, and what each reads it as."""
    from inferno.schedule.rows import columns, grid_rows, sized_columns, sized_rows

    read = ((form, form.read(kernel, target)) for form in (columns, sized_columns, grid_rows, rows, sized_rows))
    return [(form, c) for form, c in read if c is not None]


def _least(others: Sequence[tuple[ModuleType, RowKernel]], target: Target) -> float:
    """Microseconds of the fastest."""
    return min((form.estimate(form.pick(c, target), c, target) for form, c in others), default=float("inf"))


def read(kernel: func.FuncOp, target: Target) -> ReductionKernel | None:
    """What ``kernel`` computes; with a map behind it where that is of one sum or of sums that are cut, which a kernel puts together in any case, and takes
    less time than rows of several blocks, or where no kernel that keeps rows takes it, as one that multiplies two factors."""
    c = parse_reduction(kernel) if target.kind == "nvptx" else None
    if c is None or c.after is None:
        return c
    s = pick(c, target)
    if len(c.generic.results) > 1:
        return c  # which is made for this generator
    if not isinstance(c.count, int):
        return None
    if c.count > 1 and _by_size(c, target).cuts(c) == 1:
        return c if _is_of_two(c) or (c.reads and rows.read(kernel, target) is None) or _takes_least(kernel, s, c, target) else None
    other = rows.read(kernel, target)
    return c if other is None or estimate(s, c, target) < rows.estimate(rows.pick(other, target), other, target) else None


def _is_of_two(c: ReductionKernel) -> bool:
    """Whether terms are products of two factors, each of which lacks dimensions of the other: others have no rows of them."""
    walked = [{d for d, x in enumerate(a.strides) if x and c.sizes[d] != 1} for a in c.sources if a is not None]
    every = {d for run in (*c.points, *c.terms) for d in run}
    return len(walked) == 2 and any(w != every for w in walked)


@kept_with
def pick(c: ReductionKernel, target: Target, join: bool = True) -> Reductions:
    """The schedule that sizes ask for, which may ``join`` rows.  Of small sums that a second kernel puts together from chunks, or of which few blocks have
    much to compute, others are asked that cut nothing."""
    own = _by_size(c, target, join)
    small = _ALONG_SMALL if c.along else _COMPUTED if _computes_much(c) else _SMALL
    if own.transposed or not isinstance(c.count, int) or c.count == 1 or own.tiles(c) >= target.multiprocessors or _moved(c) > small:
        return own
    # (Of equal ones that of fewer turns.)
    whole = min(_whole(own, c), key=lambda s: (_time(s, c, target, _ONE), _turns(s, c)), default=own)
    return min((own, whole), key=lambda s: _time(s, c, target, _WHOLE[c.along]))


def _computes_much(c: ReductionKernel) -> bool:
    return body_instructions(c.generic) >= _MUCH


def _whole(own: Reductions, c: ReductionKernel) -> list[Reductions]:
    """Schedules of sums that are not cut: of more threads for each, of fewer sums side by side, and of narrower vectors, as far as memory moves them well."""
    found, vector = [], own.vector
    while vector:
        across = own.across * (1 if c.along else min(own.vector // vector, max(1, _ACROSS // own.across)))
        while across > 0:
            along = own.along
            while along * across < 32:
                along *= 2
            while along * across <= _MOST_THREADS:
                s = replace(own, across=across, along=along, vector=vector, chunks=1)
                s = replace(s, unroll=min(own.unroll, max(1, ceil(s.units(c) / along))))
                if s.fits(c) and s.shared_bytes(c) <= STATIC_SHARED:
                    found.append(s)
                along *= 2
            across = 0 if not c.along and across * vector * c.bytes <= SECTOR else across // 2
        vector = 0 if c.along or own.rows else vector // 2
    return found


def _by_size(c: ReductionKernel, target: Target, join: bool = True) -> Reductions:
    """The schedule that memory asks for; sums of a number that varies are taken to be many, and are not cut."""
    if not isinstance(c.count, int):
        return replace(_by_size(replace(c, sizes=tuple(x if isinstance(x, int) else max(_VARYING, hint(x)) for x in c.sizes)), target, join), chunks=1)
    vector = whole = max(1, min(8, 16 // c.bytes))
    while c.neighbours % vector:
        vector //= 2
    most, cut = 4 if c.extremum is not None else 8, vector < whole
    if c.exponentials is not None:
        vector = min(vector, _SCALED)
    long = _computes_much(c)
    if long and body_instructions(c.generic) >= _VERY_MUCH:
        vector, most = min(vector, _SHORT), 1
    most = max(1, min(most, _FEW // vector, _FEW_VECTORS)) if long else most
    narrow = not long and cut and not c.along and len(c.combiners) == 1 and vector * c.bytes <= _NARROW and c.bytes < 4
    wide = c.exponentials is None and len(c.combiners) > 1 and any(isinstance(k.type, ir.F64Type) for k in c.combiners)
    most = min(most, _WIDE // vector) if wide else most
    if (transposed := _transposed(c, target)) is not None:
        return transposed
    if c.along:
        most, units, along = min(most, _ALONG // vector), c.length // vector, _threads_along(c, vector, cut, target)
        if c.count == 1 and along == _THREADS and units <= 32 * _THREADS:
            return Reductions(1, min(1024, next_power_of_two(ceil(units / 4))), vector, 4)
        s = Reductions(max(1, _THREADS // along), along, vector, min(most, max(1, ceil(units / along))))
        while s.across > 1 and s.tiles(c) < target.multiprocessors and s.threads > WARP:
            s = Reductions(s.across // 2, s.along, vector, s.unroll)
    else:
        s = _sums_side_by_side(c, vector, most, long, narrow, wide, target)
        if join and _moved(c) > _COMPUTED and (hint(c.inner) <= _FEW_COLUMNS or long or _joins_many(s, c)):
            s = _joined(s, c, whole, long, wide)
    return _cut(s, c, long, target)


def _threads_along(c: ReductionKernel, vector: int, cut: bool, target: Target) -> int:
    """Threads of a sum whose terms are neighbours in memory; ``cut``: vectors are narrower than an access may be.

    Where sums are few a thread has several vectors under way all the same, down to a warp: more warps take longer to put together what they have.  Sums of
    1000x250 took an H200 1.43 us in float32 by 128 threads and 1.17 by 32, in bf16 1.48 and 0.95, of 173x1024 in bf16 1.05 and 0.92, of 32x512 0.86 and 0.80;
    a logarithm of exponentials' sum of 173x1024 in float16 1.74 by 256 and 1.25 by 64.
    """
    units = c.length // vector
    along = min(_THREADS, next_power_of_two(ceil(units / _LEAST)))
    if cut and (width := vector * c.bytes) <= 8:
        wanted = next_power_of_two(ceil(units * width / _OWN * 3 / 4))  # rather a few vectors more than a power of two says than most threads idle
        along = min(along, max(wanted, _TOGETHER))
    if c.count * along < _THREADS * target.multiprocessors:  # few sums: more threads each
        several = c.count > 1 and not _computes_much(c)
        along = min(_THREADS, next_power_of_two(max(ceil(units / _LEAST), min(WARP, units)) if several else units))
    return along


def _sums_side_by_side(c: ReductionKernel, vector: int, most: int, long: bool, narrow: bool, wide: bool, target: Target) -> Reductions:
    """The schedule of sums that are neighbours in memory: threads side by side, and several along each sum.  ``most``: vectors at once; ``long``: bodies that
    compute much; ``narrow``: vectors of few bytes; ``wide``: several running values, some of them of float64."""
    single = vector == 1 and c.bytes == 4 and not long and c.count * c.length >= _SINGLE
    across = min(_ACROSS * (2 if single else 1), next_power_of_two(c.inner // vector))
    along = min(_THREADS * (2 if wide or single else 1) // across, next_power_of_two(ceil(c.length / _LEAST)))
    while along * across < 32:
        along *= 2
    tensors = len({a for a in c.sources if a is not None and hint(product(a.shape)) >= c.count * c.length})
    most = max(1, 2 * most // max(1, tensors)) if narrow else most
    s = Reductions(across, along, vector, min(2 if single else most, max(1, ceil(c.length / along))))
    if long and s.vector > 4:
        s = replace(s, vector=4, unroll=min(2 * s.unroll, max(1, ceil(c.length / s.along))))
    s = _spanning(s, c, target)
    while long and s.threads < _COMPUTING and s.along < c.length and s.tiles(c) * s.threads < 4 * _THREADS * target.multiprocessors:
        s = replace(s, along=2 * s.along, unroll=min(s.unroll, max(1, ceil(c.length / (2 * s.along)))))
    while s.shared_bytes(c) > STATIC_SHARED and s.threads > 32:
        s = replace(s, along=s.along // 2)
    while s.shared_bytes(c) > STATIC_SHARED:
        s = replace(s, vector=s.vector // 2)
    return s


def _spanning(s: Reductions, c: ReductionKernel, target: Target) -> Reductions:
    """With threads side by side that go on where neighbours end, as long as a block of these has few: sums of 8 terms of 64x56 rows of 56 columns had 32.  Of
    neighbours that are less than a sector those along the sums read the rest of it."""
    while c.inner * c.bytes >= SECTOR:
        more = replace(s, across=2 * max(s.across, next_power_of_two(ceil(c.inner / s.vector))))
        if more.threads > _THREADS or not more.spans(c) or more.tiles(c) < target.multiprocessors:
            return s
        s = more
    return s


def _cut(s: Reductions, c: ReductionKernel, long: bool, target: Target) -> Reductions:
    """The schedule with sums in chunks, each of another block, where there are fewer tiles than multiprocessors."""
    tiles, wanted = s.tiles(c), _RESIDENT * target.multiprocessors * _THREADS // max(_THREADS, s.threads)
    if s.rows:
        wanted = target.multiprocessors * joined_rows.resident(s.threads)
    chunks = min(wanted // tiles, s.units(c) // (s.along * (1 if long else min(s.unroll, _LEAST))))
    if tiles >= target.multiprocessors or chunks < 2:
        return s
    share = replace(s, chunks=chunks).share(c)
    if s.rows:
        s = replace(s, unroll=joined_rows.even(s.unroll, ceil(share / s.along)))
    # Of one sum all blocks read what lies together at the same time: norms of 8192x8192 took an H100 93.6 us in float32 and 48.1 in bf16, and so 92.1 and 47.0.
    together = c.count == 1 and c.along and c.extremum is None and c.exponentials is None
    return replace(s, chunks=ceil(s.units(c) / share), interleaved=together)


def _transposed(c: ReductionKernel, target: Target) -> Reductions | None:
    """A schedule whose warps read pieces of whole sectors of tensors that lie differently."""
    if (run := transposed_sums.transposed_run(c)) is None:
        return None
    vector = transposed_sums.LANES
    while vector > 1 and not is_multiple(c.neighbours, vector):
        vector //= 2
    across = min(transposed_sums.ACROSS, next_power_of_two(c.size(run)))
    s = Reductions(across, _THREADS // across, vector, transposed_sums.LANES // vector, transposed=True)
    while across > 1 and not transposed_sums.parts(c, across):
        across //= 2
        s = replace(s, across=across, along=_THREADS // across)
    if across < transposed_sums.FEW:
        return None
    chunks = min(transposed_sums.BLOCKS * target.multiprocessors // s.tiles(c), s.units(c) // (s.along * s.unroll))
    return s if chunks < 2 else replace(s, chunks=ceil(s.units(c) / replace(s, chunks=chunks).share(c)))


def _joins_many(s: Reductions, c: ReductionKernel) -> bool:
    """Whether rows of more columns are joined, of whose sums each block leaves many: of many rows, if places are looked for or less than words are read."""
    return _moved(c) > _MANY_ROWS and (c.extremum is not None or s.vector * c.bytes < _NARROW)


def _joined(s: Reductions, c: ReductionKernel, whole: int, long: bool, wide: bool) -> Reductions:
    """With rows that are read as one, and under way what whole vectors have elsewhere, of all tensors together; or ``s``."""
    vector, most = min(whole, _SCALED if long else whole), 4 if c.extremum is not None else 8
    while vector > 1 and vector * joined_rows.words(c) > _RUNNING:
        vector //= 2
    most = max(1, min(most, _FEW // vector, _FEW_VECTORS)) if long else min(most, _WIDE // vector) if wide else most
    found = joined_rows.joined(s, c, vector, most)
    while found.rows and found.shared_bytes(c) > STATIC_SHARED and found.along > 1:
        found = replace(found, along=found.along - 1)
    return found if found.shared_bytes(c) <= STATIC_SHARED else s


def estimate(s: Reductions, c: ReductionKernel, target: Target) -> float:
    """Microseconds: what a read of all of it takes, what threads meet for, and a second kernel where sums are cut."""
    reading = _moved(c) / min(_RATE * target.multiprocessors, _ONE * hint(s.tiles(c)) * s.chunks)
    return _LAUNCH * (1 + (s.cuts(c) > 1)) + reading + _meeting(s, c)


def _time(s: Reductions, c: ReductionKernel, target: Target, one: float) -> float:
    """Microseconds of small sums, whose blocks read ``one`` byte a microsecond each: that, their arithmetic or the turns of a thread, whichever is longest,
    what threads meet for, and a second kernel where they are cut."""
    blocks = s.tiles(c) * s.chunks
    longest = max(_moved(c) / (one * blocks), _computing(s, c, blocks, target), _TURN * _turns(s, c))
    return _LAUNCH * (1 + (s.cuts(c) > 1)) + longest + _meeting(s, c)


def _turns(s: Reductions, c: ReductionKernel) -> int:
    return ceil(s.share(c) / (s.along * s.unroll))


def _computing(s: Reductions, c: ReductionKernel, blocks: int, target: Target) -> float:
    """Microseconds of the arithmetic of so many blocks, whose warps have an instruction every few cycles each."""
    loads = _LOADED * len({a for a in c.sources if a is not None}) / s.vector
    instructions = body_instructions(c.generic) + loads + (_COMPARED if c.extremum is not None else 0)
    threads = s.threads * max(1.0, blocks / target.multiprocessors)
    return busy(c.count * c.length * instructions, target) * max(1.0, target.multiprocessors / blocks) * max(1.0, _FILLED / threads)


def _meeting(s: Reductions, c: ReductionKernel) -> float:
    """Microseconds until the threads along sums side by side have put these together, those of a warp by shuffles, then rows in shared memory, halves of
    them at a time."""
    if c.along or s.along == 1:
        return 0.0
    left, each, exchanged, lanes, turns = s.along // s.beside, _EXCHANGED * joined_rows.words(c), 0, s.vector, 0
    while s.beside >> turns > 1:
        lanes, turns = max(1, lanes // 2), turns + 1
        exchanged += lanes
    cycles = turns * _SHUFFLED + each * exchanged * ceil(s.threads / LANES) + (_MET if left > 1 else 0)
    while left > TOGETHER:
        left //= 2
        cycles += _MET + each * s.vector * ceil(s.across * left / LANES)
    return (cycles + each * left) / CLOCK


def _moved(c: ReductionKernel) -> int:
    """Bytes, of tensors of which a part is read those of the part; of what pieces read, each tensor once."""
    known = {a for a in (*c.sources, *c.results, *c.stored) if a is not None}
    return sum(accessed_bytes(a, c.sizes) for a in known) + min(extracted_bytes(c.generic), sum({a.argument: hint(a.bytes) for a in c.tables}.values()))
