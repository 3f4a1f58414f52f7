"""An operand's tiles on their way from global memory to the shared memory that mma.sync's warps read.

Where the tensor is as the tile is to be, asynchronous copies bring it, of 16, 8 or 4 bytes as its alignment allows.  Otherwise - a
prologue, strides that break that rule, bytes that must be transposed - the threads load it to registers, while other tiles are
multiplied, and store what the prologue makes of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.codegen.builders.elements import as_vector, join, lanes_of, splat
from inferno.codegen.builders.inline import inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.builders.unaligned import piece, place_pieces
from inferno.codegen.matmul.mma_tile import Tile, round_to_tf32
from inferno.codegen.matmul.rewriting import lanes_before
from inferno.codegen.nvvm.builder import Words, integer_type, shared_pointer, store
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import arith, ir, nvvm
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.matmul.contraction import Operand
from inferno.schedule.matmul.mma import Way
from inferno.schedule.tiles.tiling import Axis
from inferno.symbolic import Int, is_multiple, product


@dataclass(frozen=True)
class Apart:
    """Neighbours that are not aligned together, in the aligned vectors that they lie in: ``past`` elements behind the beginning of the first."""

    vectors: list[ir.Value]
    past: Integer


Loaded = list[list[ir.Value | Apart]]


@dataclass
class Loader:
    """Brings tiles of one operand, by ``threads`` threads.  ``rows`` and ``k`` are its tiled axes; ``rounded``: to TF32 on the way,
    where the tile comes through registers."""

    words: Words
    operand: Operand
    way: Way
    tile: Tile
    rows: Axis
    k: Axis
    tensors: dict[int, Elements]
    threads: int
    rounded: bool
    _pieces: list[tuple[Integer, Integer]] = field(default_factory=list, init=False)

    @property
    def lanes(self) -> int:
        """Elements of a piece: of one copy, or of 16 bytes."""
        return (self.way.copy or 16) // self.tile.width

    @property
    def inner(self) -> Axis:
        return self.k if self.tile.along_k else self.rows

    def place(self, thread: ir.Value, first: Integer, grid: dict[Axis, Integer]) -> None:
        """Which pieces this thread moves of the tile at row ``first`` and a position of the ``grid``'s axes."""
        words, tile, lanes = self.words, self.tile, self.lanes
        count = tile.rows * tile.depth // lanes
        self.first, self.grid, self._pieces = first, grid, []
        for i in range(-(-count // self.threads)):
            number = words.add(thread, i * self.threads)
            if count % self.threads:
                number = words.min(number, count - 1)  # the same piece twice, with the same values
            lines = (tile.depth if tile.along_k else tile.rows) // lanes
            line, at = words.div(number, lines), words.mul(words.rem(number, lines), lanes)
            if self.way.across:  # neighbours in memory lie across the tile's lines
                line, at = words.rem(number, tile.rows), words.mul(words.div(number, tile.rows), lanes)
            self._pieces.append((line, at) if tile.along_k else (at, line))

    # Asynchronous copies.

    def copy(self, slot: Integer, k0: Integer, steps: dict[Axis, Integer]) -> None:
        """Start the copies of the tile from term ``k0`` on to the shared address ``slot``; what lies behind the end of k becomes 0."""
        words, tile, access = self.words, self.tile, self.operand.access
        tensor, bytes_ = self.tensors[access.argument], self.way.copy
        modifier = ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if bytes_ == 16 else 'ca'}>")
        where = {**self.grid, **steps}
        start = words.dot(list(where.values()), [a.stride(access) for a in where], access.offset)
        for row, term in self._pieces:
            r, k = self._clamped(words.add(self.first, row), not tile.along_k), words.add(k0, term)
            offset = words.add(start, words.dot([r, k], [self.rows.stride(access), self.k.stride(access)]))
            target = shared_pointer(words, words.add(slot, tile.place(words, row, term)))
            nvvm.CpAsyncOp(target, tensor.pointer(offset), bytes_, modifier, cpSize=self._valid(words.add(self.first, row), k))

    def _clamped(self, row: Integer, vector: bool) -> Integer:
        """A row that is there, for the rows behind the last one the last: they are computed, and not stored.  For a ``vector`` of rows the last
        that begins where a vector may."""
        size = self.rows.size
        if is_multiple(size, self.tile.rows):
            return row
        if not vector:
            return self.words.min(row, size - 1)
        return self.words.min(row, (size - 1) // self.lanes * self.lanes)

    def _valid(self, row: Integer, k: Integer) -> ir.Value | None:
        """How many bytes of a piece are elements of the tensor; None if all are.

        Rows behind the last one have none: where all blocks read the last one in their place, which one part of L2 has, 48 of 128 rows took an H200 0.6 us
        of each step (80x480 times 32 of 480x196 in bf16: 15.9 us)."""
        words, tile, size = self.words, self.tile, None
        inner = self.inner.size
        cut = not is_multiple(inner, self.lanes)  # pieces at its end
        if cut:
            size = words.mul(words.min(words.sub(inner, words.min(k if tile.along_k else row, inner)), self.lanes), tile.width)
        for axis, place, step, lies_along in ((self.rows, row, tile.rows, not tile.along_k), (self.k, k, tile.depth, tile.along_k)):
            if not (cut and lies_along) and not is_multiple(axis.size, step):
                size = words.select(words.less(place, axis.size), self.way.copy if size is None else size, 0)
        return None if size is None else words.value(size)

    # Through registers.

    def fetch(self, k0: Integer, steps: dict[Axis, Integer]) -> Loaded:
        """Load this thread's part of the tile from term ``k0`` on; what lies beyond an edge is clamped."""
        where = {**self.grid, **steps}
        return [
            [self._read(access, self.words.add(self.first, row), self.words.add(k0, term), where) for access in self.operand.reads]
            for row, term in self._pieces
        ]

    def commit(self, loaded: Loaded, slot: Integer, k0: Integer) -> None:
        """Finish what ``fetch`` loaded and store it to the shared address ``slot``; terms behind the end become 0."""
        words, tile = self.words, self.tile
        for (row, term), values in zip(self._pieces, loaded):
            value = self._finish(values)
            if not is_multiple(self.k.size, tile.depth):
                value = arith.select(lanes_before(words, self.k.size, words.add(k0, term), self.lanes, self.tile.along_k), value, splat(value.type, 0))
            if self.rounded:
                value = join([arith.bitcast(ir.F32Type.get(), round_to_tf32(x)) for x in lanes_of(value)])
            store(value, shared_pointer(words, words.add(slot, tile.place(words, row, term))), 16)

    def _read(self, access: Access, row: Integer, k: Integer, where: dict[Axis, Integer]) -> ir.Value | Apart:
        """What the prologue gets of one input for a piece: a vector, or a scalar where all its elements are the same.  Behind a line's end it is anything."""
        words, tensor, lanes = self.words, self.tensors[access.argument], self.lanes
        start = words.dot(list(where.values()), [a.stride(access) for a in where], access.offset)
        at, outer = (k, self.rows) if self.tile.along_k else (row, self.k)
        line = words.min(row if self.tile.along_k else k, outer.size - 1)
        start = words.add(start, words.mul(line, outer.stride(access)))
        inner, step = self.inner, self.inner.stride(access)
        if step == 0:
            return tensor.read(start)
        width = self._aligned(access, where) if step == 1 else 1
        if step == 1 and width < lanes and (whole := piece(access.element, lanes)) > 1:
            return self._apart(tensor, words.add(start, at), whole, product(access.shape))
        parts = []
        for i in range(0, lanes, width):
            place = words.add(at, i)
            if not is_multiple(inner.size, self.tile.depth if self.tile.along_k else self.tile.rows):
                place = words.min(place, inner.size - width)
            parts.append(tensor.read(words.add(start, words.mul(place, step)), 0, width, width))
        return parts[0] if len(parts) == 1 else join([x for p in parts for x in lanes_of(p)])

    def _apart(self, tensor: Elements, offset: Integer, width: int, count: Int) -> Apart:
        """The piece from ``offset`` on, in vectors of ``width``, which are no others than those of the tensor's ``count`` elements."""
        words = self.words
        past, last = words.rem(offset, width), words.mul(words.div(words.sub(count, 1), width), width)
        begin = words.sub(offset, past)
        return Apart([tensor.read(words.min(words.add(begin, i), last), 0, width, width) for i in range(0, self.lanes + 1, width)], past)

    def _aligned(self, access: Access, where: dict[Axis, Integer]) -> int:
        """Neighbours that are aligned together, and inside of the tensor together, wherever a piece begins."""
        outer = self.rows if self.tile.along_k else self.k
        strides = [access.offset, self.inner.size, outer.stride(access), *(a.stride(access) for a in where)]
        width = self.lanes
        while not all(is_multiple(x, width) for x in strides):
            width //= 2
        return width

    def _finish(self, values: Sequence[ir.Value | Apart]) -> ir.Value:
        values = [place_pieces(self.words, v.vectors, v.past, self.lanes) if isinstance(v, Apart) else v for v in values]
        value = values[0]
        if self.operand.prologue is not None:
            rest, unused = iter(values), arith.constant(integer_type(1), 0)
            arguments = [unused if s is None else next(rest) for s in self.operand.prologue.sources]
            value = inline_body(self.operand.prologue.block, arguments, (), self.lanes)[0]
        return as_vector(value, self.lanes)
