"""Programs that go over rows of which some tensors lie with neighbouring rows and others with neighbouring points together, and their schedules: for the
simulator and for a GPU."""

from dataclasses import replace
from math import ceil

import torch

from inferno.schedule.rows import transposed_rows
from inferno.schedule.rows.column_schedule import kept_accesses
from inferno.schedule.rows.transposed_rows import TransposedRows, can_bring
from inferno.target import find_target

F, randn, bf16, f16, f32 = torch.nn.functional, torch.randn, torch.bfloat16, torch.float16, torch.float32


def transposed_softmax(x):
    return torch.softmax(x, -1).t().contiguous()


def softmax_of_transposed(x):
    return torch.softmax(x.t(), -1).contiguous()


def normalize(x, y):
    return F.normalize(x.t() * y, dim=0)


def norm_of_sum(x, y, w, b):
    return F.layer_norm(x.t() + y, y.shape[1:], w, b)


def both(x, y):
    """What is given back lies either way, and so does what is read."""
    z = torch.log_softmax(x + y.t(), -1)
    return z, (z * x).t().contiguous(), z.sum(-1)


def of(type_, program, *shapes):
    return lambda: (program, tuple(randn(s).to(type_) for s in shapes))


CASES = {
    "softmax f32": of(f32, transposed_softmax, (72, 300)),
    "softmax bf16": of(bf16, transposed_softmax, (72, 304)),
    "softmax f16, odd sizes": of(f16, transposed_softmax, (33, 77)),
    "of transposed f32": of(f32, softmax_of_transposed, (100, 36)),
    "of transposed bf16": of(bf16, softmax_of_transposed, (300, 72)),
    "of transposed f16, odd sizes": of(f16, softmax_of_transposed, (77, 33)),
    "normalize f32": of(f32, normalize, (40, 100), (100, 40)),
    "normalize bf16": of(bf16, normalize, (40, 100), (100, 40)),
    "norm of a sum f32": of(f32, norm_of_sum, (65, 48), (48, 65), (65,), (65,)),
    "norm of a sum bf16": of(bf16, norm_of_sum, (130, 48), (48, 130), (130,), (130,)),
    "both f32": of(f32, both, (60, 52), (52, 60)),
    "both bf16": of(bf16, both, (60, 52), (52, 60)),
    "images": lambda: (lambda x: torch.softmax(x, -1).transpose(1, 2).contiguous(), (randn(3, 20, 90),)),
    "to float32": lambda: (lambda x: torch.softmax(x.float(), -1).t().contiguous(), (randn(40, 64).to(bf16),)),
    "to bf16": lambda: (lambda x, y: torch.softmax(x + y.t().float(), -1).to(bf16), (randn(40, 64), randn(64, 40).to(bf16))),
    "a part": lambda: (lambda x: F.normalize(x[:, 3:], dim=1).t().contiguous(), (randn(50, 103),)),
    "a mask": lambda: (lambda x, m: x.t().masked_fill(m, -1e4).softmax(0), (randn(48, 70), randn(70, 48) > 0)),
}
# What a block has: threads, those side by side, the blocks of its cluster, and points that it goes over at once; 0 for all of them, which it holds.
SHAPES = {
    "held": (128, 4, 1, 0), "turns": (128, 4, 1, 2), "a warp side by side": (256, 32, 1, 3), "two blocks": (128, 2, 2, 0), "four blocks": (128, 8, 4, 1),
    "few threads": (64, 8, 2, 4), "brought": (128, 4, 1, 2), "brought to four blocks": (64, 8, 4, 1),
}


def schedule_for(c, shape: str) -> TransposedRows | None:
    """Such a schedule of rows, or one of other threads side by side."""
    threads, across, cluster, unroll = SHAPES[shape]
    vector = transposed_rows.pick(c, find_target("sm_90a")).vector
    for beside in (across, 2 * across, 4 * across, across // 2):
        each = ceil(c.width / (threads // beside * cluster))
        kept = ceil(each / unroll) if unroll and kept_accesses(c) else 0
        s = TransposedRows(threads, beside, vector, cluster, unroll or each, kept, held=not unroll, reciprocals=True, approximate=True, sends=cluster > 1)
        if s.fits(c):
            return replace(s, brought=shape.startswith("brought") and kept > 0 and can_bring(c, vector))
    return None


def choose(shape: str):
    """A way to choose schedules: of rows that lie both ways such ones."""
    def chosen(kernel):
        c = transposed_rows.parse(kernel, find_target("sm_90a"))
        return None if c is None else schedule_for(c, shape)

    return chosen
