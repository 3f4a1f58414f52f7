"""What the simulator's threads know of each other: their numbers, barriers, shuffles, and the blocks of a cluster.

Barriers need no code, since threads run in step; that all reach them is checked.
"""

import numpy as np
from simulated_memory import View

from inferno.mlir import ir


class Threads:
    """Handlers of ``Simulation``."""

    def gpu_block_id(self, op, operands, mask):
        return [self.block_of]

    def gpu_thread_id(self, op, operands, mask):
        return [self.lane_of]

    def gpu_barrier(self, op, operands, mask):
        assert self.is_whole(mask, self.threads), "a barrier that not all threads of a block reach"
        return []

    def nvvm_bar_warp_sync(self, op, operands, mask):
        assert self.is_whole(mask, 32) and int(operands[0]) == -1, "a barrier that not all threads of a warp reach"
        return []

    def is_whole(self, mask, threads: int) -> bool:
        """Whether of each so many threads all are there, or none."""
        if self.threads % threads:
            return False
        each = mask.reshape(-1, threads)
        return bool((each.all(1) | ~each.any(1)).all())

    def gpu_shuffle(self, op, operands, mask):
        assert self.is_whole(mask, 32) and int(operands[2]) == 32
        mode, me, place = str(op.attributes["mode"]), np.arange(self.count), np.broadcast_to(operands[1], mask.shape).astype(np.int64)
        warp, lane = me // 32 * 32, me % 32
        partner = me ^ place if "xor" in mode else np.where(lane >= place, me - place, me) if "up" in mode else warp + place % 32
        return [np.broadcast_to(operands[0], mask.shape)[partner], np.ones(self.count, bool)]

    def nvvm_shfl_sync(self, op, operands, mask):
        assert self.is_whole(mask, 32) and "bfly" in str(op.attributes["kind"])
        return [np.broadcast_to(operands[1], mask.shape)[np.arange(self.count) ^ int(operands[2])]]

    def nvvm_redux_sync(self, op, operands, mask):
        assert self.is_whole(mask, 32)
        combine = {"add": np.add, "umin": np.minimum, "umax": np.maximum}[str(op.attributes["kind"]).rstrip(">").rpartition(" ")[2]]
        warps = np.ascontiguousarray(np.broadcast_to(operands[0], mask.shape)).reshape(-1, 32).view(np.uint32)
        return [np.repeat(combine.reduce(warps, 1, dtype=np.uint32), 32).view(np.int32)]

    def nvvm_vote_sync(self, op, operands, mask):
        """Which lanes of the warp say so, a bit for each."""
        assert self.is_whole(mask, 32) and "ballot" in str(op.attributes["kind"])
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        warps = (np.broadcast_to(operands[1], mask.shape) & mask).reshape(-1, 32)
        return [np.repeat((warps * bits).sum(1, dtype=np.uint32), 32).view(np.int32)]

    def nvvm_match_sync(self, op, operands, mask):
        """Which lanes of the warp have the same number, a bit for each."""
        assert self.is_whole(mask, 32) and "any" in str(op.attributes["kind"])
        warps = np.broadcast_to(operands[1], mask.shape).reshape(-1, 32)
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        return [((warps[:, :, None] == warps[:, None]) * bits).sum(-1, dtype=np.uint32).reshape(-1).view(np.int32)]

    def nvvm_barrier_reduction(self, op, operands, mask):
        assert self.is_whole(mask, self.threads)
        return [np.repeat(np.count_nonzero(np.broadcast_to(operands[0], mask.shape).reshape(self.blocks, -1), 1), self.threads).astype(np.int32)]

    # Clusters: a pointer to shared memory is the array that it points to, of the own block or, with a number of blocks, of each thread's.

    def memref_extract_aligned_pointer_as_index(self, op, operands, mask):
        return [operands[0]]

    llvm_inttoptr = memref_extract_aligned_pointer_as_index

    arith_index_cast = memref_extract_aligned_pointer_as_index

    def arith_cmpi(self, op, operands, mask):
        """Whether two buffers are not one."""
        assert ir.IntegerAttr(op.attributes["predicate"]).value == 1
        return [np.broadcast_to(operands[0].memory is not operands[1].memory, mask.shape)]

    def arith_addi(self, op, operands, mask):
        """Bytes added to where something lies in shared memory."""
        view, more = operands
        return [View(view.memory, view.strides, view.offset + np.asarray(more) // view.memory.data.dtype.itemsize)]

    def nvvm_mapa(self, op, operands, mask):
        (cluster,) = list(ir.DenseI32ArrayAttr(self.function.attributes["known_cluster_size"]))[:1]
        rank = np.broadcast_to(operands[1], mask.shape)
        assert ((rank >= 0) & (rank < cluster))[mask].all(), "a block that the cluster does not have"
        return [(operands[0], self.block_of // cluster * cluster + np.where(mask, rank, 0))]

    def nvvm_cluster_arrive(self, op, operands, mask):
        assert mask.all(), "a barrier that not all threads of a cluster reach"
        return []

    nvvm_cluster_wait = nvvm_cluster_arrive

    # Mbarriers need no code, either: what is sent is there.

    def nvvm_mbarrier_init(self, op, operands, mask):
        return [None] * len(op.results)

    nvvm_mbarrier_arrive_expect_tx = nvvm_mbarrier_try_wait_parity = nvvm_fence_mbarrier_init = nvvm_mbarrier_init
