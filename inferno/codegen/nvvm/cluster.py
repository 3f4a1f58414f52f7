"""What the blocks of a cluster exchange by distributed shared memory, in kernels on memrefs."""

from inferno.codegen.nvvm.builder import CLUSTER, SHARED, integer_type, operation, pointer_type
from inferno.mlir import arith, ir, memref, nvvm


def wait_for_cluster() -> None:
    """A barrier of all threads of a cluster, behind which every block sees what the others wrote to shared memory."""
    arrive_in_cluster()
    await_cluster()


def arrive_in_cluster() -> None:
    """The first half of the barrier: what this thread read and wrote before is done for those behind it."""
    operation("nvvm.cluster.arrive", [], [], aligned=ir.UnitAttr.get())


def await_cluster() -> None:
    """The second half."""
    operation("nvvm.cluster.wait", [], [], aligned=ir.UnitAttr.get())


def read_remote(array: ir.Value, rank: int, place: ir.Value | None = None) -> ir.Value:
    """An element of a shared array of block ``rank`` of the cluster, the first one or that at ``place``."""
    i64, element = integer_type(64), ir.MemRefType(array.type).element_type
    address = arith.index_cast(i64, memref.ExtractAlignedPointerAsIndexOp(array).result)
    if place is not None:
        place = place if place.type == i64 else arith.extui(i64, place)
        address = arith.addi(address, arith.muli(place, arith.constant(i64, max(1, element.width // 8))))
    own = operation("llvm.inttoptr", [pointer_type(SHARED)], [address])
    remote = nvvm.MapaOp(pointer_type(CLUSTER), own, arith.constant(integer_type(32), rank)).results[0]
    return operation("llvm.load", [element], [remote], alignment=ir.IntegerAttr.get(i64, max(1, element.width // 8)))
