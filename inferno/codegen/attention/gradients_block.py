"""What a block of threads of a kernel of attention's gradients is given, and how its threads share the work."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.codegen.attention.blocks import LaidLists
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.tile_numbers import TileNumbers
from inferno.codegen.matmul.wgmma_epilogue import Warpgroup
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import Words, special_register, uniform
from inferno.codegen.nvvm.global_memory import Elements
from inferno.codegen.nvvm.mbarriers import Ring
from inferno.mlir import ir, nvvm


@dataclass
class Block:
    """``maps`` are the tensor maps of what is copied to ``shared`` memory, and of what is kept; ``stores`` those of results, by number, that the copy
    engine writes; ``tensors`` what is read or written without it, by argument.  Tiles are of ``heads`` positions of the grid from ``begin`` on, and
    ``counter`` counts those that were given out to ``workers`` blocks, of which ``worker`` is this one's number;
    ``lists`` are of the blocks of columns that they see; ``added`` where gradients of queries are added up, and counters of these."""

    words: Words
    shared: ir.Value
    maps: Sequence[ir.Value]
    stores: dict[int, ir.Value]
    tensors: dict[int, Elements]
    workers: int
    counter: ir.Value | None
    heads: int
    begin: Integer
    lists: LaidLists | None = None
    added: Sequence[ir.Value] | None = None

    def __post_init__(self) -> None:
        words = self.words
        self.thread = special_register("tid.x")
        self.warp, self.worker = uniform(words, words.shr(self.thread, 5)), special_register("ctaid.x")

    @property
    def consumer(self) -> Integer:
        """The number of this thread's warpgroup among those that multiply."""
        return self.words.sub(self.words.shr(self.warp, 2), 1)

    def group(self, staging: Integer) -> Warpgroup:
        """This thread's, whose results come to memory by way of shared memory from ``staging`` on."""
        words = self.words
        return Warpgroup(self.consumer, words.mask(self.thread, 127), words.mask(self.warp, 3), words.mask(self.thread, 31), staging)

    def numbers(self, ring: Ring, place: Integer, count: int) -> TileNumbers:
        """How the numbers of ``count`` tiles come to the consumers."""
        return TileNumbers(self.words, ring, place, self.counter, self.worker, self.workers, count, late=True)

    def initialize(self, *rings: Ring) -> None:
        """By one thread."""
        for m in (*self.maps, *self.stores.values()):
            tma.prefetch(m)
        for ring in rings:
            ring.initialize()
        nvvm.FenceMbarrierInitOp()
