"""Programs of scans between other operations on the same rows, and the schedules that they can have: for the simulator and for a GPU."""

from collections.abc import Callable
from dataclasses import replace

import torch

from inferno.capture.running import recurrence
from inferno.mlir import func
from inferno.schedule.rows import rows
from inferno.target import find_target

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16
PASSES = "fuse-reductions{target=sm_90a always=1}"


def top_p(x):
    p = torch.softmax(x, -1)
    return p, p.cumsum(-1)


def norm_and_largest(x, w):
    y = F.rms_norm(x, w.shape, w).cumsum(-1)
    return y - y.amax(-1, keepdim=True)


def twice(x):
    y = x.cumsum(-1)
    return (y / 8).cumsum(-1) * x, y


def positives(x):
    return ((x > x.mean(-1, keepdim=True)).long().cumsum(-1) * x).sum(-1)


def side_by_side(x):
    """Two scans of one tensor and a sum of it, none of which waits for another."""
    return x.cumsum(-1) * x.cumprod(-1) + x.sum(-1, keepdim=True)


# The model and its inputs; each is one kernel.
CASES = {
    "softmax": (top_p, lambda: (randn(5, 300),)),
    "softmax bf16": (top_p, lambda: (randn(5, 1000).to(bf16),)),
    "softmax f16, rows that begin anywhere": (top_p, lambda: (randn(5, 1999).half(),)),
    "softmax of single elements": (top_p, lambda: (randn(7, 43),)),
    "softmax of few columns": (top_p, lambda: (randn(300, 3),)),
    "softmax of a row": (top_p, lambda: (randn(1, 5000),)),
    "rms_norm": (norm_and_largest, lambda: (randn(7, 512).to(bf16), randn(512).to(bf16))),
    "rms_norm, rows that begin anywhere": (norm_and_largest, lambda: (randn(5, 1001), randn(1001))),
    "two, one behind the other": (twice, lambda: (randn(6, 260),)),
    "two beside a sum": (side_by_side, lambda: (1 + randn(5, 200) / 64,)),
    "counts": (positives, lambda: (randn(5, 300),)),
    "sums of exponentials": (lambda x: torch.softmax(x.logcumsumexp(-1), -1), lambda: (9 * randn(5, 300),)),
    "maxima, and where they are": (lambda x: (x - x.mean(-1, keepdim=True)).cummax(-1), lambda: (torch.randint(-9, 9, (5, 300)) / 2.0,)),
    "minima": (lambda x: (x * x.sum(-1, keepdim=True)).cummin(-1).values.amax(-1), lambda: (randn(5, 130).to(bf16),)),
    "products of integers": (lambda x: (x * x.amax(-1, keepdim=True)).cumprod(-1), lambda: (torch.randint(-1, 2, (5, 100)),)),
    "rows of several dimensions": (lambda x: (x - x.mean((-1, -2), keepdim=True)).flatten(-2).cumsum(-1), lambda: (randn(5, 30, 20),)),
    "a recurrence": (lambda a, b: recurrence(torch.sigmoid(a - a.amax(-1, keepdim=True)), b, -1).softmax(-1), lambda: (randn(5, 300), randn(5, 300))),
    "flipped": (lambda x: torch.softmax(x.flip(-1).cumsum(-1), -1), lambda: (randn(5, 300),)),
    "part of a tensor, weights": (lambda x, w: (x[:, 8:72] * w).cumsum(-1).softmax(-1), lambda: (randn(9, 80), randn(64))),
}
# What a kernel's own schedule becomes.
SCHEDULES = {
    "chosen": {},
    "part of a warp": {"threads": 64, "across": 8},
    "a warp": {"threads": 64, "across": 32},
    "warps": {"threads": 128, "across": 64},
    "packed": {"threads": 64, "across": 64, "packed": True},
    "single elements": {"threads": 128, "across": 64, "vector": 1},
    "a thread": {"threads": 32, "across": 1},
    "a cluster": {"threads": 64, "across": 64, "cluster": 2, "sends": True},
    "a cluster of warps": {"threads": 32, "across": 32, "cluster": 4, "sends": True},
}


def choose(change: dict, used: list | None = None) -> Callable[[func.FuncOp], rows.Rows | None]:
    """``rows``' own schedules, changed, of what it scans; they are added to ``used``."""
    def chosen(kernel: func.FuncOp) -> rows.Rows | None:
        c = rows.read(kernel, find_target("sm_90a"))
        if c is None or not c.scans:
            return None
        found = replace(rows.pick(c, find_target("sm_90a")), **change)
        if used is not None:
            used.append(found)
        return found

    return chosen
