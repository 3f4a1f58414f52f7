"""The tensors that a kernel with windows reaches by pointers: what their parameters are, in the kernel and at its launch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferno.codegen.builders.launcher import pointer
from inferno.codegen.nvvm.builder import READ_BUFFER, WRITTEN_BUFFER, Words
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access


@dataclass(frozen=True)
class WindowTensors:
    """``types`` are those of the elements, by the number of the kernel function's argument, in order; ``written`` are the arguments that are results."""

    types: dict[int, ir.Type]
    written: frozenset[int]

    @staticmethod
    def of(read: Iterable[Access], written: Iterable[Access]) -> "WindowTensors":
        results = {a.argument: a.element for a in written}
        every = {a.argument: a.element for a in read} | results
        return WindowTensors({n: every[n] for n in sorted(every)}, frozenset(results))

    @property
    def parameters(self) -> list[str]:
        """As ``device_kernel`` takes them."""
        return [WRITTEN_BUFFER if n in self.written else READ_BUFFER for n in self.types]

    def elements(self, words: Words, pointers: Sequence[ir.Value]) -> dict[int, Elements]:
        """The tensors in the kernel, whose ``pointers`` come first of what is given."""
        return {n: Elements(words, p, type_, n not in self.written) for (n, type_), p in zip(self.types.items(), pointers)}

    def given(self, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        """What the launcher, which has ``arguments``, gives the kernel for them."""
        return [pointer(arguments[n]) for n in self.types]
