"""Which kernels of attention in float32 may split their operands into bf16 pieces themselves, on their way to shared memory."""

from math import ceil

from inferno.schedule.attention.kernel import AttentionKernel

LANES = 8  # numbers of a row that a thread cuts at a time: 16 bytes of each piece


def can_cut(a: AttentionKernel) -> bool:
    """Whether the rows are read where they are, by offsets that are known to fit into 32 bits."""
    return not (a.varies or a.pages or a.writes) and all(o.access is not None and isinstance(n, int) for o in (a.q, a.k, a.v) for n in o.access.strides)


def chunks(columns: int, terms: bool) -> int:
    """Of a row that is cut: with zeros up to a multiple of 16 where columns are the terms of products."""
    return ceil(columns / 16) * 2 if terms else columns // LANES
