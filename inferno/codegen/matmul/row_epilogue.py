"""Row-wise operations in the epilogue of a tile that is as wide as the result, in the registers that hold the sums.

Four neighbouring threads have a row of 64 x ``tile_n`` sums: each reduces its own part in registers, and two shuffles bring the parts together.
Operations go in phases, which end with reductions: in each, all that can be computed of a pair of points is, before the next pair.
What a later phase needs of the points stays in registers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.elements import as_vector, join, lanes_of
from inferno.codegen.builders.inline import epilogue_arguments, inline_body, size_values
from inferno.codegen.matmul.wgmma_epilogue import Epilogue
from inferno.codegen.nvvm.builder import Words, integer_type, opaque, operation
from inferno.mlir import arith, ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.rows.row_steps import RowStep

_HALVES = range(2)  # a thread has points of two rows, 8 apart
_AHEAD = 4  # times 8 columns whose other tensors are read while as many are computed (twice as many spill a LayerNorm of 256 columns)


@dataclass
class RowEpilogue(Epilogue):
    """Of a consumer's tile.  ``_points`` are the values' pairs by (value, half, j), ``_rows`` those of rows by (value, half)."""

    _points: dict[tuple[int, int, int], ir.Value] = field(default_factory=dict, init=False)
    _rows: dict[tuple[int, int], ir.Value] = field(default_factory=dict, init=False)

    def load_part(self, begin: int, block: int, phase: int = 0) -> None:
        """Read what a phase needs for some columns of 64 rows."""
        self.load_columns(range(begin // 8, min(begin // 8 + _AHEAD, self.schedule.tile_n // 8)), block, phase)

    def load_columns(self, columns: range, block: int, phase: int) -> None:
        sources = list(self.contraction.head_extras) if phase == 0 else []
        sources += [a for s in self.steps(phase) for a in s.extras]
        for j in columns:
            for half in _HALVES:
                for source in dict.fromkeys(sources):
                    self.read(source, 64 * block + 8 * half, j)

    def columns(self, begin: int) -> range:
        return range(begin // 8, min(begin + self.width, self.schedule.tile_n) // 8)

    def steps(self, phase: int, per_row: bool = False) -> list[RowStep]:
        return [s for s in self.contraction.steps if s.phase == phase and s.per_row == per_row]

    def emit(self, sums: Sequence[Sequence[ir.Value]]) -> None:
        parts = range(0, self.schedule.tile_n, self.width)
        staged = sum(i in self.maps for i in range(len(self.contraction.destinations)))
        self.turn, self.turns = 0, staged * len(parts) * len(sums)
        for block, values in enumerate(sums):
            self._points, self._rows = {}, {}
            for phase in range(self.contraction.phases + 1):
                self.phase(phase, block, values, parts)

    def phase(self, phase: int, block: int, sums: Sequence[ir.Value], parts: Sequence[int]) -> None:
        """What is known from here on: first of rows, then of points."""
        for step in self.steps(phase, per_row=True):
            self.of_rows(step, block)
        running: dict[tuple[int, int], list[ir.Value]] = {}  # by (value, half) a pair of parts of a reduction
        self.write_rows(phase, block)
        if not self.steps(phase) and not self.stores(phase):
            return
        if phase:
            self.forget(phase)
        self.load_part(parts[0], block, phase)
        last = self.schedule.tile_n // 8
        for begin in parts:
            for j in self.columns(begin):
                if j % _AHEAD == 0:
                    self.load_columns(range(min(j + _AHEAD, last), min(j + 2 * _AHEAD, last)), block, phase)
                for half in _HALVES:
                    if phase == 0:
                        self.begin_points(block, half, j, sums)
                    for step in self.steps(phase):
                        self.of_points(step, block, half, j, running)
            self.store_part(phase, block, begin)
        for step in self.steps(phase):
            if step.reduces:
                self.finish(step, running)

    def forget(self, phase: int) -> None:
        """Let LLVM, and the assembler by way of a shuffle, not know that what is read and computed of points was so before: they would keep it
        in registers."""
        c = self.contraction
        self._seen = {k: v for k, v in self._seen.items() if isinstance(k, tuple) and k[0] == "inside"}
        self.column = operation(
            "nvvm.shfl.sync", [self.words.type], [self.words.value(-1), self.words.value(self.column), self.group.lane, self.words.value(31)],
            kind="#nvvm<shfl_kind idx>",
        )
        needed = {n for s in c.steps for n in s.sources if s.phase >= phase and isinstance(n, int)}
        self._points = {key: _opaque_pair(self.words, pair) for key, pair in self._points.items() if key[0] in needed}

    # The values.

    def begin_points(self, block: int, half: int, j: int, sums: Sequence[ir.Value]) -> None:
        """The contraction's own result."""
        c, down = self.contraction, 64 * block + 8 * half
        pair = join([sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]])
        if c.head is not None:
            arguments = epilogue_arguments(c.epilogue, pair, lambda source: self.read(source, down, j))
            pair = as_vector(inline_body(c.epilogue.block, arguments, self.indices(down, j), 2, outside=size_values(c.epilogue, self.words))[c.head], 2)
        self.keep(0, half, j, pair)

    def keep(self, number: int, half: int, j: int, pair: ir.Value) -> None:
        """Let a pair be a value's.  Two of 16 bits that are read again are one register, which LLVM would make two of."""
        again = any(number in s.sources for s in self.contraction.steps)
        self._points[number, half, j] = _opaque_pair(self.words, pair) if again and pair.type.element_type.width == 16 else pair

    def of_rows(self, step: RowStep, block: int) -> None:
        for half in _HALVES:
            results = inline_body(step.block, self.arguments(step, block, half, 0))
            self._rows.update({(number, half): r for number, r in zip(step.results, results) if number is not None})

    def of_points(self, step: RowStep, block: int, half: int, j: int, running: dict[tuple[int, int], list[ir.Value]]) -> None:
        results = inline_body(step.block, self.arguments(step, block, half, j), self.indices(64 * block + 8 * half, j, step), 2)
        for number, combiner, result in zip(step.results, step.combiners, results):
            if number is None:
                continue
            if combiner is None:
                self.keep(number, half, j, as_vector(result, 2))
                continue
            terms = [combiner.widen(x) for x in lanes_of(as_vector(result, 2))]
            inside = self.inside(j)
            if inside is not None:
                terms = [arith.select(i, t, combiner.identity()) for i, t in zip(inside, terms)]
            before = running.get((number, half))
            running[number, half] = terms if before is None else [combiner.combine(a, b) for a, b in zip(before, terms)]

    def arguments(self, step: RowStep, block: int, half: int, j: int) -> list[ir.Value]:
        """What stands for the arguments of a step's block."""
        found = []
        for source in step.sources:
            if source is None:
                found.append(arith.constant(integer_type(1), 0))
            elif isinstance(source, Access):
                found.append(self.read(source, 64 * block + 8 * half, j))
            else:
                found.append(self._rows[source, half] if self.contraction.values[source].per_row else self._points[source, half, j])
        return [*found, *(arith.constant(integer_type(1), 0) for _ in step.results)]

    def inside(self, j: int) -> list[ir.Value] | None:
        """Whether this thread's two columns are the result's; None where they are."""
        words, n = self.words, self.tiling.n.size
        if 8 * j + 8 <= n:
            return None
        key = ("inside", j)
        if key not in self._seen:
            self._seen[key] = [words.less(words.add(self.column, 8 * j + lane), n) for lane in range(2)]
        return self._seen[key]

    def finish(self, step: RowStep, running: dict[tuple[int, int], list[ir.Value]]) -> None:
        """Of the parts in four threads the whole, in all of them."""
        for number, combiner, start in zip(step.results, step.combiners, step.starts):
            if number is None:
                continue
            for half in _HALVES:
                whole = combiner.combine(*running[number, half])
                for distance in (1, 2):
                    whole = combiner.combine(whole, exchange(self.words, whole, distance))
                start_ = combiner.widen(arith.constant(combiner.narrow, start))
                self._rows[number, half] = combiner.round(combiner.combine(start_, whole))

    # Their way to memory.

    def stores(self, phase: int) -> list[int]:
        """The destinations whose points are computed in a phase."""
        c = self.contraction
        return [i for i, d in enumerate(c.destinations) if not c.values[d.source].per_row and c.computed(d.source) == phase]

    def store_part(self, phase: int, block: int, begin: int) -> None:
        columns = self.columns(begin)
        for i in self.stores(phase):
            destination = self.contraction.destinations[i]
            pairs = [[self._points[destination.source, half, j] for half in _HALVES] for j in columns]
            if i in self.maps:
                self.stage(i, block, begin, pairs, *self.buffer(self.turn, self.turns))
                self.turn += 1
                continue
            for half in _HALVES:
                self.write(destination.access, 64 * block + 8 * half, begin // 8, [each[half] for each in pairs])

    def write_rows(self, phase: int, block: int) -> None:
        """The values of rows that are known since the last phase, by one of the four threads."""
        c, words, m = self.contraction, self.words, self.tiling.m
        for destination in c.destinations:
            if not c.values[destination.source].per_row or c.computed(destination.source) != phase:
                continue
            access = destination.access
            for half in _HALVES:
                row = words.add(self.row, 64 * block + 8 * half)
                conditions = [words.equal(words.mask(self.group.lane, 3), 0)]
                if m.size % self.schedule.tile_m != 0:
                    conditions.append(words.less(row, m.size))
                offset = words.dot([*self.grid, row], [a.stride(access) for a in (*self.tiling.grid, m)], access.offset)
                self._write_if(conditions, self.tensors[access.argument], self._rows[destination.source, half], offset, 0)


def _opaque_pair(words: Words, pair: ir.Value) -> ir.Value:
    """A pair that LLVM knows nothing about, in as many registers as it needs; others than of 16 and 32 bits as they are."""
    element = pair.type.element_type
    if element.width == 16:
        return operation("llvm.bitcast", [pair.type], [opaque(words, operation("llvm.bitcast", [words.type], [pair]))])
    if element.width != 32:
        return pair
    lanes = [opaque(words, x if element == words.type else arith.bitcast(words.type, x)) for x in lanes_of(pair)]
    return join([x if element == words.type else arith.bitcast(element, x) for x in lanes])


def exchange(words: Words, value: ir.Value, distance: int) -> ir.Value:
    """The ``value`` of the thread whose lane differs in the bit ``distance``; a number of up to 64 bits."""
    width, i32 = value.type.width, words.type
    if isinstance(value.type, ir.FloatType) and width != 32:
        return arith.bitcast(value.type, exchange(words, arith.bitcast(integer_type(width), value), distance))
    if width == 64:
        low = exchange(words, arith.trunci(i32, value), distance)
        high = exchange(words, arith.trunci(i32, arith.shrui(value, arith.constant(value.type, 32))), distance)
        low, high = (arith.extui(value.type, x) for x in (low, high))
        return arith.ori(low, arith.shli(high, arith.constant(value.type, 32)))
    if width < 32:
        return arith.trunci(value.type, exchange(words, arith.extui(i32, value), distance))
    return operation(
        "nvvm.shfl.sync", [value.type], [words.value(-1), value, words.value(distance), words.value(31)], kind="#nvvm<shfl_kind bfly>",
    )
