"""Schedule tiles of attention so that every block of threads gets equally many blocks of keys: its share may begin or end within a tile, which it then has
together with a neighbour (``fixup``).

Each of n workers has whole tiles, every n-th, as many as leave more than one for each; those that are left lie behind each other,
and each worker has as many of their blocks of keys as the others, a tile's or more.  So a tile belongs to two workers at most.
"""

from dataclasses import dataclass

from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words
from inferno.mlir import arith


@dataclass(frozen=True)
class EvenTiles:
    """Of ``tiles`` with ``blocks`` blocks of keys each those that are this ``worker``'s of ``workers``."""

    words: Words
    worker: Integer
    workers: int
    tiles: int
    blocks: int

    @property
    def whole(self) -> int:
        """Tiles that a worker has for itself."""
        return self.tiles // self.workers - 1

    def bound(self, worker: Integer) -> Integer:
        """Where a worker's share of the tiles that are left begins, in blocks of keys."""
        words = self.words
        return words.div(words.mul(worker, (self.tiles - self.whole * self.workers) * self.blocks), self.workers)

    @property
    def begin(self) -> Integer:
        return self.bound(self.worker)

    @property
    def end(self) -> Integer:
        return self.bound(self.words.add(self.worker, 1))

    @property
    def steps(self) -> Integer:
        """Tiles of which this worker has any."""
        words = self.words
        return words.add(words.sub(words.div(words.add(self.end, self.blocks - 1), self.blocks), words.div(self.begin, self.blocks)), self.whole)

    def find(self, step: Integer) -> tuple[Integer, Integer, Integer]:
        """The tile that this worker has then, and of its blocks those from which and to which."""
        words = self.words
        own = words.less(step, self.whole)
        tile = words.add(words.div(self.begin, self.blocks), words.sub(step, self.whole))
        first = words.mul(tile, self.blocks)
        begin = arith.maxsi(words.value(words.sub(self.begin, first)), words.value(0))
        end = arith.minsi(words.value(words.sub(self.end, first)), words.value(self.blocks))
        alone = words.add(self.worker, words.mul(step, self.workers))
        shared = words.add(tile, self.whole * self.workers)
        return words.select(own, alone, shared), words.select(own, 0, begin), words.select(own, self.blocks, end)
