"""16-bit results with rows that begin unaligned, such as those of 50257 columns: no tensor map describes them, and the pairs that a thread has are aligned in
every other row only.

Each warp puts its 16 rows of a part in shared memory that only it uses, and writes line by line the words of 32 bits that memory has of them, 128 bytes an
instruction.
Where a line begins inside of a word, its words are made of neighbours' halves, and the elements at both ends are written by themselves.
"""

from collections.abc import Callable, Sequence

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.elements import join, lanes_of
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import load_shared, operation, store
from inferno.mlir import arith, ir, nvvm, scf
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.tiles.result_parts import ROW

_ROWS = 16  # of a warp


class ResultLines:
    """What the end of a tile does with them (see ``Epilogue``)."""

    def write_lines(self, access: Access, block: int, begin: int, pairs: Sequence[Sequence[ir.Value]], turn: int) -> None:
        """64 rows of 32 or 64 columns from ``begin`` on; staging buffers take turns.  Columns of which some are outside are written one by one."""
        words, n, columns = self.words, self.tiling.n, 8 * len(pairs)

        def inside() -> None:
            base = words.add(self.group.staging, turn % self.schedule.buffers * 64 * ROW)
            if 2 * columns != ROW:  # a warp stays within what it has of every part: no other one waits for it
                base = words.add(base, words.mul(words.shl(self.group.warp, 4), ROW - 2 * columns))
            nvvm.SyncWarpOp(words.value(-1))  # all lanes have read what was there before
            self.stage_matrices(base, 2 * columns, pairs)
            nvvm.SyncWarpOp(words.value(-1))
            self._copy_lines(access, block, begin, columns, base)

        def across() -> None:
            self.write_halves(access, 64 * block, begin // 8, pairs)

        if n.size % self.schedule.tile_n == 0:
            inside()
        else:
            _either(words.less(words.add(self.n0, begin + columns - 1), n.size), inside, across)

    def _copy_lines(self, access: Access, block: int, begin: int, columns: int, base: Integer) -> None:
        """From shared memory at ``base`` to memory."""
        words, lane, stride = self.words, self.group.lane, self.tiling.m.stride(access)
        each = columns // 2  # words of a line
        place, down = words.mask(lane, each - 1), words.shl(words.shr(lane, 4), 3) if each == 16 else 0
        first = words.shl(self.group.warp, 4)
        row = words.add(words.add(words.add(self.m0, 64 * block), first), down)
        offset = self.offset(access, row, words.add(self.n0, begin))
        line = words.add(base, words.mul(first, 2 * columns))
        ends = words.equal(place, 0), words.equal(place, each - 1)
        beside = arith.xori(ends[0], words.equal(0, 0)), arith.ori(*ends)  # lanes that write words, and elements, where a line begins inside of a word
        at_end = words.add(offset, words.select(ends[0], 0, columns - 1))

        def lines(odd: int) -> None:
            """The lines, of which the first begins inside of a word if ``odd``."""
            for step in range(_ROWS * each // 32):
                at = words.add(down, step)
                chunk = words.shl(tma.swizzled(words, at, words.shr(place, 2), 2 * columns), 4)
                inside = words.add(words.mul(at, 2 * columns), words.add(chunk, words.shl(words.mask(place, 3), 2)))
                word, plus = load_shared(words, words.add(line, inside), words.type, 1), step * stride
                here = self.line_conditions(block, words.add(row, step), at)
                if (odd + plus) % 2 == 0:
                    self._put(_halves(word, access), access, words.add(offset, words.shl(place, 1)), plus, 2, here)
                    continue
                before = operation("nvvm.shfl.sync", [words.type], [words.value(-1), word, words.value(1), words.value(0)], kind="#nvvm<shfl_kind up>")
                (low, high), (_, left) = lanes_of(_halves(word, access)), lanes_of(_halves(before, access))
                self._put(join([left, low]), access, words.add(offset, words.shl(place, 1)), plus - 1, 2, [beside[0], *here])
                self._put(arith.select(ends[0], low, high), access, at_end, plus, 1, [beside[1], *here])

        if self.paired(access):
            lines(0)
        else:
            _either(words.equal(words.mask(offset, 1), 1), lambda: lines(1), lambda: lines(0))

    def line_conditions(self, block: int, row: Integer, line: Integer) -> list[ir.Value]:
        """On which ``line`` of a warp's 16 is written, which is this row of the tensor."""
        return self.conditions(row)

    def _put(self, value: ir.Value, access: Access, offset: Integer, plus: int, lanes: int, conditions: Sequence[ir.Value]) -> None:
        def put() -> None:
            store(value, self.tensor(access).pointer(offset, plus), 2 * lanes)

        if not conditions:
            put()
            return
        with only_if(*conditions):
            put()


def _halves(word: ir.Value, access: Access) -> ir.Value:
    return operation("llvm.bitcast", [ir.VectorType.get([2], access.element)], [word])


def _either(condition: ir.Value, one: Callable[[], None], other: Callable[[], None]) -> None:
    choice = scf.IfOp(condition, has_else=True)
    for block, emit in ((choice.then_block, one), (choice.else_block, other)):
        with ir.InsertionPoint(block):
            emit()
            scf.yield_([])
