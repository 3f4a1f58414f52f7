"""Numbers a column, such as the logarithms of sums of exponentials, that come to shared memory with the columns, in a kernel that accumulates gradients of
queries: read from there they need no registers before they are used, and nobody waits for memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inferno.codegen.attention.gradients_frame import Frame
from inferno.codegen.builders.integers import Integer
from inferno.codegen.matmul.pair_epilogue import PairEpilogue
from inferno.codegen.nvvm import tma
from inferno.codegen.nvvm.builder import load_shared
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.attention_gradients import brought_numbers
from inferno.schedule.tiles.tiling import Axis


class Numbers:
    def __init__(self, frame: Frame) -> None:
        self.frame, self.words = frame, frame.words
        self.accesses = brought_numbers(frame.gradient, frame.axes)
        self.each = 4 * frame.form.columns
        self.bytes = self.each * len(self.accesses)

    def at(self, slot: Integer) -> dict[Access, Integer]:
        """The shared addresses of those of the first column in a slot."""
        words, f = self.words, self.frame
        first = words.add(words.add(f.shared, f.layout.numbers), words.mul(slot, self.bytes))
        return {access: words.add(first, i * self.each) for i, access in enumerate(self.accesses)}

    def copy(self, where: Mapping[Axis, Integer], column: Integer, slot: Integer, barrier: ir.Value) -> None:
        """Of the columns from ``column`` on."""
        words, f = self.words, self.frame
        axes = (*f.axes.grid, *f.axes.outer)
        for access, target in self.at(slot).items():
            offset = words.dot([*(where[a] for a in axes), column], [*(a.stride(access) for a in axes), 1], access.offset)
            tma.load_piece(words, f.tensors[access.argument].pointer(offset), target, self.each, barrier)


@dataclass
class NumberedPairs(PairEpilogue):
    """Reads ``brought`` numbers at these shared addresses, which are those of this thread's first column."""

    brought: dict[Access, Integer] = field(default_factory=dict)

    def begin(self, places: Mapping[Access, Integer], lane: Integer) -> None:
        """For a block, whose first column's numbers are at these ``places``."""
        words = self.words
        own = words.shl(words.mask(lane, 3), 3)
        self.brought = {access: words.add(at, own) for access, at in places.items()}

    @property
    def loaded(self) -> Sequence[Access]:
        return [x for x in super().loaded if x not in self.brought]

    def read(self, source: Access, down: int, j: int) -> ir.Value:
        if source not in self.brought:
            return super().read(source, down, j)
        if (source, j) not in self._seen:
            self._seen[source, j] = load_shared(self.words, self.words.add(self.brought[source], 32 * j), source.element, 2)
        return self._seen[source, j]
