"""The epilogue on sums in the layout of tensor-core accumulators: pairs of neighbours, loads and stores.

Thread t of a warp has, for each 8 columns j, the values at rows ``t/4 + 8h`` and columns ``8j + t%4 * 2 + e`` of the warp's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from inferno.codegen.builders import widened_pairs
from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import as_vector, join, lanes_of
from inferno.codegen.builders.inline import epilogue_arguments, inline_body, size_values
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words, operation, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.element_sizes import element_bytes
from inferno.mlir import arith, ir, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.tiles.tiling import Axes, paired
from inferno.symbolic import is_multiple, product, reach


@dataclass
class PairEpilogue:
    """Emits what follows the last product of a tile of ``schedule.tile_m`` x ``schedule.tile_n``.  ``tensors`` are those that are read
    or written element by element, by argument."""

    words: Words
    contraction: Contraction
    tiling: Axes
    schedule: Any
    tensors: dict[int, Elements]
    _seen: dict = field(default_factory=dict, init=False)

    def place_thread(self, grid: Sequence[Integer], row: Integer, column: Integer, whole: bool = False) -> None:
        """At a position in the grid's axes, this thread's first row and column; ``whole``: no column of the tile is outside of the tensor."""
        self._seen, self.whole = {}, whole
        self.grid, self.row, self.column = grid, row, column

    def load(self, downs: Sequence[int], columns: Sequence[int]) -> None:
        """Read what ``apply`` needs of other tensors at these places: their latency passes meanwhile."""
        for j in columns:
            for down in downs:
                for source in self.loaded:
                    self.read(source, down, j)

    def know(self, source: Access, down: int, j: int, value: ir.Value) -> None:
        """``value`` is what ``read`` would read there, of a tensor that has a number of its own at each place."""
        self._seen[source, down, j] = value

    def know_from(self, other: "PairEpilogue") -> None:
        """What another one, placed there as well, has read."""
        own = set(self.loaded)
        self._seen.update({key: value for key, value in other._seen.items() if isinstance(key, tuple) and len(key) == 3 and key[0] in own})

    @property
    def loaded(self) -> Sequence[Access]:
        """What the epilogue reads of global memory."""
        return self.contraction.extras

    # The values.

    def apply(self, down: int, j: int, sums: ir.Value, others: ir.Value | None = None) -> list[ir.Value]:
        """For each destination the pair of results ``down`` rows and ``8 j`` columns from this thread's first, of their sums, and of two
        contractions of the ``others``."""
        c = self.contraction
        results: list[ir.Value] = []
        if c.epilogue is not None:
            arguments = epilogue_arguments(c.epilogue, sums, lambda source: self.read(source, down, j), others)
            results = inline_body(c.epilogue.block, arguments, self.indices(down, j), 2, widened_pairs.CUSTOM, outside=size_values(c.epilogue, self.words))
        return [sums if d.source is None else as_vector(results[d.source], 2) for d in c.destinations]

    def read(self, source: Access, down: int, j: int) -> ir.Value:
        """What an epilogue's argument is there: a pair, or a scalar where both are the same."""
        m, n = self.tiling.m.stride(source), self.tiling.n.stride(source)
        key = (source, down if m != 0 else None, j if n != 0 else None)
        if key not in self._seen:
            tensor = self.tensor(source)
            if n == 0:
                self._seen[key] = tensor.read(self.place(source, down, None))
            elif self.paired(source):
                offset, plus = self.at_column(source, down, j, 2)
                self._seen[key] = tensor.read(offset, plus, 2, 2)
            else:
                each = [self.at_column(source, down, j, 1, lane) for lane in range(2)]
                self._seen[key] = join([tensor.read(*at) for at in each])
        return self._seen[key]

    def paired(self, access: Access) -> bool:
        """Whether a thread's two columns are one aligned pair in memory."""
        return paired(access, self.tiling)

    def place(self, access: Access, down: int, column: Integer | None) -> Integer:
        """The offset ``down`` rows from this thread's first, clamped to the tensor, and at ``column`` if there is one."""
        words, tiling = self.words, self.tiling
        key = (access, down) if tiling.m.stride(access) != 0 else access
        if key not in self._seen:
            row = words.add(self.row, down)
            if self.hangs_over:
                row = words.min(row, tiling.m.size - 1)
            self._seen[key] = self.offset(access, row)
        if column is None:
            return self._seen[key]
        return words.add(self._seen[key], words.mul(column, tiling.n.stride(access)))

    def offset(self, access: Access, row: Integer, column: Integer = 0) -> Integer:
        """Of an element in ``tensor(access)``."""
        tiling, inside = self.tiling, [row, column]
        strides = [tiling.m.stride(access), tiling.n.stride(access)]
        if _is_large(access):
            return self.words.dot(inside, strides)
        return self.words.dot([*self.grid, *inside], [*(a.stride(access) for a in tiling.grid), *strides], access.offset)

    def tensor(self, access: Access) -> Elements:
        """The tensor, or of one with more elements than offsets of 32 bits reach what lies at the position in the grid."""
        found = self.tensors[access.argument]
        if not _is_large(access):
            return found
        if (key := ("tensor", access)) not in self._seen:
            self._seen[key] = found.moved(self.grid, [a.stride(access) for a in self.tiling.grid], access.offset)
        return self._seen[key]

    def at_column(self, access: Access, down: int, j: int, count: int, lane: int = 0) -> tuple[Integer, int]:
        """Offset and constant for ``count`` elements at column ``8 j + lane`` of this thread, clamped to the tensor."""
        words, n = self.words, self.tiling.n
        if n.size % self.schedule.tile_n != 0 and not (self.whole and isinstance(n.stride(access), int)):
            column = words.min(words.add(self.column, 8 * j + lane), n.size - count)
            return self.place(access, down, column), 0
        key = ("row", access, down if self.tiling.m.stride(access) != 0 else None)
        if key not in self._seen:
            self._seen[key] = self.place(access, down, self.column)
        return self._seen[key], (8 * j + lane) * n.stride(access)

    def indices(self, down: int, j: int, body: Any = None) -> list[ir.Value]:
        """For ``linalg.index`` in the epilogue, or another ``body`` with a ``generic`` and the contraction's loops behind its own."""
        c, words, tiling, body = self.contraction, self.words, self.tiling, body or self.contraction.epilogue
        if not walk(body.generic, "linalg.index"):
            return []
        lanes = []
        for lane in range(2):
            row, column = words.add(self.row, down), words.add(self.column, 8 * j + lane)
            known: dict[int | None, Integer] = {None: 0}
            for axis, at in zip((*tiling.grid, tiling.m, tiling.n), (*self.grid, row, column)):
                known.update(zip(axis.dims, words.split(at, [c.sizes[d] for d in axis.dims])))
            lanes.append([words.index(known.get(d, 0)) for d in body.indices])
        return [join([lane[i] for lane in lanes]) for i in range(len(lanes[0]))]

    # Their way to memory.

    @property
    def hangs_over(self) -> bool:
        """Whether a tile may have rows that there are not."""
        return self.tiling.m.size % self.schedule.tile_m != 0

    def conditions(self, row: Integer) -> list[ir.Value]:
        """On which a row is written."""
        return [self.words.less(row, self.tiling.m.size)] if self.hangs_over else []

    def write(self, access: Access, down: int, first: int, pairs: Sequence[ir.Value]) -> None:
        """A row's pairs, from ``8 first`` columns on, element by element where they are not aligned or the tile hangs over the edge."""
        words, tiling, schedule = self.words, self.tiling, self.schedule
        tensor, step = self.tensor(access), tiling.n.stride(access)
        paired = self.paired(access)
        row = words.add(self.row, down)
        offset = self.offset(access, row, self.column)
        inside = self.conditions(row)
        # Where N varies, the columns that are left are one register, and what it is compared with are constants.
        left = None if isinstance(tiling.n.size, int) else words.sub(words.value(tiling.n.size), self.column)
        for j, pair in enumerate(pairs, first):
            parts = [(pair, 0)] if paired else [(x, i) for i, x in enumerate(lanes_of(pair))]
            for value, lane in parts:
                column, conditions = 8 * j + lane, list(inside)
                if left is not None:
                    conditions.append(arith.cmpi(arith.CmpIPredicate.sgt, left, words.value(column)))
                elif tiling.n.size % schedule.tile_n != 0:
                    conditions.append(words.less(words.add(self.column, column), tiling.n.size))
                self._write_if(conditions, tensor, value, offset, column * step)

    def in_quads(self, access: Access) -> bool:
        """Whether ``write_quads`` can: 4 neighbours of 16 bits are aligned, and inside of the tensor together."""
        tiling = self.tiling
        others = [access.offset, tiling.n.size, *(a.stride(access) for a in (*tiling.grid, tiling.m))]
        return element_bytes(access.element) == 2 and tiling.n.stride(access) == 1 and all(is_multiple(x, 4) for x in others)

    def write_quads(self, access: Access, down: int, first: int, pairs: Sequence[ir.Value], quad: Integer) -> None:
        """As ``write``, for an even number of pairs of 16 bits: of each two, neighbouring threads exchange one, so that both store 4
        neighbours, and whole sectors of 32 bytes are written together.  ``quad`` is ``t%4``."""
        words, tiling, i32 = self.words, self.tiling, self.words.type
        odd = words.equal(words.mask(quad, 1), 1)
        row, column = words.add(self.row, down), words.add(self.column, words.select(odd, 6, 0))
        offset = self.offset(access, row, column)
        inside = self.conditions(row)
        for j in range(0, len(pairs), 2):
            a, b = (operation("llvm.bitcast", [i32], [x]) for x in pairs[j:j + 2])
            other = operation(
                "nvvm.shfl.sync", [i32], [words.value(-1), arith.select(odd, a, b), words.value(1), words.value(31)],
                kind="#nvvm<shfl_kind bfly>",
            )
            value, plus, conditions = join([arith.select(odd, other, a), arith.select(odd, b, other)]), 8 * (first + j), list(inside)
            if tiling.n.size % self.schedule.tile_n != 0:
                conditions.append(words.less(words.add(column, plus), tiling.n.size))
            with only_if(*conditions):
                store(value, self.tensor(access).pointer(offset, plus), 8)

    def _write_if(self, conditions: list[ir.Value], tensor: Elements, value: ir.Value, offset: Integer, plus: int) -> None:
        if not conditions:
            tensor.write(value, offset, plus, aligned=2)
            return
        with only_if(*conditions):
            tensor.write(value, offset, plus, aligned=2)


def _is_large(access: Access) -> bool:
    return reach(product(access.shape)) >= 2**31
