"""The copy engine (TMA): boxes of up to 5 dimensions between global and shared memory."""

from collections.abc import Sequence

from inferno.codegen.builders.integers import Integer
from inferno.codegen.nvvm.builder import assembly, CLUSTER, Words, integer_type, operation, pointer_type, shared_pointer
from inferno.mlir import arith, ir, nvvm


def prefetch(map_: ir.Value) -> None:
    """Bring a tensor map to the cache of descriptors."""
    nvvm.PrefetchOp(map_, tensormap=True)


def load_box(
    words: Words, map_: ir.Value, coordinates: Sequence[Integer], target: Integer, barrier: ir.Value, blocks: int = 1,
) -> None:
    """Start the copy of the map's box at ``coordinates`` (innermost first) to shared address ``target``; ``barrier`` gets the
    bytes.  What lies outside of the tensor arrives as zeros.  With ``blocks`` > 1 all of a cluster's blocks get it, at the
    same address, and each one's barrier the bytes."""
    _load(words, map_, coordinates, [], target, barrier, blocks)


def load_pixels(
    words: Words, map_: ir.Value, coordinates: Sequence[Integer], offsets: Sequence[Integer], target: Integer, barrier: ir.Value, blocks: int = 1,
) -> None:
    """As ``load_box``, of a map of pixels: those from the place ``coordinates`` on (channel, spatial ones innermost first, image), each ``offsets``
    away (innermost first)."""
    shifts = [arith.trunci(integer_type(16), words.value(o)) for o in offsets]
    _load(words, map_, coordinates, shifts, target, barrier, blocks, mode="#nvvm.tma_load_mode<im2col>")


def _load(
    words: Words, map_: ir.Value, coordinates: Sequence[Integer], offsets: Sequence[ir.Value], target: Integer, barrier: ir.Value, blocks: int,
    mode: str = "#nvvm.tma_load_mode<tile>",
) -> None:
    where, mode = [words.value(c) for c in coordinates], ir.Attribute.parse(mode)
    pointer = shared_pointer(words, target)
    if blocks == 1:
        nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(pointer, map_, where, barrier, offsets, isCTAOnly=True, mode=mode)
        return
    pointer = operation("llvm.addrspacecast", [pointer_type(CLUSTER)], [pointer])
    everyone = arith.constant(integer_type(16), (1 << blocks) - 1)
    nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(pointer, map_, where, barrier, offsets, multicastMask=everyone, mode=mode)


def load_piece(words: Words, source: ir.Value, target: Integer, size: int, barrier: ir.Value) -> None:
    """Start the copy of so many bytes, a multiple of 16 to and from addresses that are such, from global to shared memory; ``barrier`` gets them."""
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    assembly(text, [words.value(target), source, words.value(size), barrier])


def store_box(words: Words, map_: ir.Value, coordinates: Sequence[Integer], source: Integer) -> None:
    """Start the copy of a box from shared memory, as a group of its own; what lies outside of the tensor is dropped."""
    nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(map_, shared_pointer(words, source), [words.value(c) for c in coordinates])
    nvvm.CpAsyncBulkCommitGroupOp()


def store_piece(words: Words, target: ir.Value, source: Integer, size: Integer) -> None:
    """Start the copy of so many bytes, a multiple of 16 from addresses that are such, from shared to global memory, as a group of its own."""
    nvvm.CpAsyncBulkSharedCTAToGlobalOp(target, shared_pointer(words, source), words.value(size))
    nvvm.CpAsyncBulkCommitGroupOp()


def add_piece(words: Words, target: ir.Value, source: Integer, size: Integer) -> None:
    """Start to add so many bytes of float32, a multiple of 16 from addresses that are such, from shared to global memory, as a group of its own."""
    text = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], $2;"
    assembly(text, [target, words.value(source), words.value(size)])
    nvvm.CpAsyncBulkCommitGroupOp()


def await_stores(pending: int, read: bool) -> None:
    """Until at most ``pending`` of this thread's stores are under way, or with ``read`` have yet to read shared memory."""
    nvvm.CpAsyncBulkWaitGroupOp(pending, read=read or None)


def fence_shared() -> None:
    """Order this thread's loads and stores of shared memory before what the copy engine and the tensor core do next there.

    Loads too: the arrival at a barrier that frees a slot overtakes them otherwise, and the slot may be filled again first.
    """
    nvvm.FenceProxyOp(
        ir.Attribute.parse("#nvvm.proxy_kind<async.shared>"), space=ir.Attribute.parse("#nvvm.shared_space<cta>"),
    )


def swizzled(words: Words, row: Integer, chunk: Integer, span: int) -> Integer:
    """Where 16-byte ``chunk`` of ``row`` lies among the row's, when rows of ``span`` bytes lie under the swizzle of that span."""
    by = {128: words.mask(row, 7), 64: words.mask(words.shr(row, 1), 3), 32: words.mask(words.shr(row, 2), 1)}[span]
    return words.xor(by, chunk)
