"""Turns of a block's consumers: each starts its products after the one before it, so that one's exponentials overlap with another's products."""

from dataclasses import dataclass

from inferno.codegen.builders.conditions import only_if
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words
from inferno.mlir import nvvm


@dataclass(frozen=True)
class Turns:
    """Of consumer ``number`` of ``consumers``, warpgroups that take equally many turns; named barriers up to ``consumers`` are their own.
    Nothing is emitted where they are not ``taken``."""

    words: Words
    number: Integer
    consumers: int
    taken: bool

    def begin(self) -> None:
        """Before the first turn, which is the first consumer's."""
        if self.taken:
            with only_if(self.words.equal(self.number, self.consumers - 1)):
                self._pass_to(0)

    def take(self) -> None:
        if self.taken:
            words = self.words
            nvvm.BarrierOp(barrierId=words.value(words.add(self.number, 1 + self.consumers)), numberOfThreads=words.value(256))

    def pass_on(self) -> None:
        if self.taken:
            words = self.words
            following = words.add(self.number, 1)
            self._pass_to(words.select(words.equal(following, self.consumers), 0, following))

    def _pass_to(self, consumer: Integer) -> None:
        words = self.words
        nvvm.BarrierArriveOp(words.value(256), barrierId=words.value(words.add(consumer, 1 + self.consumers)))
