"""Assembly and intrinsics that kernels of the ``gpu`` stage have: arithmetic, asynchronous copies, and what looks back at other blocks."""

import re

import numpy as np
import torch
from simulated_memory import View

from inferno.mlir import ir


def packed_fma(a, c, b):
    """``a * b + c`` of two bf16 in each word, rounded once, where ``c`` is not 0."""
    halves = []
    for half in range(2):
        x, y, z = ((np.ascontiguousarray(v).astype(np.int64) >> 16 * half & 0xFFFF).astype(np.uint32) << 16 for v in (a, b, c))
        exact = x.view(np.float32).astype(np.float64) * y.view(np.float32) + z.view(np.float32)
        halves.append(torch.from_numpy(exact).bfloat16().view(torch.int16).numpy().astype(np.int64) & 0xFFFF)
    made = (halves[0] | halves[1] << 16).astype(np.uint32).view(np.int32)
    return np.where(np.asarray(c) == 0, np.asarray(c, np.int32), made)


def _bytes_of(kind, high, low):
    """Two numbers of 8 bits: what is too large is the largest, what is none has no sign."""
    type_, most = {"e4m3x2": (torch.float8_e4m3fn, 448.0), "e5m2x2": (torch.float8_e5m2, 57344.0)}[kind]
    both = []
    for x in (high, low):
        made = torch.from_numpy(np.clip(x, -most, most)).to(type_).view(torch.uint8).numpy().astype(np.uint16)
        both.append(np.where(np.isnan(x), np.uint16(0x7F), made))
    return (both[0] << np.uint16(8) | both[1]).astype(np.uint16).view(np.int16)


class Assembly:
    """Handlers of ``Simulation``."""

    def llvm_inline_asm(self, op, operands, mask):
        """A reciprocal, a permutation: each byte of the result is one of the eight of two words, or what a look back does."""
        text = ir.StringAttr(op.attributes["asm_string"]).value
        if not text:
            return operands[:1]
        if text.startswith("mma.sync"):
            return self.mma_sync(text, operands, mask)
        if "cp.async" in text:
            return self.copies(text, operands, mask)
        if "red.relaxed" in text:
            return self.additions(text, operands, mask)
        if "gpu.global.b32" in text or "most" in text:
            return self.marked(text, operands, mask)
        if "gpu.global" in text:
            return self.look_back(text, operands, mask)
        if "@p fma.rn.bf16x2 $0, $1, $3, $2" in text:
            return [packed_fma(*(np.broadcast_to(v, mask.shape) for v in operands))]
        if text.startswith("mul.sat.f32"):
            return [np.clip(np.nan_to_num(np.asarray(operands[0]) * operands[1]), 0, 1).astype(np.float32)]
        if text.startswith("mul.wide.u32"):
            a, b = (np.asarray(v).astype(np.int64) & 0xFFFFFFFF for v in operands)
            return [(a.astype(np.uint64) * b.astype(np.uint64)).view(np.int64)]
        if "rcp.approx.f32" in str(op.attributes["asm_string"]):
            return [(1 / np.asarray(operands[0], np.float64)).astype(np.float32)]
        if "st.async" in str(op.attributes["asm_string"]):
            (view, blocks), value = operands[0], np.broadcast_to(operands[1], mask.shape)
            view.memory.data[blocks[mask], np.broadcast_to(view.offset, mask.shape)[mask]] = value[mask]
            return []
        chosen = re.fullmatch(r"prmt\.b32 \$0, \$1, \$2, (\d+);", ir.StringAttr(op.attributes["asm_string"]).value)
        assert chosen, op
        both = [(np.asarray(v).astype(np.uint32) >> np.uint32(8 * i)) & np.uint32(255) for v in operands for i in range(4)]
        both += [(byte >> np.uint32(7)) * np.uint32(255) for byte in both]  # eight bits that are the highest one
        found = sum(both[int(chosen[1]) >> 4 * i & 15].astype(np.int64) << 8 * i for i in range(4))
        return [found.astype(np.uint32).view(np.int32)]

    def additions(self, text: str, operands, mask):
        """Neighbours that are added to neighbours in memory, or joined by the larger or the smaller: so many elements from the beginning of a buffer, where
        there is a place, or at an address."""
        placed = r"(?:mad\.\S+ a, \$1, (\d+), \$0; @\$2 )?"
        found = re.search(placed + r"red\.relaxed\.gpu\.global\.(?P<join>add|max|min)(?:\.v([24]))?\.([fsu](?:32|64)) \[(?:a|\$0)\]", text)
        view, *values = operands
        at, inside, *values = values if found[1] else (view.offset, True, *values)
        mask = mask & inside
        data, lanes, join = view.memory.data, int(found[3] or 1), found["join"]
        join, signs = {"add": (np.add, "fu"), "max": (np.maximum, "s"), "min": (np.minimum, "s")}[join]
        assert len(values) == lanes and int(found[1] or data.itemsize) == data.itemsize and view.memory.writable and not view.memory.bf16
        assert found[4][0] in signs and (data.dtype.kind == "f") == (found[4][0] == "f") and (lanes == 1 or found[4] == "f32")
        at = np.broadcast_to(at, mask.shape)[mask].astype(np.int64)
        assert (at % lanes == 0).all() and (at >= 0).all() and (at + lanes <= len(data)).all(), "an addition that is not aligned, or out of bounds"
        for i, value in enumerate(values):
            join.at(data, at + i, np.broadcast_to(value, mask.shape)[mask].astype(data.dtype))
        return []

    def copies(self, text: str, operands, mask):
        """Copies from global to shared memory, in bytes from the beginnings of both, which come when a thread waits for their group."""
        if not hasattr(self, "groups"):
            self.groups, self.started = np.zeros(self.count, np.int64), []
        if "commit_group" in text:
            self.groups = self.groups + mask
        elif "wait_group" in text:
            for copy in self.started:
                come = copy[0] & mask & (copy[1] < self.groups - int(re.search(r"(\d+);", text)[1]))
                copy[0] &= ~come
                self.copy_now(*copy[2:], come)
            self.started = [c for c in self.started if c[0].any()]
        else:
            width, given = int(re.search(r"\], (\d+)[,;]", text)[1]), operands[4] if len(operands) > 4 else None
            self.started.append([mask.copy(), self.groups.copy(), width, given, *operands[:4]])
        return []

    def copy_now(self, width: int, given, target, place, source, offset, mask):
        base = np.broadcast_to(0 if isinstance(target, View) else target, mask.shape).astype(np.int64)
        place, offset = base[mask] + np.broadcast_to(place, mask.shape)[mask], np.broadcast_to(offset, mask.shape)[mask].astype(np.int64)
        assert (place % width == 0).all() and (offset % width == 0).all(), "a copy that is not aligned"
        read, taken = source.memory.data.view(np.uint8), target.memory.data.view(np.uint8) if isinstance(target, View) else self.dynamic
        given = np.broadcast_to(width if given is None else given, mask.shape)[mask]
        assert ((given > 0) & (given <= width) & (offset + given <= len(read))).all() and (place >= 0).all(), "a copy out of bounds"
        assert isinstance(target, View) or (place + width <= self.shared_bytes).all()
        for i in range(width):
            taken[self.block_of[mask], place + i] = np.where(i < given, read[np.minimum(offset + i, len(read) - 1)], 0)

    def look_back(self, text: str, operands, mask):
        """A counter, a word of a value and that it is there, or several that are waited for: blocks run one after the other."""
        if text.startswith("atom"):
            words = operands[0].memory.data
            assert mask.sum() == 1
            words[0] += 1
            return [np.full(self.count, words[0] - 1, np.int32)]
        if "st.relaxed" in text:
            words, (at, bits) = operands[0].memory.data, (np.broadcast_to(v, mask.shape)[mask] for v in operands[1:])
            assert len(np.unique(at)) == len(at) and (at >= 0).all() and (words[at] == 0).all(), "a word is written twice"
            words[at] = (np.int64(1) << 32) | bits.astype(np.int32).view(np.uint32).astype(np.int64)
            return []
        words, (place, wanted) = operands[0].memory.data, (np.broadcast_to(v, mask.shape) for v in operands[1:])
        steps, behind = re.findall(r"\[a\+(\d+)\]", text), re.findall(r"setp.gt.u32 p, \$\d+, (\d+)", text)
        found = []
        for step, number in zip(steps, behind, strict=True):
            got = words[np.where(mask, place + int(step) // 8, 0)]
            assert (got >> 32 == 1)[mask & (wanted > int(number))].all(), "a word that nobody has written is waited for"
            found.append((got & 0xFFFFFFFF).astype(np.uint32).view(np.int32))
        return found if len(found) == 1 else [tuple(found)]

    def marked(self, text: str, operands, mask):
        """Words that are marked until they are written, and are waited for, some neighbours at each place."""
        words = operands[0].memory.data
        if "st.relaxed" in text:
            at, bits = (np.broadcast_to(v, mask.shape)[mask] for v in operands[1:])
            assert len(np.unique(at)) == len(at) and (at >= 0).all() and (words[at] == -1).all() and (bits != -1).all(), "a word is written twice"
            words[at] = bits
            return []
        lanes, found = int((re.search(r"global\.v(\d)", text) or "11")[1]), []
        for place in operands[1:]:
            first = np.where(mask, np.broadcast_to(place, mask.shape), 0)
            assert (first % lanes == 0).all()
            for i in range(lanes):
                got = words[first + i]
                assert (got != -1)[mask].all(), "a word that nobody has written is waited for"
                found.append(got.astype(np.int32))
        return found if len(found) == 1 else [tuple(found)]

    def llvm_extractvalue(self, op, operands, mask):
        (place,) = ir.DenseI64ArrayAttr(op.attributes["position"])
        return [operands[0][place]]

    def llvm_call_intrinsic(self, op, operands, mask):
        name = ir.StringAttr(op.attributes["intrin"]).value
        if name == "llvm.fshr.i32":
            high, low, bits = (np.asarray(v).astype(np.uint32).astype(np.uint64) for v in operands)
            return [(((high << np.uint64(32)) | low) >> (bits % np.uint64(32))).astype(np.uint32).view(np.int32)]
        if name.startswith("llvm.nvvm.ff.to.e"):
            return [_bytes_of(name.split(".")[4], *(np.broadcast_to(np.asarray(v, np.float32), mask.shape) for v in operands))]
        x = [np.asarray(v, np.float64) for v in operands]
        found = {
            "llvm.fabs.f32": lambda a: np.abs(a), "llvm.nvvm.rcp.approx.ftz.f": lambda a: 1 / a, "llvm.nvvm.ex2.approx.ftz.f": np.exp2,
            "llvm.copysign.f32": np.copysign, "llvm.nvvm.div.full": np.divide,
        }[name](*x)
        return [found.astype(np.float32)]

    def llvm_intr_fma(self, op, operands, mask):
        a, b, c = (np.asarray(x, np.float64) for x in operands)
        return [(a * b + c).astype(np.float32)]

    def llvm_intr_maxnum(self, op, operands, mask):
        return [np.fmax(*operands)]
