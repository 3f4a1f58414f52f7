"""What is done with vectors of eight sums that lie along the lanes of a kernel with windows: the epilogue, loads and stores."""

from collections.abc import Mapping
from dataclasses import dataclass

from inferno.codegen.builders.elements import as_vector, join, lanes_of, opaque_vector
from inferno.codegen.builders.inline import epilogue_arguments, inline_body
from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import Words
from inferno.codegen.nvvm.global_memory import Elements
from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.convolution.window_kernel import WindowKernel

VECTOR = 8
"""Lanes: 16 bytes of 16 bits each."""


@dataclass(frozen=True)
class VectorResults:
    """``tensors`` are the kernel's, by argument; ``lanes`` of a vector are read and written."""

    words: Words
    c: WindowKernel
    tensors: dict[int, Elements]
    lanes: int = VECTOR

    def constant(self, at: dict[int, Integer], moving: set[int]) -> dict[Access, ir.Value]:
        """What the epilogue reads that is the same wherever the loops ``moving`` are, read here."""
        return {a: opaque_vector(self.extra(a, at)) for a in self.c.contraction.extras if all(a.strides[d] == 0 for d in moving)}

    def finish(self, sums: ir.Value, at: dict[int, Integer], constant: Mapping[Access, ir.Value] | None = None) -> None:
        """The epilogue of a vector of sums and the stores; ``at`` has its coordinates by loop."""
        k, results, read = self.c.contraction, [], constant or {}
        if k.epilogue is not None:
            arguments = epilogue_arguments(k.epilogue, sums, lambda access: read[access] if access in read else self.extra(access, at))
            results = inline_body(k.epilogue.block, arguments, (), VECTOR)
        for d in k.destinations:
            value = as_vector(sums if d.source is None else results[d.source], VECTOR)
            if self.lanes < VECTOR:
                value = join(lanes_of(value)[:self.lanes]) if self.lanes > 1 else lanes_of(value)[0]
            offset, step = self.offset(d.access, at), d.access.strides[self.c.lane]
            tensor = self.tensors[d.access.argument]
            if step == 1 or self.lanes == 1:
                tensor.write(value, offset, 0, self.aligned(d.access))
            else:
                for lane, x in enumerate(lanes_of(value)):
                    tensor.write(x, offset, lane * step)

    def extra(self, access: Access, at: dict[int, Integer]) -> ir.Value:
        """What the epilogue reads of another tensor: a vector, or one element for all lanes."""
        tensor, offset, step = self.tensors[access.argument], self.offset(access, at), access.strides[self.c.lane]
        if step == 0:
            return tensor.read(offset)
        if step == 1:
            return self.filled(tensor.read(offset, 0, self.lanes, self.aligned(access)))
        return self.filled(join([tensor.read(offset, lane * step) for lane in range(self.lanes)]))

    def filled(self, value: ir.Value) -> ir.Value:
        """A vector whose lanes behind what is read are anything."""
        lanes = lanes_of(value) or [value]
        return value if self.lanes == VECTOR else join([*lanes, *lanes[:1] * (VECTOR - self.lanes)])

    def offset(self, access: Access, at: dict[int, Integer]) -> Integer:
        return self.words.dot(list(at.values()), [access.strides[d] for d in at], access.offset)

    def aligned(self, access: Access) -> int:
        """Lanes that are aligned together."""
        strides = [n for d, n in enumerate(access.strides) if d != self.c.lane]
        return next(n for n in (8, 4, 2, 1) if all(x % n == 0 for x in (access.offset, *strides)))
