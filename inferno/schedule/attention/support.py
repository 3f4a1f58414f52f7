"""Which kernels are attention of a kind that can be generated, and which of these no GPU has run yet."""

from inferno.mlir import func, ir, walk
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.kernel import AttentionKernel
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import FEW_ROWS
from inferno.schedule.attention.tiling import AttentionTiling, tile_attention, transposed_operands
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.matmul.contraction import Map, Operand
from inferno.symbolic import Int, bounds, product, quotient, reach
from inferno.target import Target

_MOST_ROWS = 256  # of a page that was timed


def read(kernel: func.FuncOp, target: Target) -> tuple[AttentionKernel, AttentionTiling] | None:
    """What ``kernel`` computes, if it is attention of a kind that can be generated."""
    a = parse_attention(kernel) if target.hopper else None
    tiling = tile_attention(a) if a is not None and supported(a) else None
    return (a, tiling) if tiling is not None else None


def supported(a: AttentionKernel) -> bool:
    """Whether types and sizes are ones that the generator takes, and it can inline what is done to scores and results."""
    kinds = {str(x) for x in (a.q.element, a.k.element, a.v.element, a.weight)}
    if len(kinds) != 1 or not kinds & {"bf16", "f16", "f32"} or not _has_keys(a):
        return False
    if a.writes and (a.varies or a.blocks is not None or bounds(a.queries.size)[1] > 64 or kinds == {"f32"}):
        return False
    if a.pages and kinds != {"f32"} and (bounds(a.queries.size)[1] > 64 or any(transposed_operands(a)[1:])):
        return False
    if not all(isinstance(size, int) for size in (a.depth.size, a.width.size)) or any(size % 8 or size > 256 for size in (a.depth.size, a.width.size)):
        return False
    if a.sink is not None and (any(not isinstance(x.element, ir.FloatType) for x in a.sinks) or a.scale <= 0):
        return False
    if a.dropout is not None and (a.varies or a.pages or a.writes or a.blocks is not None or a.sink is not None):
        return False
    if not a.softmax and (a.pages or a.writes or kinds == {"f32"}):
        return False  # in float32 errors of scores are those of results, 1.9e-7 where eager has 0.8e-7 (3x2x40x16, 44 keys)
    if any(product(x.shape) >= 2**31 for x in a.broken):
        return False
    if a.weighting is not None and (kinds == {"f32"} or a.dropout is not None or a.blocks is not None):
        return False
    if kinds == {"f32"}:
        if a.logarithms is not None or a.dropout is not None or any(o.access is None for o in (a.q, a.k, a.v)):
            return False
    return _has_blocks(a) and has_supported_accesses(a)


def has_supported_accesses(a: AttentionKernel) -> bool:
    """Whether everything that is read and written lies where offsets reach, in types that are loaded and stored, and what is made of scores and results can
    be inlined."""
    tiles = [*a.score_extras, *a.weighting_extras, *a.extras, *(d.access for d in a.destinations)]
    places = [*a.statistics, *a.sinks, *(p.table for p in a.pages)]
    if any(not supported_element(p.element) for p in (*tiles, *places)):
        return False
    if any(reach(product(p.shape)) >= 2**31 for p in (*places, *(a.reach or ())[:1])) or any(spanned(p, a) >= 2**31 for p in tiles):
        return False
    if any(not isinstance(p.strides[d], int) for p in (*a.extras, *(d.access for d in a.destinations)) for d in a.width.dims):
        return False
    written = {d.access.argument: d.access for d in a.destinations}
    read = [*(o.access for o in (a.q, a.k, a.v)), *a.score_extras, *a.weighting_extras, *a.sinks, *(p.table for p in a.pages)]
    if None in read or any(negative(p) and not _falls(p, a) for p in (*read, *tiles, *places)):
        return False
    if len(written) != len(a.destinations) or any(p.argument in written for p in read):
        return False
    if any(e.argument in written and e != written[e.argument] for e in a.extras):
        return False  # in place, an element may only be read by the thread that writes it
    return all(inlined(m) for m in (a.score, a.weighting, a.epilogue, a.of_logarithm, a.divisor and a.divisor.made, a.blocks and a.blocks.whole.score))


def _has_keys(a: AttentionKernel) -> bool:
    """Whether there is a key wherever there is a query."""
    return bounds(a.keys.size)[0] >= 1 or quotient(a.queries.size, a.keys.size) is not None


def spanned(access: Access, a: AttentionKernel) -> int:
    """Elements from the first one to the last that offsets have to reach: of all, or where sizes vary at one place of the batch."""
    if not a.varies:
        return product(access.shape)
    return reach(sum((a.sizes[d] - 1) * s for d, s in enumerate(access.strides) if d not in a.batch.dims) + 1)


def _has_blocks(a: AttentionKernel) -> bool:
    """Whether the table of blocks, if there is one, is read as 32 bits, and sizes are known."""
    if a.blocks is None:
        return True
    table = a.blocks.table
    return not a.varies and not a.pages and not negative(table) and product(table.shape) < 2**31 and not any(
        d.access.argument == table.argument for d in a.destinations)


def negative(access: Access) -> bool:
    """Whether a stride or the offset may be below 0."""
    return any(bounds(s)[0] < 0 for s in (*access.strides, access.offset))


def _falls(access: Access, a: AttentionKernel) -> bool:
    """Whether what is read for scores may lie the farther in front the later a key or query is, as a bias by their distance does: each offset as a
    whole is that of an element."""
    small = reach(product(access.shape)) < 2**31
    return access in a.score_extras and not a.varies and small and access.offset >= 0


def inlined(map_: Map | None) -> bool:
    """Whether a map, if there is one, is computed where its operands are, and gathers nothing."""
    return map_ is None or (supported_body(map_.generic) and not walk(map_.generic, "tensor.extract"))


def elements(o: Operand, a: AttentionKernel) -> Int:
    """Of an operand, which may be a part of a tensor; of pages those that the tables say."""
    return product(n for d, n in enumerate(a.sizes) if any(x.strides[d] for x in o.reads))


def is_new(a: AttentionKernel) -> bool:
    """Whether no GPU has run such a kernel yet."""
    of_lists = a.blocks is not None and a.q.element.width != 16
    return of_lists or (bool(a.pages) and not _timed(a))


def _timed(a: AttentionKernel) -> bool:
    """Whether keys and values in pages were timed beside the gather and what reads its copy (docs/attention.md): the gather took 1.7 to 3.2 times as
    long."""
    of_type = all(isinstance(o.element, ir.BF16Type) and o.pages is not None for o in (a.k, a.v)) and a.depth.size == a.width.size == 128
    return of_type and not a.varies and a.queries.size <= FEW_ROWS and all(p.rows <= _MOST_ROWS for p in a.pages)
