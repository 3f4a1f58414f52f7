"""Kernels that go over rows: softmax, norms, and whatever else is maps, reductions and scans of the same rows, each row read once and written once.

Some threads of a warp, a block or a cluster of blocks have a row, each every so many vectors of it.  Operations go in phases, which end with
reductions and scans (``row_scans.py``): each thread reduces its own part in registers, shuffles bring a warp's parts together, shared memory those of
warps, and distributed shared memory those of blocks; all reductions of a phase share a barrier.  Rows that do not fit the registers are read again in each
phase.
"""

from dataclasses import dataclass, field, replace

from inferno.codegen.builders.elements import load
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import gpu_function, index_width, integers_for, parameters_of, stored_type
from inferno.codegen.builders.integers import Integer, Integers
from inferno.codegen.builders.lane_patterns import Patterns
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.nvvm.cluster import await_cluster
from inferno.codegen.nvvm.cluster_exchange import ClusterExchange, slot_type
from inferno.codegen.rows.gathered_results import GatheredResults
from inferno.codegen.rows.kept_vectors import KeptVectors
from inferno.codegen.rows.online_sums import scaled
from inferno.codegen.rows.persistent_rows import PersistentRows
from inferno.codegen.rows.ragged_rows import RaggedRows
from inferno.codegen.rows.row_accesses import RowAccesses
from inferno.codegen.rows.row_divisions import multiply_by_reciprocals
from inferno.codegen.rows.row_exponentials import approximate_exponentials
from inferno.codegen.rows.row_scans import RowScans
from inferno.codegen.rows.row_totals import RowTotals
from inferno.codegen.rows.row_turns import RowTurns
from inferno.codegen.rows.row_values import RowValues, zero
from inferno.codegen.rows.sized_rows import SizedRows
from inferno.errors import CompileError
from inferno.mlir import func, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows import sized_rows
from inferno.schedule.rows.gathered_results import GATHERED_APART, can_gather, written_apart
from inferno.schedule.rows.kept_rows import can_persist, turning_phases
from inferno.schedule.rows.kernel import RowKernel
from inferno.schedule.rows.row_lanes import can_be_ragged
from inferno.schedule.rows.row_maxima import OnlineSum, online_sums
from inferno.schedule.rows.row_schedule import Rows
from inferno.schedule.rows.row_steps import RowStep
from inferno.schedule.rows.rows import can_compute_once, read
from inferno.symbolic import is_multiple, reach
from inferno.target import Target


def generate(kernel: func.FuncOp, schedule: Rows, target: Target) -> None:
    """Add the ``gpu.module`` of a kernel that goes over rows, and make ``kernel`` its launcher."""
    c, s, name = read(kernel, target) or sized_rows.read(kernel, target), schedule, kernel.name.value
    if c is None:
        raise CompileError(f"@{name} does not go over rows")
    _check(name, s, c)
    online = online_sums(c) if s.online and not s.held else {}
    # Exponentials that are summed with the largest point are apart from those that are written, or that sums are scaled by.
    copies = {x.exponential: copy_of(x.made) for sums in online.values() for x in sums if x.made is not None}
    for step in (*c.steps, *copies.values()):
        if step.scans is not None:
            expand_math(step.generic)
            continue
        if s.reciprocals:
            multiply_by_reciprocals(step, c)
        if s.approximate:
            approximate_exponentials(step, c, any(step is x for x in copies.values()))
        recognise_maximum(step.generic)
        expand_math(step.generic)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    points = reach(c.count * c.width) if c.varies else 2 * c.count * c.width
    width = index_width(buffers, s.blocks(c) * s.threads, points)
    places, shared = _exchanged(c, s)
    gathered = written_apart(c) if s.gathers else []
    shared += [(c.width * (s.threads // s.across + GATHERED_APART), stored_type(a.element)) for a in gathered]
    kept = s.kept_bytes(c) if not s.held else 0
    with gpu_function(kernel, buffers, s.threads, shared, s.resident, s.cluster, dynamic=kept > 0) as function:
        vectors = KeptVectors(s.keeps(c), s, function.dynamic, known=set(s.keeps(c)) if s.persistent else set()) if kept else None
        make = Emitter if isinstance(c.width, int) else _SizedEmitter
        make(c, s, integers_for(kernel, width, function.buffers), function.buffers, function.shared, places, vectors, online, copies).emit()
    with launcher(kernel) as arguments:
        launch(f"{name}_gpu", name, [parameter(a) for a in arguments], (s.blocks(c), 1, 1), (s.threads, 1, 1), (s.cluster, 1, 1), kept)


def _check(name: str, s: Rows, c: RowKernel) -> None:
    """CompileError where the schedule is not one for these rows."""
    sized = not isinstance(c.width, int)
    whole = sized_rows.fits(s, c) if sized else can_be_ragged(c, s.vector) if s.ragged else c.width % s.vector == 0
    if s.threads % s.across or s.threads % 32 or s.across & (s.across - 1) or not whole or (s.cluster > 1 and s.across != s.threads):
        raise CompileError(f"@{name}: {s} does not fit {c.count} rows of {c.width}")
    if c.scans and not (s.held and s.sends == (s.cluster > 1)):
        raise CompileError(f"@{name}: {s} scans no rows")
    if c.once and not can_compute_once(s):
        raise CompileError(f"@{name}: {s} computes again what is compared with what it came to")
    if c.varies and (s.persistent or s.ragged) and not sized:
        raise CompileError(f"@{name}: {s} is for a known number of rows")
    if (s.persistent or s.common) and not (s.persistent and can_persist(s, c)):
        raise CompileError(f"@{name}: {s} does not keep what is read of {c.count} rows of {c.width}")
    if s.gathers and not can_gather(s, c):
        raise CompileError(f"@{name}: {s} has no place for what {c.count} rows of {c.width} are to be put together in")


def _exchanged(c: RowKernel, s: Rows) -> tuple[dict[int, int], list[tuple[int, ir.Type]]]:
    """Of each reduction's and scan's result the number of its array; and (elements, type) of the arrays in shared memory by which threads exchange their
    parts: those of warps, one a result, likewise those of a cluster's blocks, and these blocks' barriers."""
    reduced = [(v, combiner) for step in c.steps for v, combiner in zip(step.results, step.combiners) if combiner is not None]
    reduced += [(step.results[0], step.scans) for step in c.scans]
    count = s.threads // 32 if s.across > 32 else 0
    shared = [(max(1, count), stored_type(combiner.total)) for _, combiner in reduced] if count else []
    if s.cluster > 1:
        sets = 2 if s.persistent else 1
        shared += [(sets * s.cluster, slot_type(k.total)) if s.sends else (1, stored_type(k.total)) for _, k in reduced]
        shared += [(sets * c.phases * (2 if c.scans else 1), ir.IntegerType.get_signless(64))] if s.sends else []
    return {v: i for i, (v, _) in enumerate(reduced)}, shared


@dataclass
class Emitter(RowTurns, RowValues, RowAccesses, RaggedRows, PersistentRows, RowTotals, RowScans, GatheredResults):
    """``_points`` are what is known of a chunk by (value or access, chunk), ``_rows`` what is known of rows, ``numbers`` what lanes are that count points."""

    c: RowKernel
    s: Rows
    ints: Integers
    buffers: list[ir.Value]
    shared: list[ir.Value]
    places: dict[int, int]
    kept: KeptVectors | None = None
    online: dict[int, list[OnlineSum]] = field(default_factory=dict)
    copies: dict[int, RowStep] = field(default_factory=dict)  # by what they make
    _makers: dict[int, RowStep] = field(default_factory=dict)  # instead of the kernel's own
    _taken: dict[int, tuple[ir.Value, ir.Value]] = field(default_factory=dict)  # a thread's part of such a sum, and the maximum it is relative to
    _points: dict[tuple[int | Access, object], ir.Value] = field(default_factory=dict)
    _rows: dict[int | Access, ir.Value] = field(default_factory=dict)
    _chunk: dict[object, tuple[Integer, ir.Value | None]] = field(default_factory=dict)
    _fronts: dict[tuple[int, object], ir.Value | None] = field(default_factory=dict)
    numbers: Patterns = field(default_factory=lambda: Patterns({}))
    gathered: dict[Access, ir.Value] = field(default_factory=dict)  # arrays in shared memory, of what is written by way of them

    def emit(self) -> None:
        ints, c, s = self.ints, self.c, self.s
        thread = ints.thread(s.threads)
        block = ints.block()
        self.thread, self.rank = thread, ints.rem(block, s.cluster)
        per_block = s.threads // s.across
        self.lane = ints.rem(thread, s.across)
        group = ints.div(block, s.cluster)
        if s.gathers:
            self.begin_gathering()
        if s.backwards:
            group = ints.sub(s.blocks(c) // s.cluster - 1, group)
        row = ints.add(ints.mul(group, per_block), ints.div(thread, s.across) if per_block > 1 else 0)
        self.mine = None
        if not is_multiple(c.count, per_block):  # threads of no row help with the last one, for all must reach the barriers, and write nothing
            self.mine = ints.less(row, c.count)
            row = ints.min(row, c.count - 1)
        self.first = ints.add(ints.mul(self.rank, s.threads), self.lane)  # of the row's vectors
        self.stride = s.across * s.cluster
        if c.scans:
            self.first, self.stride = self.in_order()
        self.exchange, self.turning = None, turning_phases(s, c)
        if s.cluster > 1 and s.sends:
            own = len(self.shared) - 1 - len(self.places)
            self.exchange = ClusterExchange(ints, s.cluster, thread, self.rank, self.shared[own:-1], self.shared[-1])
            self.exchange.begin(_exchanges(c, s), 2 if s.persistent else 1)
        if s.persistent:
            self.all_rows(group)
            return
        self.begin_row(row)
        self.one_row()
        if s.gathers:
            self.write_gathered(ints.mul(group, per_block))
        if s.cluster > 1 and not s.sends:
            await_cluster()  # nobody ends while others read what it has

    def begin_row(self, number: Integer) -> None:
        """Take a row's coordinates."""
        self.row = dict(zip(self.c.rows, self.ints.split(number, [self.c.sizes[d] for d in self.c.rows])))
        if self.s.ragged:
            self.begin_ragged()

    def one_row(self) -> None:
        """All that is computed of it."""
        c, ints = self.c, self.ints
        for at in dict.fromkeys(a for step in c.steps for a in step.extras if not c.wide(a)):
            self._rows[at] = load(ints, self.buffers[at.argument], self.row_offset(at), at.element)
        for phase in range(c.phases):
            self.phase(phase)

    def phase(self, phase: int) -> None:
        c = self.c
        self.begin_phase(phase)
        for step in c.steps:
            if step.per_row and step.phase == phase:
                self.per_row(step)
        self.write_rows(phase)
        reducing, running = self.reductions(phase)
        stored = [d for d in c.destinations if not c.values[d.source].per_row and c.computed(d.source) == phase]
        scanning = [step for step in c.steps if step.walks and step.phase == phase]
        if not running and not stored and not scanning:
            return
        taken = self.online.get(phase - 1)
        values = [scaled(x, *self._taken[x.result], self._rows[x.base]) for x in taken] if taken else self.all_turns(reducing, running, stored)
        if running:
            self.finish(reducing, running, dict(zip((n for n, _ in running), values)))
        if scanning:
            self.scan(scanning)

    def begin_phase(self, phase: int) -> None:
        every = dict.fromkeys(a for step in self.c.steps for a in step.extras)
        self.now, self.reads = phase, [a for a in every if a in self.c.needed(phase)[0]]

    def reductions(self, phase: int) -> tuple[list[RowStep], list[tuple[int, Combiner]]]:
        """What a phase reduces, and with what."""
        reducing = [step for step in self.c.steps if step.reduces and step.phase == phase]
        return reducing, [(n, k) for step in reducing for n, k in zip(step.results, step.combiners) if k is not None]

    def per_row(self, step: RowStep) -> None:
        results = self.inlined(step, None, [zero() if d is None else self.ints.index(self.row[d]) for d in step.indices], 0)
        self._rows.update({n: r for n, r in zip(step.results, results) if n is not None})


class _SizedEmitter(SizedRows, Emitter):
    """Of rows whose length varies."""


def _exchanges(c: RowKernel, s: Rows) -> list[int]:
    """The bytes that blocks of a cluster get of each other: for the reductions of each phase, and behind these for the scans of each, where there are some."""
    met = [[k for step in c.steps if step.phase == p for k in step.combiners if k is not None] for p in range(c.phases)]
    if c.scans:
        met += [[step.scans for step in c.scans if step.phase == p] for p in range(c.phases)]
    return [s.cluster * sum(slot_type(k.total).width // 8 for k in each) for each in met]


def copy_of(step: RowStep) -> RowStep:
    """The same, by a body of its own."""
    with ir.InsertionPoint(step.generic):
        return replace(step, generic=step.generic.clone())
