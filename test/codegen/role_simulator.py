"""Kernels whose warps have different roles on the simulator: mbarriers, named barriers, the copy engine, wgmma, clusters.

Every warpgroup runs on its own (the first one warp by warp), one at a time, until it waits for what is not there yet; then one goes on
that can, drawn at random, always alike.  If all wait the kernel would hang.  With ``early`` copies happen when they are started and stores
when they are, otherwise as late as they may: when somebody waits for them.  A kernel that fills a slot that is still read, or reads one
that is not filled, is wrong in one of the two.

Products are ``simulated_wgmma``'s.
"""

import functools
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from simulated_memory import Mapped, Memory
from simulated_wgmma import decode, from_registers, multiply, places
from tensor_maps import copied, moved, swizzled
from warp_simulator import Pointer, WarpSimulation

from inferno.mlir import ir

_TOGETHER = 16  # blocks that run at a time
_RANK = 24  # bits of an address in shared memory below the rank


@dataclass
class _Barrier:
    """An mbarrier: what its phase waits for, and the copies that it will be told of."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0
    copies: list = field(default_factory=list)

    def arrive(self, count: int) -> None:
        assert self.pending >= count, "more arrivals at a barrier than it waits for"
        self.pending -= count
        self.settle()

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase ^ 1, self.count

    def land(self) -> None:
        """Let the copies happen."""
        while self.copies:
            copy, size = self.copies.pop(0)
            copy()
            self.bytes -= size
            self.settle()


@dataclass
class Launch:
    """What the roles of a launch share.  ``blocks`` run together, in clusters of ``cluster``."""

    function: ir.Operation
    blocks: range
    cluster: int
    threads: int
    parameters: list
    shared: int
    early: bool
    steps: dict

    def __post_init__(self) -> None:
        self.memory = np.full((self.blocks.stop, self.shared), 0xFF, np.uint8)
        self.mbarriers: dict[tuple[int, int], _Barrier] = {}
        self.named: dict[tuple, list[int]] = {}
        self.lock, self.chance = threading.RLock(), random.Random(0)
        self.failure: BaseException | None = None

    def run(self) -> None:
        sizes = [32] * 4 + [128] * (self.threads // 128 - 1) if self.threads % 128 == 0 else [32] * (self.threads // 32)
        self.roles = []
        for block in self.blocks:
            first = 0
            for size in sizes:
                self.roles.append(Role(self, block, first, size))
                first += size
        self.current = 0
        threads = [threading.Thread(target=role.start, args=(n,), daemon=True) for n, role in enumerate(self.roles)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if self.failure is not None:
            raise self.failure

    def hand_on(self) -> None:
        """Let one go on that can; with the lock."""
        roles, order = self.roles, list(range(len(self.roles)))
        self.chance.shuffle(order)
        for following in order:
            if not roles[following].done and (roles[following].condition is None or roles[following].condition()):
                self.current = following
                roles[following].turn.notify()
                return
        if not all(r.done for r in roles):
            waiting = [f"block {r.number_of_block} from thread {r.first}: {r.what}" for r in roles if not r.done]
            self.fail(AssertionError("all wait: " + "; ".join(waiting)))

    def fail(self, failure: BaseException) -> None:
        self.failure = self.failure or failure
        for role in self.roles:
            role.turn.notify()


class _Stopped(Exception):
    pass


class Role(WarpSimulation):
    """Threads that run in step: a warp, or a warpgroup."""

    cuts = True

    def __init__(self, launch: Launch, block: int, first: int, size: int) -> None:
        super().__init__(launch.function, 1, size, launch.parameters, launch.shared, shared=launch.shared, early=launch.early, steps=launch.steps)
        self.launch, self.number_of_block, self.first = launch, block, first
        self.done, self.condition, self.what = False, None, ""
        self.turn = threading.Condition(launch.lock)  # of its own: of a hundred that wait one is to go on
        self.stores: list[list[Callable]] = [[]]
        self.memory = launch.memory

    def start(self, number: int) -> None:
        self.number = number
        try:
            with self.turn:
                self.turn.wait_for(lambda: self.launch.current == number or self.launch.failure)
            if not self.launch.failure:
                self.run()
                self.land_stores(0)
        except _Stopped:
            pass
        except BaseException as error:  # (raised again by ``Launch.run``)
            with self.launch.lock:
                self.launch.fail(error)
        with self.launch.lock:
            self.done = True
            if not self.launch.failure:
                self.launch.hand_on()

    def run(self) -> None:
        self.count = self.threads
        self.block_of, self.lane_of = np.full(self.count, self.number_of_block), np.arange(self.first, self.first + self.count)
        self.mbarriers, self.sent = self.launch.mbarriers, None
        body = self.function.regions[0].blocks[0]
        attributes = list(self.function.attributes["arg_attrs"])
        for argument, parameter, known in zip(body.arguments, self.parameters, attributes):
            if isinstance(parameter, Memory):
                writable = "llvm.readonly" not in ir.DictAttr(known)
                self.values[argument] = Pointer(parameter.data.view(np.uint8), np.zeros(self.count, np.int64), False, writable)
            else:
                self.values[argument] = parameter if isinstance(parameter, Mapped) else np.int64(parameter)
        with np.errstate(all="ignore"):
            self.block(body, np.ones(self.count, bool))

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        if condition():
            return
        launch = self.launch
        with self.turn:
            self.condition, self.what = condition, what
            launch.hand_on()
            self.turn.wait_for(lambda: launch.failure or launch.current == self.number)
            self.condition = None
        if launch.failure:
            raise _Stopped

    def block(self, block: ir.Block, mask: np.ndarray) -> list:
        return super().block(block, mask) if mask.any() or len(block.operations) == 1 else self.skipped(block)

    def skipped(self, block: ir.Block) -> list:
        """Of a branch that no thread takes: anything of the right form."""
        return [_nothing(v.type, self.count) for v in list(block.operations)[-1].operation.operands]

    # Registers.

    def nvvm_read_ptx_sreg_clusterid_x(self, op, operands, mask):
        return [(self.block_of // self.launch.cluster).astype(np.int32)]

    def nvvm_read_ptx_sreg_cluster_ctarank(self, op, operands, mask):
        return [(self.block_of % self.launch.cluster).astype(np.int32)]

    def nvvm_elect_sync(self, op, operands, mask):
        return [self.lane_of % 32 == 0]

    def llvm_mlir_undef(self, op, operands, mask):
        return [_nothing(op.results[0].type, self.count)]

    def nothing(self, op, operands, mask):
        return []

    nvvm_prefetch = nvvm_griddepcontrol = nvvm_setmaxregister = nvvm_fence_mbarrier_init = nvvm_fence_proxy = nothing
    nvvm_bar_warp_sync = nvvm_wgmma_fence_aligned = nvvm_wgmma_commit_group_sync_aligned = nvvm_memory_barrier = llvm_fence = nothing
    nvvm_wgmma_wait_group_sync_aligned = nothing

    def llvm_ptrtoint(self, op, operands, mask):
        """In a cluster the block's rank is part of an address in shared memory."""
        return [(operands[0].at + (self.blocks_of(operands[0]) % self.launch.cluster << _RANK)).astype(np.int32)]

    def llvm_inttoptr(self, op, operands, mask):
        (pointer,) = super().llvm_inttoptr(op, operands, mask)
        assert (pointer.at[mask] >> _RANK == self.number_of_block % self.launch.cluster).all(), "another block's shared memory"
        return [replace(pointer, at=pointer.at & (1 << _RANK) - 1)]

    def llvm_addrspacecast(self, op, operands, mask):
        return [operands[0]]

    def scf_for(self, op, operands, mask):
        """Sums are carried as they are."""
        if not any("llvm.struct" in str(r.type) for r in op.results) or not mask.any():
            return super().scf_for(op, operands, mask)
        at, end, step = (int(np.broadcast_to(v, mask.shape)[mask][0]) for v in operands[:3])
        body, carried = op.regions[0].blocks[0], operands[3:]
        while at < end:
            self.values.update(zip(body.arguments, [np.int32(at), *carried]))
            carried, at = self.block(body, mask), at + step
        return carried

    # Barriers.

    def mbarrier(self, pointer, mask) -> _Barrier:
        """The barrier that all active threads mean."""
        where = {(int(b), int(a)) for b, a in zip(np.broadcast_to(self.blocks_of(pointer), mask.shape)[mask], pointer.at[mask])}
        assert len(where) == 1, "threads that wait for different barriers"
        return self.mbarriers[where.pop()]

    def blocks_of(self, pointer) -> np.ndarray:
        return self.block_of if getattr(pointer, "block", None) is None else pointer.block

    def nvvm_mbarrier_init(self, op, operands, mask):
        count = int(np.broadcast_to(operands[1], mask.shape)[mask][0])
        for block, at in zip(self.block_of[mask], operands[0].at[mask]):
            self.mbarriers[int(block), int(at)] = _Barrier(count, count)
        return []

    def nvvm_mbarrier_try_wait_parity(self, op, operands, mask):
        barrier, parity = self.mbarrier(operands[0], mask), set(np.broadcast_to(operands[1], mask.shape)[mask].tolist())
        assert len(parity) == 1
        wanted = parity.pop()

        def complete() -> bool:
            barrier.land()
            return barrier.phase != wanted

        self.wait_for(complete, f"the barrier at {int(operands[0].at[mask][0])}, parity {wanted}")
        return []

    def nvvm_mbarrier_arrive(self, op, operands, mask):
        blocks = np.broadcast_to(self.blocks_of(operands[0]), mask.shape)
        for (block, at), count in Counter(zip(blocks[mask].tolist(), operands[0].at[mask].tolist())).items():
            self.mbarriers[block, at].arrive(count)
        return [np.zeros(self.count, np.int64)] * len(op.results)

    def nvvm_mbarrier_arrive_expect_tx(self, op, operands, mask):
        assert mask.sum() == 1
        barrier = self.mbarrier(operands[0], mask)
        barrier.bytes += int(np.broadcast_to(operands[1], mask.shape)[mask][0])
        barrier.arrive(1)
        return [np.zeros(self.count, np.int64)] * len(op.results)

    def nvvm_barrier(self, op, operands, mask):
        self.meet(*self.named_barrier(op, operands, mask), wait=True)
        return []

    def nvvm_barrier_arrive(self, op, operands, mask):
        self.meet(*self.named_barrier(op, operands, mask), wait=False)
        return []

    def named_barrier(self, op, operands, mask) -> tuple[tuple, int, int]:
        assert mask.all(), "a barrier that not all threads of a warp reach"
        numbers = [int(np.broadcast_to(x, mask.shape)[0]) for x in operands]
        if "operandSegmentSizes" in op.attributes:
            segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
            number, threads = (numbers.pop(0) if n else None for n in segments[:2])
        else:  # (an arrival: the number may be missing in the operation, the count is not)
            number, threads = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, numbers[0])
        return (self.number_of_block, number or 0), threads or self.launch.threads, self.count

    def meet(self, key: tuple, threads: int, arriving: int, wait: bool) -> None:
        state = self.launch.named.setdefault(key, [0, 0])
        turn = state[1]
        state[0] += arriving
        assert state[0] <= threads, f"{state[0]} threads at barrier {key} of {threads}"
        if state[0] == threads:
            state[:] = [0, turn + 1]
        if wait:
            self.wait_for(lambda: state[1] > turn, f"barrier {key[1:]}")

    def nvvm_cluster_arrive(self, op, operands, mask):
        assert mask.all()
        key = ("cluster", self.number_of_block // self.launch.cluster)
        self.sent = (self.launch.named.setdefault(key, [0, 0]), self.launch.named[key][1])
        self.meet(key, self.launch.cluster * self.launch.threads, self.count, wait=False)
        return []

    def nvvm_cluster_wait(self, op, operands, mask):
        (state, turn), self.sent = self.sent, None
        self.wait_for(lambda: state[1] > turn, "the cluster")
        return []

    # Memory.

    def nvvm_mapa(self, op, operands, mask):
        rank = np.broadcast_to(operands[1], mask.shape)
        assert ((rank >= 0) & (rank < self.launch.cluster))[mask].all(), "a block that the cluster does not have"
        return [_Remote(operands[0].data, operands[0].at, True, True, self.block_of // self.launch.cluster * self.launch.cluster + rank)]

    def llvm_getelementptr(self, op, operands, mask):
        (made,) = super().llvm_getelementptr(op, operands, mask)
        block = getattr(operands[0], "block", None)
        return [made if block is None else _Remote(made.data, made.at, True, True, block)]

    def gather(self, pointer, count, mask):
        if getattr(pointer, "block", None) is None:
            return super().gather(pointer, count, mask)
        return self.bytes_at(pointer, pointer.block, count, mask)

    def check_banks(self, addresses, together, size) -> None:
        """(Conflicts are counted where all warps run in step.)"""

    def llvm_atomicrmw(self, op, operands, mask):
        pointer, value = operands
        dtype = np.asarray(value).dtype
        data, found = pointer.data.view(dtype), np.zeros(self.count, dtype)
        for thread in np.flatnonzero(mask):
            at = pointer.at[thread] // dtype.itemsize
            found[thread] = data[at]
            data[at] += np.broadcast_to(value, mask.shape)[thread]
        return [found]

    def nvvm_stmatrix(self, op, operands, mask):
        pointer, registers = operands[0], operands[1:]
        transposed = "col" in str(op.attributes["layout"])
        for number, register in enumerate(registers):
            lines = np.ascontiguousarray(np.broadcast_to(register, mask.shape).astype(np.int32)).view(np.uint16).reshape(-1, 8, 8)
            lines = np.ascontiguousarray(lines.swapaxes(1, 2) if transposed else lines)
            at = pointer.at.reshape(-1, 4, 8)[:, number].reshape(-1)
            assert (at % 16 == 0).all() and (at >= 0).all() and (at + 16 <= self.shared).all()
            places = at[:, None] + np.arange(16)
            self.launch.memory[self.number_of_block, places] = lines.view(np.uint8).reshape(-1, 16)
        return []

    # The copy engine.

    def box(self, op, operands, mask, segments) -> tuple:
        assert mask.sum() == 1, "a copy that several threads start"
        groups, rest = [], list(operands)
        for n in segments:
            groups.append(rest[:n])
            rest = rest[n:]
        return groups

    def nvvm_cp_async_bulk_tensor_shared_cluster_global(self, op, operands, mask):
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        (target,), (map_,), where, (barrier,), offsets, multicast, *_ = self.box(op, operands, mask, segments)
        assert not any(segments[6:]) and ("im2col" in str(op.attributes["mode"])) == bool(offsets)
        where, offsets = ([int(np.broadcast_to(x, mask.shape)[mask][0]) for x in each] for each in (where, offsets))
        at = int(target.at[mask][0])

        def copy(block: int) -> None:
            raw = copied(map_, where, offsets).view(np.uint8).reshape(-1, 16)
            self.launch.memory[block, swizzled(at + 16 * np.arange(len(raw)), map_.map.swizzle)[:, None] + np.arange(16)] = raw

        size = int(np.prod(map_.map.box)) * map_.memory.data.dtype.itemsize
        assert at % 128 == 0 and at + size <= self.shared
        first = self.number_of_block // self.launch.cluster * self.launch.cluster
        blocks = [first + r for r in range(16) if int(multicast[0]) >> r & 1] if multicast else [self.number_of_block]
        assert blocks[-1] < first + self.launch.cluster
        for block in blocks:
            found = self.mbarriers[block, int(barrier.at[mask][0])]
            found.copies.append((functools.partial(copy, block), size))
            if self.early:
                found.land()
        return []

    def nvvm_cp_async_bulk_tensor_global_shared_cta(self, op, operands, mask):
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        (map_,), (source,), where, *_ = self.box(op, operands, mask, segments)
        where, at = [int(np.broadcast_to(x, mask.shape)[mask][0]) for x in where], int(source.at[mask][0])

        def copy() -> None:
            inside, places = moved(map_, where, [])
            dtype = map_.memory.data.dtype
            steps = np.arange(inside.size * dtype.itemsize // 16)
            raw = self.launch.memory[self.number_of_block][swizzled(at + 16 * steps, map_.map.swizzle)[:, None] + np.arange(16)]
            data = np.ascontiguousarray(raw).reshape(-1).view(dtype).reshape(inside.shape)
            map_.memory.data.reshape(-1)[places[inside]] = data[inside]

        if self.early:
            copy()
        else:
            self.stores[-1].append(copy)
        return []

    def nvvm_cp_async_bulk_global_shared_cta(self, op, operands, mask):
        assert mask.sum() == 1, "a copy that several threads start"
        target, source, size = operands
        to, at, size = int(target.at[mask][0]), int(source.at[mask][0]), int(np.broadcast_to(size, mask.shape)[mask][0])
        assert to % 16 == at % 16 == size % 16 == 0 and size > 0 and target.writable and 0 <= to and to + size <= target.data.size and at + size <= self.shared

        def copy() -> None:
            target.data.reshape(-1)[to:to + size] = self.launch.memory[self.number_of_block, at:at + size]

        if self.early:
            copy()
        else:
            self.stores[-1].append(copy)
        return []

    def load_piece(self, operands, mask) -> list:
        """Bytes from memory, of which an mbarrier is told."""
        assert mask.sum() == 1, "a copy that several threads start"
        target, source, size, barrier = operands
        at, size = (int(np.broadcast_to(x, mask.shape)[mask][0]) for x in (target, size))
        begin = int(np.broadcast_to(source.at, mask.shape)[mask][0])
        assert at % 16 == begin % 16 == size % 16 == 0 and 0 <= begin and begin + size <= source.data.size and 0 <= at and at + size <= self.shared

        def copy() -> None:
            self.launch.memory[self.number_of_block, at:at + size] = source.data.reshape(-1)[begin:begin + size]

        found = self.mbarrier(barrier, mask)
        found.copies.append((copy, size))
        if self.early:
            found.land()
        return []

    def add_piece(self, operands, mask) -> list:
        """Floats from shared memory that are added to those in memory."""
        assert mask.sum() == 1, "a copy that several threads start"
        target, source, size = operands
        to, at, size = int(target.at[mask][0]), *(int(np.broadcast_to(x, mask.shape)[mask][0]) for x in (source, size))
        assert to % 16 == at % 16 == size % 16 == 0 and size > 0 and target.writable and 0 <= to and to + size <= target.data.size and at + size <= self.shared

        def add() -> None:
            target.data.reshape(-1)[to:to + size].view(np.float32)[:] += self.launch.memory[self.number_of_block, at:at + size].view(np.float32)

        if self.early:
            add()
        else:
            self.stores[-1].append(add)
        return []

    def nvvm_cp_async_bulk_commit_group(self, op, operands, mask):
        self.stores.append([])
        return []

    def nvvm_cp_async_bulk_wait_group(self, op, operands, mask):
        if mask.any():
            self.land_stores(ir.IntegerAttr(op.attributes["group"]).value)
        return []

    def send(self, operands, mask) -> list:
        """Numbers to another block's shared memory, whose mbarrier is told of them."""
        address, *values, barrier = (np.broadcast_to(x, mask.shape)[mask] for x in operands)
        raw = np.stack([v.view(np.uint8).reshape(-1, 4) for v in values], 1).reshape(len(address), -1)
        blocks, inside = self.number_of_block // self.launch.cluster * self.launch.cluster + (address >> _RANK), (1 << _RANK) - 1
        assert (address >> _RANK == barrier >> _RANK).all() and (address % raw.shape[1] == 0).all()
        assert ((address >> _RANK) < self.launch.cluster).all() and ((address & inside) + raw.shape[1] <= self.shared).all()

        def write(thread: int) -> None:
            at = address[thread] & inside
            self.launch.memory[blocks[thread], at:at + raw.shape[1]] = raw[thread]

        for thread in range(len(address)):
            found = self.mbarriers[int(blocks[thread]), int(barrier[thread] & inside)]
            found.copies.append((functools.partial(write, thread), raw.shape[1]))
            if self.early:
                found.land()
        return []

    def land_stores(self, left: int) -> None:
        while len(self.stores) - 1 > left:
            for copy in self.stores.pop(0):
                copy()

    # The tensor core.

    def llvm_inline_asm(self, op, operands, mask):
        text = ir.StringAttr(op.attributes["asm_string"]).value
        if text.startswith(("wgmma.fence", "wgmma.wait_group")):
            return [list(operands)]
        if text.startswith("st.async"):
            return self.send(operands, mask)
        if "atom.relaxed.gpu.global.add.u64 $0, [$1], 1;" in text:
            return self.llvm_atomicrmw(op, [operands[0], np.int64(1)], mask)
        if "atom.relaxed.gpu.global.cas.b64 seen, [$0], seen, $2;" in text:
            pointer, (marked, fresh) = operands[0], (int(np.ravel(x)[0]) for x in operands[1:])
            data = pointer.data.view(np.int64)
            for at in pointer.at[mask] // 8:
                data[at] = data[at] if data[at] >> 8 & (1 << 56) - 1 == marked else fresh
            return []
        if text.startswith("cp.async.bulk.shared::cluster.global"):
            return self.load_piece(operands, mask)
        if text.startswith("cp.reduce.async.bulk"):
            return self.add_piece(operands, mask)
        if "st.release.gpu.global.u32 [$0], $1;" in text or "setp.lt.u32 p, r, $1;" in text:
            pointer, (thread,) = operands[0], np.flatnonzero(mask)
            counters, at, value = pointer.data.view(np.int32), pointer.at[thread] // 4, int(np.broadcast_to(operands[1], mask.shape)[thread])
            if "st.release" in text:
                assert counters[at] == value - 1, "a turn that is taken twice, or too early"
                counters[at] = value
            else:
                self.wait_for(lambda: counters[at] >= value, f"turn {value} of {at}")
            return []
        if "st.release.gpu.global.u32 [$0], 1;" in text or "ld.acquire.gpu.global.u32 r, [$0];" in text:
            pointer, (thread,) = operands[0], np.flatnonzero(mask)
            flags, at = pointer.data.view(np.int32), pointer.at[thread] // 4
            if "st.release" in text:
                assert flags[at] == 0, "a flag that is raised twice"
                flags[at] = 1
            else:
                self.wait_for(lambda: flags[at] == 1, f"flag {at}")
            return []
        found = re.search(r"setp\.ne\.b32 p, (\d), 0; wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.f32\.(\w+)\.\w+ .*p, 1, 1(?:, ([01, ]+))?; \}", text)
        if not found:
            return super().llvm_inline_asm(op, operands, mask)
        assert mask.all() and self.count == 128, "a product that not all threads of a warpgroup reach"
        old, columns, terms, kind = found[1] == "1", int(found[2]), int(found[3]), found[4]
        layouts = [int(x) for x in found[5].split(",")] if found[5] else [0]
        sums, rest = operands[:columns // 2], operands[columns // 2:]
        lhs = from_registers(rest[:-1], kind, terms) if len(rest) > 2 else self.matrix(rest[0], 64, terms, kind, len(layouts) == 2 and layouts[0])
        rhs = self.matrix(rest[-1], columns, terms, kind, layouts[-1])
        return [self.product(lhs, rhs, sums if old else None)]

    def nvvm_wgmma_mma_async(self, op, operands, mask):
        assert mask.all() and self.count == 128, "a product that not all threads of a warpgroup reach"
        text = {name: str(op.attributes[name]) for name in ("shape", "typeA", "layoutA", "layoutB", "scaleD")}
        columns, terms = (int(re.search(rf"{x} = (\d+)", text["shape"])[1]) for x in "nk")
        kind, (sums, lhs, rhs) = re.search(r"<(\w+)>", text["typeA"])[1], operands
        lhs = self.matrix(lhs, 64, terms, kind, "col" in text["layoutA"])
        rhs = self.matrix(rhs, columns, terms, kind, "row" in text["layoutB"])
        return [self.product(lhs, rhs, None if "zero" in text["scaleD"] else sums)]

    def added(self, a: np.ndarray, b: np.ndarray, sums: np.ndarray) -> np.ndarray:
        if sums.dtype != np.float32:
            return super().added(a, b, sums)
        return np.stack([multiply(*each) for each in zip(a, b, sums)])

    def nvvm_vote_sync(self, op, operands, mask):
        """Whether any thread of a warp says so."""
        assert "any" in str(op.attributes["kind"]) and self.is_whole(mask, 32), "a vote that not all threads of a warp take part in"
        said = (np.broadcast_to(operands[1], mask.shape) & mask).reshape(-1, 32).any(1)
        return [np.repeat(said, 32)]

    def product(self, lhs: np.ndarray, rhs: np.ndarray, sums: list | None) -> list:
        """The new sums, by register."""
        columns, totals = len(rhs), None
        if sums is not None:
            each = [x if np.shape(x) == (128,) else np.broadcast_to(x, (128,)) for x in sums]
            totals = np.stack(each, -1).reshape(4, 8, 4, columns // 8, 2, 2)  # warp, row, quad, 8 columns, half, lane
            totals = totals.transpose(0, 4, 1, 3, 2, 5).reshape(64, columns)
        made = multiply(lhs, rhs, totals).reshape(4, 2, 8, columns // 8, 4, 2).transpose(0, 2, 4, 3, 1, 5).reshape(128, columns // 2)
        return list(np.ascontiguousarray(made.T))

    def matrix(self, descriptor, rows: int, terms: int, kind: str, transposed: int) -> np.ndarray:
        """[row, term] of what a descriptor tells of shared memory."""
        whole = int(np.broadcast_to(descriptor, (self.count,)).astype(np.int64)[0]) & (1 << 64) - 1
        assert (np.asarray(descriptor) == np.asarray(descriptor).flat[0]).all()
        start, leading, stride = ((whole >> s & 0x3FFF) << 4 for s in (0, 16, 32))
        size = 4 if kind == "tf32" else 2
        found = places(start, leading, stride, {1: 128, 2: 64, 3: 32}[whole >> 62], size, rows, terms, bool(transposed))
        return decode(self.launch.memory[self.number_of_block].view(f"u{size}")[found], kind)


@dataclass(frozen=True)
class _Remote(Pointer):
    block: np.ndarray | None = None


def _nothing(type_: ir.Type, count: int):
    if str(type_).startswith("!llvm.struct"):
        return None
    if isinstance(type_, ir.FloatType):
        return np.full(count, np.nan, np.float32)
    if isinstance(type_, ir.VectorType):
        element = _nothing(type_.element_type, count)
        return np.repeat(element[:, None], type_.shape[0], 1)
    return np.zeros(count, bool if type_.width == 1 else np.int64 if type_.width == 64 else np.int32)


def run(function: ir.Operation, launch, parameters: list, steps: dict, early: bool = False) -> None:
    """One launch of a plan; ``steps`` is empty at the function's first."""
    cluster, blocks = launch.cluster[0], launch.grid[0]
    together = max(cluster, _TOGETHER // cluster * cluster)
    for first in range(0, blocks, together):
        Launch(function, range(first, min(first + together, blocks)), cluster, launch.block[0], parameters, launch.shared, early, steps).run()
