"""Programs that go over rows whose neighbours in memory are other rows, and their schedules: for the simulator and for a GPU."""

from dataclasses import replace
from math import ceil

import torch

from inferno.schedule.rows import columns
from inferno.target import find_target

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16
LAST = torch.channels_last


def softmax(x):
    return torch.softmax(x, 0)


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


CASES = {
    "softmax": lambda: (softmax, (randn(300, 48),)),
    "softmax bf16": lambda: (softmax, (randn(100, 64).to(bf16),)),
    "softmax, odd sizes": lambda: (softmax, (randn(37, 20).half(),)),
    "softmax, an odd number": lambda: (softmax, (randn(22, 537).to(bf16),)),
    "normalize, few": lambda: (lambda x: torch.softmax(F.normalize(x, dim=0), 0), (randn(300, 7),)),
    "softmax, middle": lambda: (lambda x: torch.softmax(x, 1), (randn(3, 50, 24),)),
    "channels last": lambda: (batch_norm, (randn(3, 16, 5, 7).to(bf16).contiguous(memory_format=LAST), randn(16).to(bf16), randn(16).to(bf16))),
    "less the mean": lambda: (lambda x: x - x.mean(0, keepdim=True), (randn(65, 40),)),
    "variance and mean": lambda: (lambda x: torch.var_mean(x, 0), (randn(50, 24),)),
    "a weight a point": lambda: (lambda x, w: x * w / (x * w).sum(0, keepdim=True), (randn(50, 24).abs(), randn(50, 1).abs())),
    "few points": lambda: (lambda x: torch.log_softmax(x, 1), (randn(5, 3, 6, 8).to(bf16),)),
    "two points": lambda: (lambda x: F.normalize(x, dim=1), (randn(3, 2, 40),)),
    "a pick of each row": lambda: (lambda x, t: F.cross_entropy(x, t, reduction="none"), (randn(3, 9, 6, 8), torch.randint(0, 9, (3, 6, 8)))),
    "a pick of odd rows": lambda: (lambda x, t: F.cross_entropy(x, t, reduction="none"), (randn(2, 11, 4, 9).to(bf16), torch.randint(0, 11, (2, 4, 9)))),
    "integers": lambda: (lambda x: (x - x.amin(0)) * x.sum(0), (torch.randint(-9, 9, (70, 6)),)),
}
# Many rows of an odd number side by side: registers have what a thread reads of them, of all points or of some.
ODD = {
    "softmax": lambda: (softmax, (randn(65, 16385),)),
    "bf16": lambda: (softmax, (randn(67, 16001).to(bf16),)),
    "norm, middle": lambda: (lambda x, w: (x - x.mean(1, True)) * w[:, None] / x.std(1, keepdim=True), (randn(3, 129, 2713).half(), randn(129).half())),
    "a sum of products": lambda: (lambda x, y, z: ((x * y - (x * y).mean(0)) * z).sum(0), tuple(randn(300, 3511) for _ in range(3))),
    "more than the L2 cache has": lambda: (softmax, (randn(41, 320001),)),
}
# Rows that are side by side where they are read and one behind the other where they are written.
TRANSPOSED = {
    "bf16": lambda: (F.instance_norm, (randn(2, 16, 5, 7).to(bf16).contiguous(memory_format=LAST) + 1,)),
    "float32": lambda: (F.instance_norm, (randn(3, 8, 6, 6).contiguous(memory_format=LAST),)),
    "threads of no row": lambda: (F.instance_norm, (randn(3, 24, 9, 40).half().contiguous(memory_format=LAST),)),
    "one image": lambda: (F.instance_norm, (randn(1, 24, 9, 8).half().contiguous(memory_format=LAST),)),
    "to float32": lambda: (lambda x: F.instance_norm(x.float()), (randn(2, 16, 4, 8).to(bf16).contiguous(memory_format=LAST),)),
}


# Rows one behind the other that are so short that a thread has several.
SHORT = {
    "two points": lambda: (lambda x: torch.softmax(x, -1), (randn(1040, 2).to(bf16),)),
    "three points": lambda: (lambda x: F.normalize(x, dim=-1), (randn(4, 260, 3),)),
    "four in bf16": lambda: (lambda x, w, b: F.layer_norm(x, (4,), w, b), (randn(2050, 4).to(bf16), randn(4).to(bf16), randn(4).to(bf16))),
    "an odd number of rows": lambda: (lambda x: torch.log_softmax(x, -1), (randn(1037, 5).half(),)),
    "ten": lambda: (lambda x: torch.softmax(x, -1), (randn(1030, 10).to(bf16),)),
    "seven": lambda: (lambda x: torch.var_mean(x, -1), (randn(7, 149, 7),)),
    "booleans": lambda: (lambda x: x.any(-1), (randn(1043, 3) > 1,)),
    "of two types": lambda: (lambda x, y: (x.float() * y).softmax(-1), (randn(1028, 3).half(), randn(1028, 3))),
    "a number a row": lambda: (lambda x, s: (x * s[:, None]).softmax(-1) + s[:, None], (randn(1032, 3), randn(1032))),
    "moments": lambda: (lambda x: torch.var_mean(x, -1), (randn(1048, 3).to(bf16),)),
    "a sum": lambda: (lambda x: x.sum(-1), (randn(1048, 3),)),
    "a product of integers": lambda: (lambda x: x.prod(-1), (torch.randint(-3, 4, (1048, 3)),)),
    "any": lambda: (lambda x: (x > 1).any(-1), (randn(1060, 3).half(),)),
    "a pick": lambda: (lambda x, t: F.cross_entropy(x, t, reduction="none"), (randn(1040, 3), torch.randint(0, 3, (1040,)))),
    "float64": lambda: (lambda x: x.softmax(-1), (randn(1030, 3).double(),)),
    "float64 sums": lambda: (lambda x: x.sum(-1), (randn(1030, 3).double(),)),
    "more than a GPU has at once": lambda: (lambda x: (x - x.mean(-1, keepdim=True)), (randn(70003, 3),)),
}


def group_norm(x, w, b):
    """Of images, groups and channels of a group last."""
    m = x.mean((1, 3), keepdim=True, dtype=torch.float32)
    d = x - m
    return F.relu(d * torch.rsqrt((d * d).mean((1, 3), keepdim=True) + 1e-5) * w + b).to(x.dtype)


def grouped(images, points, groups, channels, type_):
    return lambda: (group_norm, tuple(t.to(type_) for t in (randn(images, points, groups, channels), randn(groups, channels), randn(groups, channels))))


def first(x):
    return F.group_norm(x, x.shape[1] // 4).contiguous()


# Rows of several neighbours, which share their reductions: whole vectors of one, rows that are parts of vectors, and an odd number of vectors.
GROUPED = {
    "a vector": grouped(2, 70, 8, 8, bf16),
    "several vectors": grouped(2, 70, 4, 16, torch.float32),
    "halves of vectors": grouped(3, 33, 16, 4, torch.float16),
    "ten channels": grouped(2, 70, 32, 10, bf16),
    "ten channels in float32": grouped(1, 130, 32, 10, torch.float32),
    "threads of no row": grouped(11, 70, 6, 8, bf16),
    "thirty channels": grouped(1, 64, 32, 30, bf16),
    "more blocks than groups": grouped(1, 500, 16, 8, torch.float32),
    "an odd number of channels": lambda: (lambda x: x - x.sum((0, 2), keepdim=True), (randn(40, 1100, 17),)),
    "written one behind the other": lambda: (first, (randn(3, 32, 9, 8).contiguous(memory_format=LAST) + 1,)),
}
# What a kernel's own schedule becomes.
SCHEDULES = {
    "chosen": {},
    "read again": {"kept": 0, "cluster": 1},
    "two blocks": {"threads": 64, "cluster": 2, "unroll": 2, "kept": 2},
    "two that send": {"threads": 64, "cluster": 2, "unroll": 2, "kept": 2, "sends": True},
    "an odd number of points": {"threads": 64, "across": 2, "cluster": 1, "unroll": 5, "kept": 1, "run": 1},
    "runs": {"unroll": 4, "run": 2, "kept": 1},
    "a warp side by side": {"threads": 256, "across": 32, "cluster": 1, "unroll": 3, "kept": 1, "run": 1},
    "side by side": {"threads": 128, "across": 1, "cluster": 4, "unroll": 1, "kept": 1, "run": 1},
    "held": {"held": True, "kept": 0, "run": 1, "reciprocals": True, "approximate": True},
    "alone": {"threads": 64, "across": 64, "cluster": 1, "unroll": 3, "kept": 1, "run": 1},
}
# Of blocks that take a row's mean and deviation at once; of rows that are not around 0, of turns with fewer points than others, of numbers that are no numbers.
ONCE = {
    "blocks": {"once": True, "kept": 1, "cluster": 1},
    "clusters": {"once": True, "kept": 1, "cluster": 2},
    "sends": {"once": True, "kept": 1, "cluster": 4, "sends": True},
    "few threads": {"once": True, "kept": 1, "cluster": 8, "sends": True, "across": 4},
    "held": {"once": True, "kept": 0, "cluster": 2, "sends": True, "held": True},
}
NORMS = {
    "not around 0": lambda: (F.instance_norm, (randn(3, 8, 6, 6).contiguous(memory_format=LAST) + 1,)),
    "all alike": lambda: (F.instance_norm, ((1e6 + 0 * randn(3, 8, 6, 6)).contiguous(memory_format=LAST),)),
    "bf16": lambda: (F.instance_norm, (randn(2, 16, 9, 8).to(bf16).contiguous(memory_format=LAST) + 3,)),
    "no numbers": lambda: (F.instance_norm, (odd_ones(randn(3, 8, 6, 6)).contiguous(memory_format=LAST),)),
    "deviation and mean": lambda: (lambda x: torch.var_mean(x, 0), (randn(50, 24),)),
    "float16": TRANSPOSED["threads of no row"],
    "groups": GROUPED["written one behind the other"],
    "groups of vectors": lambda: (lambda x: F.group_norm(x, 2).contiguous(), ((randn(3, 16, 9, 8) * 1e-3).contiguous(memory_format=LAST) + 1e-3,)),
}


def odd_ones(x):
    x[0, 0, 2, 3], x[0, 1, 2, 3], x[0, 2, 0, 0], x[1, 3] = torch.nan, torch.inf, 1e15, torch.inf
    return x


def choose(change: dict):
    """A way to choose schedules: ``columns``' own, changed."""
    def chosen(kernel):
        target = find_target("sm_90a")
        c = columns.parse(kernel, target)
        if c is None or len(c.steps) < 2:
            return None
        s = replace(columns.pick(c, target), **({"held": False} | change if change else {}))
        return replace(s, unroll=ceil(c.width / (s.along * s.cluster))) if s.held else s

    return chosen
