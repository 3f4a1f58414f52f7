"""What a schedule of attention takes of shared memory and registers, and whether a kernel can have it."""

from math import ceil

from inferno.element_sizes import element_bytes
from inferno.schedule.attention.kernel import AttentionKernel, sources
from inferno.schedule.attention.masks import brought_masks, widths
from inferno.schedule.attention.schedule import LINE, ORDERS, PIECES, WARPS, Attention, lines, pieces_of, sums_bytes, tile_rows
from inferno.schedule.attention.splitting_producer import can_cut
from inferno.schedule.attention.support import elements, spanned
from inferno.schedule.attention.tiling import tile_attention, transposed_operands
from inferno.symbolic import bounds, ceildiv, product, reach
from inferno.target import RESERVED_SHARED, Target

# Numbers of 32 bits a thread that scores, weights, sums and what is read for scores may take together, by the number of consumers (ptxas: 176
# keys of 128 columns and 64 of 256 still have their place in 240 registers, 256 keys of 64 columns or 80 of 256 do not; 128 keys of 64 columns
# in 160 do).
_HELD = {1: 212, 2: 212, 3: 136}
_HELD_BESIDE_CUTS = {1: 212, 2: 164}  # and registers for numbers that a producer cuts
_HELD_OF_TWO = 112  # where two blocks share a multiprocessor
_BESIDE_PRODUCTS = 60  # of which products are made, by the warps that have keys of their own
_DRAWN = 8  # what random numbers are computed in: 128 keys of 64 columns are spilt with three consumers
_WEIGHTING = 2  # times, what is read for weights, which waits until softmax is done: at once ptxas spills 128 keys of 64 columns beside a mask
_MOST_SPLITS = 255  # that can be counted


def fits(s: Attention, a: AttentionKernel, target: Target) -> bool:
    """Whether the knobs go together and with what is computed, and a block's shared memory and a thread's registers suffice."""
    return _go_together(s) and _suits(s, a, target) and (s.shares == 1 or _can_share(s, a)) and _has_room(s, a, target)


def _go_together(s: Attention) -> bool:
    """Whether there is code for the knobs, whatever is computed."""
    tile = s.consumers in _HELD and s.keys % 16 == 0 and 16 <= s.keys <= 256 and s.order in ORDERS and (s.consumers > 1 or not s.turns)
    in_pieces = s.pieces == 1 or not (s.overlap or s.turns or s.consumers > 2)
    cut = not s.cut or (s.pieces > 1 and s.order != "dynamic")
    shared = s.shares == 1 or (s.order == "single" and s.consumers == 1 and s.parts <= 8)
    return tile and in_pieces and cut and shared and s.resident <= (2 if s.cut and s.consumers == 1 else 1)


def _suits(s: Attention, a: AttentionKernel, target: Target) -> bool:
    """Whether the knobs are ones for what is computed."""
    if not (_by_warps(s, a) if s.warp_rows else s.pieces == pieces_of(a) and _cuts(a)):
        return False
    of_q, *of_keys = transposed_operands(a)
    if (s.bounded and a.reach is None) or (any(of_keys) and s.keys % LINE) or (of_q and not s.apart):
        return False
    if a.blocks is not None and (a.blocks.queries % s.queries or a.blocks.keys % s.keys):
        return False
    if s.masks and ((tiling := tile_attention(a)) is None or s.masks != widths(brought_masks(a, tiling))):
        return False
    if a.pages and s.pieces == 1 and (s.consumers > 1 or any(p.rows % s.keys and s.keys % p.rows for p in a.pages)):
        return False
    if a.writes and s.order == "dynamic":
        return False  # a block of threads does not know its tiles when it begins
    if (s.order == "even" and not shares_evenly(s, a, target)) or (s.cut and not can_cut(a)):
        return False
    blocks = ceildiv(a.keys.size, s.keys)
    return not isinstance(blocks, int) or (s.shares - 1) * ceil(blocks / s.shares) < blocks  # otherwise a share would have none


def _can_share(s: Attention, a: AttentionKernel) -> bool:
    """Whether several blocks can have a part of the keys each, whose sums lie where a block's operands were, or in memory."""
    sums = sums_bytes(tile_rows(s, a.queries.size), a.width.size)
    if a.blocks is not None or s.masks or a.logarithms is not None or a.dropout is not None:
        return False
    if s.splits > _MOST_SPLITS or sums > s.shared(a.depth.size, a.width.size).barriers:
        return False
    tiles = product(a.batch.sizes) * ceildiv(a.queries.size, min(64, s.queries))
    return s.splits == 1 or reach(tiles * s.splits * sums) < 2**31


def _has_room(s: Attention, a: AttentionKernel, target: Target) -> bool:
    """Whether shared memory has room for so many blocks, and a thread registers for what it holds."""
    most = _HELD[s.consumers] if not s.cut else _HELD_OF_TWO if s.resident == 2 else _HELD_BESIDE_CUTS[s.consumers]
    room = target.shared if s.resident == 1 else (target.shared - RESERVED_SHARED * (s.resident - 1)) // s.resident
    return held(s, a) <= most and s.stages >= (2 if s.pieces == 1 else 1) and s.shared(a.depth.size, a.width.size).total <= room


def shares_evenly(s: Attention, a: AttentionKernel, target: Target) -> bool:
    """Whether every tile sees all keys, whose blocks can be counted."""
    if a.varies or a.uneven or a.reach is not None or a.sink is not None or a.pages or a.writes or s.pieces > 1 or s.shares > 1 or not s.apart:
        return False
    return 2 * target.multiprocessors**2 * ceildiv(a.keys.size, s.keys) < 2**31


def _by_warps(s: Attention, a: AttentionKernel) -> bool:
    """Whether warps may have keys of their own, if the copy engine brings them (``AttentionTiling.whole``).  More rows than a tile's would be written by the
    threads that end one with an epilogue."""
    plain = s.consumers == 1 and s.pieces == 1 and not (s.cut or s.masks or s.staged) and s.overlap and s.order != "dynamic"
    alone = a.q.element.width == 32 and a.logarithms is None and a.dropout is None and a.blocks is None and not a.pages and not a.writes
    one = a.epilogue is None or bounds(a.queries.size)[1] <= s.warp_rows
    return plain and alone and one and s.warp_rows in (8, 16) and s.keys % (8 * WARPS) == 0


def _cuts(a: AttentionKernel) -> bool:
    """Whether float32 operands may be cut into pieces: as many columns as registers suffice for, of places that numbers of 32 bits reach."""
    operands = (a.q, a.k, a.v)
    if a.q.element.width == 16:
        return True
    if max(a.depth.size, a.width.size) > 128 or any(spanned(o.access, a) >= 2**31 for o in operands):
        return False
    counts = [reach(elements(o, a)) for o in operands]
    return all(n < 2**32 if a.varies else PIECES * n < 2**31 for n in counts)


def held(s: Attention, a: AttentionKernel) -> int:
    """Numbers of 32 bits that a thread has at a time."""
    # Of masked blocks of lists it is read where it is needed.
    of_blocks = a.score_extras if a.blocks is None or not a.blocks.whole.differs else sources(a.blocks.whole.score)
    read = sum(max(2, element_bytes(x.element)) for x in (*of_blocks, *a.weighting_extras * _WEIGHTING) if any(x.strides[d] for d in a.keys.dims))
    if s.warp_rows:  # sums, and as many products, of whole lines of columns; scores and weights of both parts
        return (2 * lines(a.width.size, s.line) * s.line + s.warp_keys * 4) * s.warp_rows // 32 + _BESIDE_PRODUCTS
    if s.pieces > 1:  # scores and what is read for them, or pieces of weights and a line of products
        return (a.width.size // 2 + max(s.keys * (2 + read // 2) // 4, s.keys * s.pieces // 4 + min(a.width.size, LINE) // 2))
    return s.keys * (3 + read // 2) // 4 + a.width.size * 5 // 8 + (_DRAWN if a.dropout is not None else 0)
