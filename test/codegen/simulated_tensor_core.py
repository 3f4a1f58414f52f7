"""The tensor core's products by mma.sync on the simulator, and the registers of two numbers that it takes."""

import re

import numpy as np
from simulated_arithmetic import from_bf16, register_dtype, to_bf16

from inferno.mlir import ir


class TensorCore:
    """Handlers of ``Simulation``.  ``cuts``: factors may be any float32, of which the tensor core sees what is TF32."""

    cuts = False

    def llvm_bitcast(self, op, operands, mask):
        if all(isinstance(v.type, ir.VectorType) for v in (op.operands[0], op.results[0])):
            return self.vector_bitcast(op, operands, mask)
        if isinstance(op.results[0].type, ir.VectorType):  # of 16 bits
            element = op.results[0].type.element_type
            halves = np.ascontiguousarray(np.broadcast_to(operands[0], mask.shape).astype(np.int32))[:, None].view(np.uint16)
            return [from_bf16(halves) if isinstance(element, ir.BF16Type) else halves.view(register_dtype(element))]
        value, element = np.asarray(operands[0]), op.operands[0].type.element_type
        value = to_bf16(value) if isinstance(element, ir.BF16Type) else value.astype(register_dtype(element))
        return [np.ascontiguousarray(value).view(np.int32)[:, 0]]

    def mma_sync(self, text: str, operands, mask):
        """What mma.sync's ``text`` says: four sums (two of 8 rows) of each thread and what is added to them."""
        shape = re.match(r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col\.\w+\.(\w+)\.(\w+)\.", text)
        assert shape, text
        assert self.is_whole(mask, 32), "a product that not all threads of a warp reach"
        rows, terms, kinds = int(shape[1]), int(shape[2]), (shape[3], shape[4])
        sums = rows // 4
        count = {(8, 4): 1, (16, 8): 4}.get((rows, terms), 4)
        lhs, rhs, old = operands[:count], operands[count:-sums], operands[-sums:]
        a = _matrix([self.warps(x) for x in lhs], kinds[0], rows, terms, rows // 8, self.cuts)
        b = _matrix([self.warps(x) for x in rhs], kinds[1], 8, terms, 1, self.cuts)
        total = np.empty((len(a), rows, 8), np.asarray(old[0]).dtype)
        places = [(slice(None), slice(8 * (i // 2), 8 * (i // 2) + 8), slice(i % 2, None, 2)) for i in range(sums)]
        for place, x in zip(places, old):
            total[place] = self.warps(x)
        total = self.added(a, b, total)
        return [[np.ascontiguousarray(total[place]).reshape(-1) for place in places]]

    def added(self, a: np.ndarray, b: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """The sums of each warp with its products."""
        wide = np.int64 if sums.dtype.kind == "i" else np.float64
        return (a.astype(wide) @ b.astype(wide).swapaxes(1, 2) + sums.astype(wide)).astype(sums.dtype)

    def warps(self, value: np.ndarray) -> np.ndarray:
        """By warp, ``pair`` and ``quad``."""
        return np.broadcast_to(value, (self.count,)).reshape(-1, 8, 4)


def _matrix(registers: list[np.ndarray], kind: str, rows: int, terms: int, halves: int, cuts: bool) -> np.ndarray:
    """[warp, row, term] of a factor; register i holds half i % halves of the rows, part i // halves of the terms."""
    parts = len(registers) // halves
    made = None
    for i, register in enumerate(registers):
        if kind in ("bf16", "f16", "s8", "u8"):
            kept = {"bf16": np.uint16, "f16": np.float16, "s8": np.int8, "u8": np.uint8}[kind]
            values = np.ascontiguousarray(register.astype(np.int32))[..., None].view(kept).reshape(*register.shape[:2], -1)
            values = from_bf16(values) if kind == "bf16" else values
        elif kind == "tf32":
            bits = np.ascontiguousarray(register.astype(np.int32))
            finite = (bits & 0x7F800000) != 0x7F800000
            assert cuts or ((bits & 0x1FFF == 0) | ~finite).all(), "a factor that is not rounded to TF32"
            values = np.where(finite, bits & ~0x1FFF, bits).view(np.float32)
        else:
            values = register
        if made is None:
            made = np.zeros((register.shape[0], rows, terms), values.dtype)
        half, part = i % halves, i // halves
        made[:, 8 * half:8 * half + 8, part * (terms // parts):(part + 1) * (terms // parts)] = values
    return made
