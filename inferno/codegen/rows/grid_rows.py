"""Row-wise kernels whose blocks, one a multiprocessor, each have a part of every row, for rows that are too long for a cluster of blocks.

A block walks over the rows.  Its part of several rows is on its way to shared memory, by copies that each thread starts and waits for itself, so that no
barrier is needed; its part of what rows have in common, as weights, is read once and stays in registers.  In each turn of its loop a block goes over its
parts of one row for each phase: it reduces the newest one, and writes the results of one that came some turns earlier.  What is known of a row between
phases is in shared memory.

Reductions go on beside that.  A warp leaves its part in shared memory; behind the turn's barrier a further warp brings these together and leaves the
block's part in flagged words of global memory (``flagged_words.py``), and another one waits for the parts of all blocks of an earlier row, brings
them together in a fixed order and leaves the total for the next turn.  Nobody waits for what was left less than ``lag`` - 1 turns before, so memory
always has work.

Blocks wait for each other, so all have to run at once: the launch is a cooperative one, which the driver starts whole or not at all, whatever else
is on the GPU.  A block waits for parts of earlier turns only, which others leave without waiting for anything of a later one: by induction over turns
all go on.  Words are cleared by a kernel in front, in the order of the stream, so that graphs and launches at the same time have their own.
"""

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import from_memory, load, opaque_vector, to_memory
from inferno.codegen.builders.expand_math import expand_math
from inferno.codegen.builders.gpu_function import (
    Buffer, device_module_of, gpu_function, index_width, integers_for, parameters_of, stored_type,
)
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.launcher import launch, launcher, parameter
from inferno.codegen.builders.minmax import recognise_maximum
from inferno.codegen.nvvm.async_copies import await_copies, commit_copies
from inferno.codegen.nvvm.flagged_words import FlaggedWords, add_clearing, halves, launch_cleared, word_type
from inferno.codegen.rows.kept_vectors import KeptVectors
from inferno.codegen.rows.online_sums import bound, scaled
from inferno.codegen.rows.row_divisions import multiply_by_reciprocals
from inferno.codegen.rows.row_exponentials import approximate_exponentials
from inferno.codegen.rows.rows import Emitter, copy_of
from inferno.errors import CompileError
from inferno.mlir import arith, func, gpu, ir, memref, scf
from inferno.schedule.analysis.combiners import Combiner
from inferno.schedule.rows.grid_rows import GridRows, brought, kept
from inferno.schedule.rows.row_maxima import OnlineSum, online_sums
from inferno.schedule.rows.row_schedule import Rows
from inferno.schedule.rows.rows import read
from inferno.target import WARP, Target

Parts = dict[int, ir.Value]


def generate(kernel: func.FuncOp, schedule: GridRows, target: Target) -> None:
    """Add the ``gpu.module`` of such a kernel, and make ``kernel`` its launcher."""
    c, s, name = read(kernel, target), schedule, kernel.name.value
    if c is None or not s.fits(c, target):
        raise CompileError(f"@{name}: {s} does not fit " + ("it" if c is None else f"{c.count} rows of {c.width}"))
    online, stages = online_sums(c), s.stages(c)  # of exponentials that are not rewritten yet
    slots, threads = s.slots(len(stages)), s.all_threads(len(stages))
    copies = {x.exponential: copy_of(x.made) for sums in online.values() for x in sums if x.made is not None}
    for step in (*c.steps, *copies.values()):
        multiply_by_reciprocals(step, c)
        approximate_exponentials(step, c, any(step is x for x in copies.values()))
        recognise_maximum(step.generic)
        expand_math(step.generic)
    buffers = parameters_of(kernel, {d.access.argument for d in c.destinations})
    words = c.count * s.words(c) * s.share + WARP * (s.share // WARP + 1)
    width = index_width(buffers, 2 * c.count * c.width, words)
    reduced = [(v, k) for step in c.steps for v, k in zip(step.results, step.combiners) if k is not None]
    warps = s.threads // WARP
    shared = [(2 * warps, stored_type(k.total)) for _, k in reduced] + [(slots, stored_type(k.total)) for _, k in reduced]
    with gpu_function(kernel, [*buffers, Buffer(word_type(), words, False)], threads, shared, 1, dynamic=True) as function:
        layout = Rows(s.threads, s.threads, s.vector, unroll=s.chunks(c))
        vectors = KeptVectors(brought(c), layout, function.dynamic, known=set(brought(c)))
        places = {v: i for i, (v, _) in enumerate(reduced)}
        ints = integers_for(kernel, width, function.buffers)
        emitter = GridEmitter(c, s, ints, function.buffers, function.shared, places, vectors, online, copies)
        emitter.stages, emitter.slots = stages, slots
        emitter.emit()
    device = device_module_of(kernel)
    add_clearing(device, f"{name}_clear", words)
    with launcher(kernel) as arguments:
        memory = launch_cleared(f"{name}_gpu", f"{name}_clear", words)
        parameters = [*(parameter(a) for a in arguments), memory]
        launch(f"{name}_gpu", name, parameters, (s.blocks(), 1, 1), (threads, 1, 1), shared=slots * s.row_bytes(c), cooperative=True)


class GridEmitter(Emitter):
    """``rows``' emitter of what is computed of points, with other blocks and places."""

    def emit(self) -> None:
        ints, c, s = self.ints, self.c, self.s
        self.count = s.chunks(c)
        self.memory, self.mine = FlaggedWords(ints, self.buffers[-1]), None
        self.thread = ints.thread(s.all_threads(len(self.stages)))
        block = ints.block()
        self.rank, self.group = (ints.rem(block, s.share), ints.div(block, s.share)) if s.groups > 1 else (block, 0)
        self.own_rows = ints.div(ints.sub(c.count + s.groups - 1, self.group), s.groups)
        self.first = ints.add(ints.mul(self.rank, s.threads), self.thread)
        self.works = ints.less(self.thread, s.threads)
        self.warp, self.lane = ints.div(self.thread, WARP), ints.rem(self.thread, WARP)
        lines, line = s.lines(c), s.line(c)
        self.begin = ints.mul(ints.div(ints.mul(self.rank, lines), s.share), line)
        self.end = ints.min(ints.mul(ints.div(ints.mul(ints.add(self.rank, 1), lines), s.share), line), s.vectors(c))
        self.worker = ints.min(self.thread, s.threads - 1)
        self.begin_row(self.row_number(0))
        if not s.ragged:
            self.place_all()
        self.weights = {(a, chunk): opaque_vector(self.read(a, chunk)) for a in kept(c) for chunk in range(self.count)}
        self.kept.begin(self.thread)
        with only_if(self.works):
            for number in range(s.ahead):
                self.bring(number)
        last = ints.add(self.own_rows, (len(self.stages) - 1) * s.lag)
        op = scf.ForOp(ints.value(0), ints.value(last), ints.value(1), [])
        with ir.InsertionPoint(op.body):
            self.turn_of(op.induction_variable)
            scf.yield_([])

    def begin_ragged(self) -> None:
        super().begin_ragged()
        self.place_all()  # vectors are others in each row

    def place_all(self) -> None:
        for chunk in range(self.count):
            self.place(chunk, self.ints.add(self.worker, chunk * self.s.threads), chunk)

    def place(self, chunk: object, vector: Integer, number: int | None) -> None:
        """Of the vectors of a block's lines."""
        ints, inside, at = self.ints, None, self.ints.add(self.begin, vector)
        if (number + 1) * self.s.threads > self.s.least(self.c):
            inside, at = ints.less(at, self.end), ints.min(at, ints.sub(self.end, 1))
        if not self.s.ragged:
            self._chunk[chunk] = (ints.mul(at, self.s.vector), inside)
            return
        self.place_ragged(chunk, at, number == 0, inside is not None)
        point, lanes = self._chunk[chunk]
        self._chunk[chunk] = (point, lanes if inside is None else [arith.andi(x, inside) for x in lanes])

    def turn_of(self, turn: ir.Value) -> None:
        """What a block does in a turn: of its ``turn``-th row what does not wait for any reduction, of others what waits for some."""
        ints, s, last = self.ints, self.s, len(self.stages) - 1
        self.set = ints.rem(turn, 2)
        with only_if(self.works):
            self.where_row(turn, last, self.stage)
            self.bring(ints.add(turn, s.ahead))
            await_copies(s.ahead)
            for stage in reversed(range(last)):
                self.where_row(turn, stage, self.stage)
        for level in range(last):
            with only_if(ints.equal(self.warp, s.threads // WARP + level)):
                self.where_row(ints.add(turn, 1), level + 1, lambda number, stage: self.collect(number, stage - 1))
        gpu.barrier()
        for level in range(last):
            with only_if(ints.equal(self.warp, s.threads // WARP + last + level)):
                self.where_row(turn, level, self.publish)

    def where_row(self, turn: Integer, stage: int, do) -> None:
        """The row that a stage has in a turn, if there is one."""
        number = self.ints.sub(turn, stage * self.s.lag)
        with only_if(self.ints.less(number, self.own_rows)):  # below 0 is a large number
            do(number, stage)

    def row_number(self, number: Integer) -> Integer:
        """Of a group's rows one of all."""
        return self.ints.add(self.ints.mul(number, self.s.groups), self.group)

    def slot(self, number: Integer) -> Integer:
        return self.ints.rem(number, self.slots)

    def bring(self, number: Integer) -> None:
        """Start to copy a row, if it is there; what is started between two rows is a group of copies in any case."""
        with only_if(self.ints.less(number, self.own_rows)):
            self.begin_row(self.row_number(number))
            self.kept.turn(self.ints.value(self.slot(number)))
            for chunk in range(self.count):
                point, inside = self._chunk[chunk]
                for at in brought(self.c):
                    partial = self.s.ragged and inside is not None
                    self.kept.bring(at, chunk, self.ints, self.buffers[at.argument], self.offset(at, point), partial)
        commit_copies()

    # What threads compute of points.

    def stage(self, number: Integer, stage: int) -> None:
        """All that a phase computes, and of the row what it needs; a warp's parts of reductions go to shared memory."""
        c, phase = self.c, self.stages[stage]
        self._rows, self._points, self._taken = {}, dict(self.weights), {}
        self.begin_row(self.row_number(number))
        self.kept.turn(self.ints.value(self.slot(number)))
        for at in dict.fromkeys(a for step in c.steps for a in step.extras if not c.wide(a)):
            self._rows[at] = load(self.ints, self.buffers[at.argument], self.row_offset(at), at.element)
        written = self.stages[stage - 1] if stage else -1
        for p in range(phase + 1):
            for step in c.steps:
                if step.per_row and step.phase == p:
                    self.per_row(step)
            if p > written:
                self.write_rows(p)
            if p < phase:
                self.take_totals(p, number)
        self.begin_phase(phase)
        reducing, running = self.reductions(phase)
        stored = [d for d in c.destinations if not c.values[d.source].per_row and c.computed(d.source) == phase]
        values = None
        for chunk in range(self.count):
            for source in self.reads:
                self.read(source, chunk)
        for chunk in range(self.count):
            values = self.terms(reducing, running, chunk, values)
            self.write(stored, chunk)
        if not running:
            return
        parts = self.joined(running, [{n: self.total(k, lanes) for (n, k), lanes in zip(running, values)}], WARP // 2)
        for x in self.online.get(phase, []):
            self._rows[x.base], self._makers, lanes = bound(x, parts[x.largest]), self.copies, None
            for chunk in range(self.count):
                lanes = self.terms([x.step], [(x.result, x.combiner)], chunk, lanes)
            self._makers = {}
            parts |= self.joined([(x.result, x.combiner)], [{x.result: self.total(x.combiner, lanes[0])}], WARP // 2)
        at = self.ints.add(self.ints.mul(self.set, self.s.threads // WARP), self.warp)
        self.leave(parts, at, 0)

    def take_totals(self, phase: int, number: Integer) -> None:
        """What a phase's reductions came to; sums that were taken with a maximum are relative to it as it is, which may be infinite."""
        relative = {x.result: x for x in self.online.get(phase - 1, [])}
        for step in self.c.steps:
            for n, k, start in zip(step.results, step.combiners, step.starts):
                if k is not None and step.phase == phase:
                    total = self.taken(n, k, self.slot(number), len(self.places))
                    if (x := relative.get(n)) is not None:
                        total = scaled(x, total, bound(x, self._rows[x.largest]), self._rows[x.base])
                    self._rows[n] = k.round(k.combine(k.to_total(k.widen(arith.constant(k.narrow, start))), total))

    # What warps bring together.

    def level(self, level: int) -> list[tuple[int, Combiner]]:
        """What is reduced together: with the maxima the sums that are taken with them."""
        phase = self.stages[level]
        return [*self.reductions(phase)[1], *((x.result, x.combiner) for x in self.online.get(phase, []))]

    def leave(self, parts: Parts, at: Integer, first: int) -> None:
        """In shared memory, by a warp's first lane; arrays are those from ``first`` on."""
        with only_if(self.ints.equal(self.lane, 0)):
            for n, value in parts.items():
                memref.store(to_memory(value), self.shared[first + self.places[n]], [self.ints.index(at)])

    def taken(self, n: int, k: Combiner, at: Integer, first: int) -> ir.Value:
        return from_memory(memref.load(self.shared[first + self.places[n]], [self.ints.index(at)]), k.total)

    def publish(self, number: Integer, level: int) -> None:
        """Bring together what the warps left, and leave it for all blocks."""
        ints, warps = self.ints, self.s.threads // WARP
        at = ints.add(ints.mul(self.set, warps), ints.min(self.lane, warps - 1))
        there = ints.less(self.lane, warps)
        found = self.meet(level, [{n: arith.select(there, self.taken(n, k, at, 0), k.identity(k.total)) for n, k in self.level(level)}])
        place = ints.add(self.words_of(number, level), self.rank)
        for n, k in self.level(level):
            self.memory.put(ints.equal(self.lane, 0), place, found[n], self.s.share)
            place = ints.add(place, halves(k.total) * self.s.share)

    def collect(self, number: Integer, level: int) -> None:
        """Wait for what all blocks left, and leave what it comes to for the threads of this one."""
        ints, share, running = self.ints, self.s.share, self.level(level)
        each = sum(halves(k.total) for _, k in running)
        count = -(-share // WARP)
        lane = self.lane if share >= WARP else ints.min(self.lane, share - 1)
        wanted = ints.div(ints.sub(share + WARP - 1, self.lane), WARP)  # blocks of this lane
        distances = [i * WARP + h * share for i in range(count) for h in range(each)]
        words = self.memory.wait(ints.add(self.words_of(number, level), lane), distances, each, wanted, once=True)
        parts = []
        for i in range(count):
            there, own, part = ints.less(i, wanted), words[i * each:(i + 1) * each], {}
            for n, k in running:
                value, own = self.memory.join(own[:halves(k.total)], k.total), own[halves(k.total):]
                part[n] = arith.select(there, value, k.identity(k.total))
            parts.append(part)
        self.leave(self.meet(level, parts), self.slot(number), len(self.places))

    def words_of(self, number: Integer, level: int) -> Integer:
        """The first word of a level of a row."""
        before = sum(halves(k.total) for i in range(level) for _, k in self.level(i))
        ints, share = self.ints, self.s.share
        return ints.add(ints.mul(self.row_number(number), self.s.words(self.c) * share), before * share)

    def meet(self, level: int, parts: list[Parts]) -> Parts:
        """What the parts of all lanes of a warp come to; sums that are relative to a maximum are scaled to the largest one."""
        phase = self.stages[level]
        running = self.reductions(phase)[1]
        found = self.joined(running, parts, WARP // 2)
        for x in self.online.get(phase, []):
            each = [{x.result: self.relative(x, part, found)} for part in parts]
            found |= self.joined([(x.result, x.combiner)], each, WARP // 2)
        return found

    def relative(self, x: OnlineSum, part: Parts, found: Parts) -> ir.Value:
        return scaled(x, part[x.result], bound(x, part[x.largest]), bound(x, found[x.largest]))
