"""On a GPU, fuse kernels that go over the same rows (softmax, norms, running sums beside these) into one, which reads each row once.

A kernel begins a group; what reads the group's results, or reduces or scans what the group reads, joins it as long as all is maps, reductions and scans of
the same rows, and so do reductions and scans that make something of it.  It is done where the estimate of the new kernel is below the sum of those that it
stands for: it saves passes over memory, but the threads of a row wait for each other, and long rows that are few leave multiprocessors without work.  (On an
H200 a softmax of 16384x8192 in bf16 took 150 us instead of 625, a LayerNorm of 131072x1024 131 instead of 446, an RMSNorm of a row of 1M 12.4 instead of 4.4.)
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from types import ModuleType

from inferno.mlir import func, ir, owner, walk
from inferno.passes.generics import REDUCTION, is_reduction, kinds, maps
from inferno.passes.programs import callee, readers, root_of, wants_library
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.analysis.unchanged import unchanged
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.passes.calls import in_order, inputs_of
from inferno.schedule.passes.changed_places import changes_places
from inferno.schedule.passes.edges import Edges, edges_by_symbols, pattern, wait_for_each_other
from inferno.schedule.passes.explain_boundaries import note
from inferno.schedule.passes.kernel_times import alone, cached, kind_of, moved_bytes
from inferno.schedule.passes.merge_calls import defer, joint_name, merged_kernel, replace_calls
from inferno.schedule.passes.rewrite import Rewrite, rewrite_calls
from inferno.schedule.passes.transpose_results import transpose_results
from inferno.schedule.passes.weighted_rows import take_apart
from inferno.schedule.reductions import reductions
from inferno.schedule.rows import columns, grid_rows, rows, sized_columns, sized_rows, transposed_rows
from inferno.schedule.rows.gathered_results import written_apart
from inferno.schedule.rows.row_schedule import row_bytes
from inferno.schedule.rows.row_sectors import spread
from inferno.schedule.scans import scans
from inferno.symbolic import Undecided, hint, product
from inferno.target import Target, find_target

# Kernels that become one: five norms and softmaxes of 4x448 are 20, which an H200 took 2.5 us, by two kernels of at most 16 3.2, of 1000x1024 4.4 and 7.2.
_MOST = 48
_SHORT = 1 << 16  # terms; a sum of 100060 losses was off by 2.2e-7 of itself where 1.2e-7 is allowed, and is not in parts
_LITTLE = 16  # times: of what a group moves, beside a map that goes along; who else reads that is another kernel, as the count of targets of a loss
_TRIED = "rows_tried"  # a kernel that is only looked at: for a name of its own the whole module would be asked
_CACHED = 1 << 23  # bytes that lie in the L2 cache, where sectors are read again at little cost


@dataclass
class _Program(Rewrite):
    """A program, and what is asked of it again and again.

    * ``makers``: what makes the operands of operations of ``main``; ``meeting``: the reductions and scans that read a value.
    * of kernels by their names, ``kinds``: what is known of them; ``moves``: what they move; ``times``: what they take by themselves; ``permuting``:
      whether maps change the order of dimensions.  ``known``: the same of calls.
    * of several calls as one kernel, by their patterns, since the layers of a model ask for the same ones, ``forms``: who takes it, and what it is read
      as; ``estimates``, where they are needed, and whether they are ``scans``; ``few``: of few long rows by all multiprocessors; ``apart``, ``cut``: whether
      rows lie both ways, or results are written in parts.

    ``always``: wherever that can be.
    """

    always: bool
    makers: dict[ir.Operation, list[ir.Operation]] = field(default_factory=dict)
    meeting: dict[ir.Value, list[ir.Operation]] = field(default_factory=dict)
    kinds: dict[str, str | None] = field(default_factory=dict)
    known: dict[ir.Operation, str | None] = field(default_factory=dict)
    moves: dict[str, int] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    scans: dict[Hashable, bool] = field(default_factory=dict)
    forms: dict[Hashable, tuple[ModuleType, object] | None] = field(default_factory=dict)
    estimates: dict[Hashable, float] = field(default_factory=dict)
    few: dict[Hashable, float] = field(default_factory=dict)
    permuting: dict[str, bool] = field(default_factory=dict)
    apart: set[Hashable] = field(default_factory=set)
    cut: set[Hashable] = field(default_factory=set)

    def run(self) -> bool:
        """Whether anything was fused."""
        return rewrite_calls(self.main, lambda head: self.kind(head) not in (None, "copy") and _fuse(self, head))

    def forget(self) -> None:
        """Forget what is known of operations: some are erased, and their places may be others' (see ``inferno.mlir``)."""
        self.makers, self.meeting, self.known = {}, {}, {}

    def meeting_at(self, value: ir.Value) -> list[ir.Operation]:
        """Those that read a value; that may be one which hundreds of calls read, each step of a loop its weights."""
        if value not in self.meeting:
            self.meeting[value] = [u for u in readers(value) if self.kind(u) in ("reduction", "scan")]
        return self.meeting[value]

    def kind(self, call: ir.Operation) -> str | None:
        """"reduction", "scan", "map" or "copy", as of a slice, for a call that may be part of a group; not for a product of two matrices, whose elements are
        read again and again."""
        if call not in self.known:
            self.known[call] = self._kind_of(call)
        return self.known[call]

    def _kind_of(self, call: ir.Operation) -> str | None:
        name = callee(call) if call.name == "func.call" else ""
        if name not in self.kinds:
            kernel = self.kernels.get(name)
            c = parse_contraction(kernel) if kernel is not None else None
            left = kernel is None or (c is not None and (wants_library(self.module) or c.M != 1 != c.N))
            self.kinds[name] = None if left else kind_of(kernel, whole=c is not None)
        found = self.kinds[name]
        return None if found == "map" and (changes_places(call, self.kernels[name]) or self._narrows_scan(call)) else found

    def moved(self, call: ir.Operation) -> int:
        """The bytes that a call moves."""
        name = callee(call)
        if name not in self.moves:
            self.moves[name] = moved_bytes(self.kernels[name])
        return self.moves[name]

    def alone(self, call: ir.Operation) -> float:
        """Microseconds of a call by itself."""
        name = callee(call)
        if name not in self.times:
            self.times[name] = alone(self.kernels[name], self.target)
        return self.times[name]

    def _narrows_scan(self, call: ir.Operation) -> bool:
        """Whether a map makes narrower numbers of what a scan across memory gives, as the states of a recurrence are of its pairs: ``fuse-scans``
        makes them one kernel, and the pairs are never written."""
        most = max((getattr(r.type.element_type, "width", 64) for r in call.results if isinstance(r.type, ir.RankedTensorType)), default=64)
        for value in inputs_of(call):
            if not isinstance(value.type, ir.RankedTensorType) or getattr(value.type.element_type, "width", 0) <= most:
                continue
            maker = owner(root_of(value))
            kernel = self.kernels.get(callee(maker)) if maker is not None and maker.name == "func.call" else None
            for scan in walk(kernel, "tm_tensor.scan") if kernel is not None else ():
                if ir.IntegerAttr(scan.attributes["dimension"]).value != scan.operands[0].type.rank - 1:
                    return True
        return False

    def permutes(self, call: ir.Operation) -> bool:
        """Whether a call is a map of one tensor that changes the order of its dimensions, whose sizes are known."""
        if self.kind(call) != "map":
            return False
        name = callee(call)
        if name not in self.permuting:
            self.permuting[name] = self._permutes(name)
        return self.permuting[name]

    def _permutes(self, name: str) -> bool:
        generic = next(o.operation for o in self.kernels[name].entry_block.operations if o.operation.name == "linalg.generic")
        every = maps(generic)
        return all(isinstance(n, int) for n in loop_sizes(generic)) and len(every) == 2 and every[0].is_permutation and every[0] != every[1]

    def takes(self, edges: Edges) -> bool:
        """Whether a generator takes the kernel that calls become, and can be asked how long it takes."""
        key = pattern(edges)
        if key not in self.forms:
            kernel = self.merge(edges, _TRIED)
            try:
                self.forms[key] = self._form(kernel, key)
                if self.forms[key] is not None and symbol_arguments(kernel.operation):
                    self.estimates[key] = self._time(*self.forms[key])
            except Undecided:  # what the choice rests on depends on the call
                self.forms[key] = None
            kernel.operation.erase()
        return self.forms[key] is not None

    def estimate(self, edges: Edges) -> float | None:
        """Microseconds of the kernel that calls become, by the generator that takes it; None where none does."""
        if not self.takes(edges):
            return None
        key = pattern(edges)
        if key not in self.estimates:
            self.estimates[key] = self._time(*self.forms[key])
        return self.estimates[key]

    def _form(self, kernel: func.FuncOp, key: Hashable) -> tuple[ModuleType, object] | None:
        """The module of the generator that takes a kernel, and what it reads it as."""
        read = ((form, form.read(kernel, self.target)) for form in (reductions, columns, sized_columns, transposed_rows, grid_rows, rows, sized_rows))
        with unchanged(kernel):
            form, c = next((found for found in read if found[1] is not None and not getattr(found[1], "taken", 0)), (None, None))
        if form is grid_rows and grid_rows.is_few(c):
            s = form.pick(c, self.target)
            if len(s.stages(c)) == 2:
                # Sums and those of squared distances are one kernel later (merge-variances): a LayerNorm of 1x1048576 in float32 took an H200 11.0 us
                # by blocks that wait for each other twice, and takes 7.0, of 1x262144 in bf16 5.1 and 3.9.
                self.few[key] = form.estimate(s, c, self.target)
            form = rows
        if form is transposed_rows or (form is rows and written_apart(c)):
            self.apart.add(key)
        if form is rows and c.parts:
            self.cut.add(key)
        return None if form is None else (form, c)

    def _time(self, form: ModuleType, c: object) -> float:
        """Microseconds of a kernel that a generator's module reads as ``c``."""
        s = form.pick(c, self.target)
        return columns.longest_time(s, c, self.target) if form is columns else form.estimate(s, c, self.target)

    def is_apart(self, edges: Edges) -> bool:
        """Whether such a kernel, which was estimated, goes over rows of which some lie one behind the other and others side by side."""
        return pattern(edges) in self.apart

    def is_anothers(self, edges: Edges, call: ir.Operation) -> bool:
        """Whether a call would have its result written in parts by such a kernel, which was estimated, and rows are read from these parts where they lie."""
        moves = self.kind(call) in ("map", "copy") and pattern(edges) in self.cut
        return moves and any(reader not in edges.calls for r in call.results for reader in self.meeting_at(r))

    def is_scan(self, edges: Edges) -> bool:
        """Whether calls are one scan, and maps that fuse-scans can put beside it."""
        key = pattern(edges)
        if key not in self.scans:
            kernel = self.merge(edges, _TRIED)
            self.scans[key] = scans.read(kernel, self.target) is not None
            kernel.operation.erase()
        return self.scans[key]

    def gains(self, edges: Edges) -> bool:
        """Whether few long rows are worth one kernel of all multiprocessors beside several, for which the cache keeps what they read again."""
        if not self.few or (found := self.few.get(pattern(edges))) is None:
            return False
        makers = [owner(root_of(v)) for call in edges.calls for v in inputs_of(call)]
        if any(m is not None and m not in edges.calls and self.kind(m) == "reduction" for m in makers):
            return False  # of rows' means, which are one kernel with what follows
        return found < grid_rows.FASTER * sum(cached(self.kernels[callee(call)], self.target) for call in edges.calls)

    def merge(self, edges: Edges, name: str = "") -> func.FuncOp:
        """The kernel that calls become, named after them by default."""
        kernel = merged_kernel(self.kernels, edges, name or joint_name(self.module, edges.calls, "rows_"))
        with kernel.context:
            take_apart(kernel)
            transpose_results(kernel)
        return kernel


def fuse_reductions(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU.  ``always``: "1" for fusing wherever that can be."""
    machine = find_target(target)
    if machine.kind == "nvptx":
        _Program.rewrite(module, machine, always=always == "1")


def _multiplies(kernel: func.FuncOp) -> bool:
    """Whether it is a product of a matrix, with vectors or another: not the products of two rows each."""
    c = parse_contraction(kernel)
    return c is not None and (c.M != 1 or c.N != 1)


def _fuse(program: _Program, head: ir.Operation) -> bool:
    """Make a group that begins with ``head`` one kernel, if that pays; whether it was."""
    edges, sums = _grow(program, head)
    if edges is None or all(_multiplies(program.kernels[callee(call)]) for call in edges.calls):
        return False  # products alone are merge-siblings'
    joined, apart = program.estimate(edges), _apart(program, edges)
    gains = joined < apart or program.gains(edges)
    if not program.always and not gains and sums is not None and program.estimate(sums) < _apart(program, sums):
        edges, joined, apart, gains = sums, program.estimate(sums), _apart(program, sums), True
    merged = program.merge(edges) if program.always or gains else None
    if merged is not None and not program.always and program.kind(head) == "map" and _reads_apart(merged, program.target):
        merged.operation.erase()
        merged = None
    if merged is None:
        _tell(edges, f"as one kernel of {len(edges.calls)} {joined:.1f} us are estimated, apart {apart:.1f}")
        return False
    defer(edges)
    replace_calls(edges, merged)
    program.forget()
    return True


def _apart(program: _Program, edges: Edges) -> float:
    """Microseconds of calls by themselves."""
    return sum(map(program.alone, edges.calls))


def _tell(edges: Edges, reason: str) -> None:
    for reader in edges.calls:
        for made in [owner(root_of(v)) for v in inputs_of(reader)]:
            if made is not None and made in edges.calls:
                note(reader, made, reason)


def _reads_apart(kernel: func.FuncOp, target: Target) -> bool:
    """Whether rows of a large tensor would be read whose neighbours lie apart: a kernel that transposes it first costs less."""
    beside = columns.read(kernel, target) or sized_columns.read(kernel, target) or transposed_rows.read(kernel, target)
    c = rows.read(kernel, target) if beside is None else None
    wide = {a for step in c.steps for a in step.extras if c.wide(a)} if c is not None else set()
    return any(spread(c, a) > 2 and row_bytes(c, a) > _CACHED for a in wide)


def _grow(program: _Program, head: ir.Operation) -> tuple[Edges | None, Edges | None]:
    """A group of calls that can be one kernel, and the first of these if they are several reductions of one tensor that do not wait for each other, as the
    two sums of a batch norm's backward; None if there is none."""
    calls, refused = [head], set()
    found, sums = None, None
    while len(calls) < _MOST:
        candidate = _next(program, calls, refused)
        if candidate is None:
            break
        trial = in_order([*calls, candidate])
        kinds = [program.kind(c) for c in trial]
        if all(kind == "map" for kind in kinds):
            calls = trial
            continue
        edges = edges_by_symbols(trial, views=True)
        weighed = program.kind(candidate) == "scan" or _gives(candidate, calls)
        known = edges is not None and program.takes(edges) and not program.is_anothers(edges, candidate)
        if not known or ((weighed or program.is_apart(edges)) and not _takes(program, found, edges, candidate)):
            refused.add(candidate)
        elif "reduction" not in kinds and kinds.count("scan") < 2 and program.is_scan(edges):
            calls = trial
        else:
            calls, found = trial, edges
            made = {r for c in calls for r in c.results}
            if all(program.kind(c) == "reduction" for c in calls) and not any(root_of(v) in made for c in calls for v in inputs_of(c)):
                sums = edges
    return found, sums


def _reads_in_place(program: _Program, copy: ir.Operation, calls: list[ir.Operation]) -> bool:
    """Whether who reads a part, as a contraction, may read it where the whole lies, which others read as well (``fold-slices``)."""
    others = [u for v in inputs_of(copy) for u in readers(root_of(v)) if u not in calls and program.kind(u) != "copy"]
    return bool(others) and any(u.name == "func.call" and program.kind(u) is None for r in copy.results for u in readers(r))


def _gives(call: ir.Operation, calls: list[ir.Operation]) -> bool:
    """Whether a group reads what a call makes."""
    return any(root_of(v) in call.results for c in calls for v in inputs_of(c))


def _is_short(kernel: func.FuncOp) -> bool:
    """Whether a kernel's sums have so few terms that a row's threads, which add in float32, are as accurate as parts that are added in float64."""
    generics = [op for op in walk(kernel, "linalg.generic") if is_reduction(op)]
    return all(hint(product(s for s, k in zip(loop_sizes(op), kinds(op)) if k == REDUCTION)) <= _SHORT for op in generics)


def _takes(program: _Program, found: Edges | None, joined: Edges, call: ir.Operation) -> bool:
    """Whether a group takes no longer with a scan, for which threads have to hold the rows, with what goes over other tensors' rows, or with what turns points,
    than beside it."""
    return found is None or program.estimate(joined) <= program.estimate(found) + program.alone(call)


def _next(program: _Program, calls: list[ir.Operation], refused: set[ir.Operation]) -> ir.Operation | None:
    """The first call that may join: a reader of the group's results, a reduction or scan of what it reads, or whose result it reads, or a transposition beside
    one that the group begins with, that needs nothing which waits for the group."""
    made = {r for c in calls for r in c.results}
    shared = {root_of(v) for c in calls for v in inputs_of(c)}
    candidates = {u for r in made for u in readers(r)}
    candidates |= {u for v in shared for u in program.meeting_at(v)}
    makers = {u for u in map(owner, shared) if u is not None and u.name == "func.call"}
    candidates |= {u for u in makers if program.kind(u) in ("reduction", "scan") and _is_short(program.kernels[callee(u)])}
    if little := [u for u in makers if program.kind(u) == "map"]:
        most = max(map(program.moved, calls)) // _LITTLE
        candidates |= {u for u in little if program.moved(u) <= most}  # as which targets count
        if any(program.kind(c) != "map" for c in calls):  # the exponentials of a softmax that a group of another one's reads
            found = {u: {r for v in u.results for r in readers(v)} for u in little}
            candidates |= {u for u, own in found.items() if all(r in calls for r in own) and (len(own) > 1 or any(_gives(r, calls) for r in own))}
    if program.permutes(calls[0]):
        candidates |= {u for v in shared for u in readers(v) if program.permutes(u)}
    reduces = any(program.kind(c) in ("reduction", "scan") for c in calls)
    able = [
        u for u in candidates
        if u not in calls and u not in refused and program.kind(u) is not None and calls[0].is_before_in_block(u)
        and (program.kind(u) != "copy" or (reduces and not _reads_in_place(program, u, calls)))
    ]
    for call in in_order(able):
        if not wait_for_each_other({*calls, call}, program.makers):
            return call
    return None
