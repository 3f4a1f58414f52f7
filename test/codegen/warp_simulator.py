"""Kernels of the llvm and nvvm dialects on the simulator: pointers, ldmatrix, mma.sync and asynchronous copies.

A copy happens when it is waited for - or, with ``early``, when it is started: a kernel that waits too little reads NaN in the one
way, and one that starts copies to a slot that is still read gets the wrong tile in the other.
"""

from dataclasses import dataclass, field

import numpy as np
from simulated_arithmetic import from_bf16, register_dtype, to_bf16
from simulated_memory import Memory
from simulator import Simulation

from inferno.mlir import ir


_INTRINSICS = {
    "ex2": np.exp2, "lg2": np.log2, "rcp": lambda a: 1 / a, "rsqrt": lambda a: 1 / np.sqrt(a), "tanh": np.tanh, "minnum": np.fmin,
    "maxnum": np.fmax, "fabs": np.abs, "copysign": np.copysign, "div": np.divide,
    "fshr": lambda high, low, bits: _words(high, low) >> (bits & 31).astype(np.uint64),
}


def _words(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Two words of 32 bits as one of 64."""
    return high.astype(np.uint32).astype(np.uint64) << np.uint64(32) | low.astype(np.uint32)


@dataclass(frozen=True)
class Pointer:
    """``data`` are bytes, by block if shared; ``at`` has an address for each thread."""

    data: np.ndarray
    at: np.ndarray
    shared: bool
    writable: bool = True


@dataclass
class WarpSimulation(Simulation):
    """One launch of an ``llvm.func``."""

    shared: int = 0
    early: bool = False
    pending: list = field(default_factory=list)  # groups of copies, the last one open

    def run(self) -> None:
        self.count = self.blocks * self.threads
        self.block_of, self.lane_of = np.arange(self.count) // self.threads, np.arange(self.count) % self.threads
        self.memory = np.full((self.blocks, self.shared), 0xFF, np.uint8)
        self.pending = [[]]
        body = self.function.regions[0].blocks[0]
        attributes = list(self.function.attributes["arg_attrs"])
        for argument, parameter, known in zip(body.arguments, self.parameters, attributes):
            if isinstance(parameter, Memory):
                writable = "llvm.readonly" not in ir.DictAttr(known)
                self.values[argument] = Pointer(parameter.data.view(np.uint8), np.zeros(self.count, np.int64), False, writable)
            else:
                self.values[argument] = np.int64(parameter)
        with np.errstate(all="ignore"):
            self.block(body, np.ones(self.count, bool))

    # Registers and pointers.

    def nvvm_read_ptx_sreg_tid_x(self, op, operands, mask):
        return [self.lane_of.astype(np.int32)]

    def nvvm_read_ptx_sreg_ctaid_x(self, op, operands, mask):
        return [self.block_of.astype(np.int32)]

    def llvm_mlir_addressof(self, op, operands, mask):
        return [Pointer(self.memory, np.zeros(self.count, np.int64), True)]

    def llvm_ptrtoint(self, op, operands, mask):
        return [operands[0].at.astype(np.int32)]

    def llvm_inttoptr(self, op, operands, mask):
        return [Pointer(self.memory, np.broadcast_to(operands[0], mask.shape).astype(np.int64), True)]

    def llvm_getelementptr(self, op, operands, mask):
        base, size = operands[0], _bytes(ir.TypeAttr(op.attributes["elem_type"]).value)
        (constant,) = ir.DenseI32ArrayAttr(op.attributes["rawConstantIndices"])
        steps = np.asarray(operands[1], np.int64) if len(operands) > 1 else constant
        return [Pointer(base.data, base.at + steps * size, base.shared, base.writable)]

    def llvm_extractvalue(self, op, operands, mask):
        (place,) = ir.DenseI64ArrayAttr(op.attributes["position"])
        return [operands[0][place]]

    def nvvm_shfl_sync(self, op, operands, mask):
        self.check_together(mask, 32)
        value, lanes = np.broadcast_to(operands[1], mask.shape), np.arange(self.count)
        if "idx" in str(op.attributes["kind"]):
            return [value[lanes // 32 * 32 + operands[2]]]
        if "up" in str(op.attributes["kind"]):
            return [value[np.where(lanes % 32 < operands[2], lanes, lanes - operands[2])]]
        assert "bfly" in str(op.attributes["kind"])
        return [value[lanes ^ int(operands[2])]]

    def llvm_call_intrinsic(self, op, operands, mask):
        name = ir.StringAttr(op.attributes["intrin"]).value
        function = next(f for part, f in _INTRINSICS.items() if part in name.split("."))
        x = [np.asarray(v) for v in operands]
        return [function(*x).astype(x[0].dtype)]

    # Memory.

    def llvm_load(self, op, operands, mask):
        type_ = op.results[0].type
        element, lanes = (type_.element_type, type_.shape[0]) if isinstance(type_, ir.VectorType) else (type_, 1)
        if operands[0].shared:
            self.check_banks(operands[0].at[mask], min(32, 128 // (_bytes(element) * lanes)), _bytes(element) * lanes)
        found = self.gather(operands[0], _bytes(element) * lanes, mask)
        found = from_bf16(found.view(np.uint16)) if isinstance(element, ir.BF16Type) else found.view(register_dtype(element))
        return [found if lanes > 1 else found[:, 0]]

    def llvm_store(self, op, operands, mask):
        value, type_ = np.asarray(operands[0]), op.operands[0].type
        element = type_.element_type if isinstance(type_, ir.VectorType) else type_
        value = to_bf16(value) if isinstance(element, ir.BF16Type) else value.astype(register_dtype(element))
        lanes = value.shape[-1] if isinstance(type_, ir.VectorType) else 1
        value = np.broadcast_to(value.reshape(-1, lanes), (self.count, lanes))
        self.scatter(operands[1], np.ascontiguousarray(value).view(np.uint8), mask)
        return []

    def gather(self, pointer: Pointer, count: int, mask: np.ndarray) -> np.ndarray:
        """``count`` bytes for each thread."""
        return self.bytes_at(pointer, self.block_of, count, mask)

    def bytes_at(self, pointer: Pointer, blocks: np.ndarray, count: int, mask: np.ndarray) -> np.ndarray:
        self.check(pointer, count, mask, reads=True)
        rest = -pointer.data.shape[-1] % count if count & count - 1 == 0 else 0
        whole = np.pad(pointer.data, (0, rest), constant_values=0xFF) if rest else pointer.data
        data, at = _elements(whole, np.where(mask, pointer.at, 0), count)
        found = data[blocks[:, None], at] if pointer.shared else data[at]
        return np.ascontiguousarray(found).view(np.uint8).reshape(-1, count)

    def scatter(self, pointer: Pointer, value: np.ndarray, mask: np.ndarray) -> None:
        assert pointer.writable, "a store to a read-only parameter"
        self.check(pointer, value.shape[1], mask)
        data, at = _elements(pointer.data, pointer.at[mask], value.shape[1])
        where, wanted = (self.block_of[mask][:, None], at) if pointer.shared else at, np.ascontiguousarray(value[mask])
        data[where] = wanted.view(data.dtype)
        assert (data[where] == wanted.view(data.dtype)).all(), "two threads store different values to one place"

    def check(self, pointer: Pointer, count: int, mask: np.ndarray, reads: bool = False) -> None:
        """Of aligned bytes of which the first are a tensor's all can be read."""
        at, size = pointer.at[mask], pointer.data.shape[-1]
        if len(at):
            end = -(-size // count) * count if reads and count & count - 1 == 0 else size
            assert count & count - 1 or not (at % count).any(), "an access that is not aligned"
            assert at.min() >= 0 and at.max() + count <= end, f"an access out of bounds: {at.min()}..{at.max()} of {size}"

    def check_banks(self, addresses: np.ndarray, together: int, size: int) -> None:
        """So many addresses are read at the same time: from different banks, or from the same place."""
        for row in np.unique(addresses.reshape(-1, together), axis=0):
            places = np.unique(row)
            assert len(np.unique(places // size % (128 // size))) == len(places), "a bank conflict"

    # Asynchronous copies.

    def nvvm_cp_async_shared_global(self, op, operands, mask):
        size = ir.IntegerAttr(op.attributes["size"]).value
        into, source = operands[:2]
        valid = np.broadcast_to(operands[2] if len(operands) > 2 else size, mask.shape)
        assert ((valid >= 0) & (valid <= size))[mask].all() and (source.at[mask] % size == 0).all()
        found = np.zeros((self.count, size), np.uint8)
        for count in np.unique(valid[mask]):
            if count:
                some = mask & (valid == count)
                place = np.where(some, source.at, 0)[:, None] + np.arange(count)
                assert place[some].max() < source.data.shape[-1] and place[some].min() >= 0, "a copy from out of bounds"
                found[some, :count] = source.data[place[some]]
        if self.early:
            self.scatter(into, found, mask)
        else:
            self.pending[-1].append((into, found, mask))
        return []

    def nvvm_cp_async_commit_group(self, op, operands, mask):
        self.pending.append([])

    def nvvm_cp_async_wait_group(self, op, operands, mask):
        left = ir.IntegerAttr(op.attributes["n"]).value
        while len(self.pending) - 1 > left:
            for copy in self.pending.pop(0):
                self.scatter(*copy)

    def nvvm_barrier(self, op, operands, mask):
        self.check_together(mask, self.threads)

    def nvvm_bar_warp_sync(self, op, operands, mask):
        self.check_together(mask, 32)

    def check_together(self, mask: np.ndarray, threads: int) -> None:
        reached = mask.reshape(-1, threads)
        assert (reached.all(1) | ~reached.any(1)).all(), f"an operation of {threads} threads that not all of them reach"

    # The tensor core.

    def nvvm_ldmatrix(self, op, operands, mask):
        self.check_together(mask, 32)
        transposed = "col" in str(op.attributes["layout"])
        self.check_banks(operands[0].at[mask], 8, 16)
        lines = self.gather(operands[0], 16, mask).view(np.uint16).reshape(-1, 4, 8, 8)  # warp, matrix, line, element
        if transposed:
            lines = lines.swapaxes(2, 3)
        registers = np.ascontiguousarray(lines).view(np.int32)  # warp, matrix, line, quad
        return [[np.ascontiguousarray(registers[:, i]).reshape(-1) for i in range(4)]]

    def llvm_inline_asm(self, op, operands, mask):
        text = ir.StringAttr(op.attributes["asm_string"]).value
        if text.startswith(("prmt.b32", "rcp.approx.f32", "mul.wide.u32", "mul.sat.f32")) or "fma.rn.bf16x2" in text:
            return super().llvm_inline_asm(op, operands, mask)
        if not text or text.startswith("mov.b32"):
            return [operands[0]]
        if text.startswith("cvt.rna.tf32"):
            bits = np.broadcast_to(operands[0], mask.shape).astype(np.asarray(operands[0]).dtype).view(np.int32).astype(np.int64) & 0xFFFFFFFF
            special = (bits & 0x7F800000) == 0x7F800000
            return [np.where(special, bits, (bits + 0x1000) & ~0x1FFF).astype(np.uint32).view(np.int32)]
        assert text.startswith("mma.sync"), text
        return self.mma_sync(text, operands, mask)


def _elements(data: np.ndarray, at: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes as elements as large as ``count`` bytes at these places allow, and the numbers of those at each: a twelfth of the time of single bytes."""
    size = min(8, count) if count & count - 1 == 0 else 1
    return data[..., :data.shape[-1] // size * size].view(f"u{size}"), at[:, None] // size + np.arange(count // size)


def _bytes(type_: ir.Type) -> int:
    return max(8, type_.width) // 8
