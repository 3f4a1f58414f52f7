"""What the blocks of a cluster exchange by distributed shared memory, in kernels on memrefs."""

from inferno.codegen.nvvm_builder import CLUSTER, SHARED, integer_type, operation, pointer_type
from inferno.mlir import arith, ir, memref, nvvm


def wait_for_cluster() -> None:
    """A barrier of all threads of a cluster, behind which every block sees what the others wrote to shared memory."""
    operation("nvvm.cluster.arrive", [], [], aligned=ir.UnitAttr.get())
    operation("nvvm.cluster.wait", [], [], aligned=ir.UnitAttr.get())


def read_remote(array: ir.Value, rank: int) -> ir.Value:
    """The first element of a shared array of block ``rank`` of the cluster."""
    i64, element = integer_type(64), ir.MemRefType(array.type).element_type
    address = arith.index_cast(i64, memref.ExtractAlignedPointerAsIndexOp(array).result)
    own = operation("llvm.inttoptr", [pointer_type(SHARED)], [address])
    remote = nvvm.MapaOp(pointer_type(CLUSTER), own, arith.constant(integer_type(32), rank)).results[0]
    return operation("llvm.load", [element], [remote], alignment=ir.IntegerAttr.get(i64, max(1, element.width // 8)))
