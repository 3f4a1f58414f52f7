"""Programs that go over rows, and the schedules that each kind of them can have: for the simulator and for a GPU."""

from dataclasses import replace

import torch

from inferno.schedule.rows import row_lanes, rows
from inferno.schedule.rows.grid_rows import GridRows
from inferno.target import find_target

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16
PASSES = "fuse-reductions{target=sm_90a always=1}"


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b)


def residual_norm(x, y, w):
    return x + y, F.rms_norm(x + y, w.shape, w)


def group_norm(x, w, b):
    return F.group_norm(x, 4, w, b)


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


def triangle(x):
    return torch.softmax(x.masked_fill(torch.ones(x.shape[-2:], device=x.device).triu(1).bool(), -torch.inf), -1)


# The model, its inputs, and the number of launches.
CASES = {
    "softmax": lambda: (softmax, (randn(7, 64),), 1),
    "softmax of a row": lambda: (softmax, (randn(1, 3000),), 1),
    "softmax of few columns": lambda: (softmax, (randn(300, 3),), 1),
    "softmax bf16": lambda: (softmax, (randn(7, 1000).to(bf16),), 1),
    "softmax f16, an odd length": lambda: (softmax, (randn(5, 999).half(),), 1),
    "softmax of rows of zero": lambda: (softmax, (torch.full((3, 40), -1e30),), 1),
    "log_softmax": lambda: (lambda x: torch.log_softmax(x, -1), (randn(9, 50).to(bf16),), 1),
    "layer_norm": lambda: (layer_norm, (randn(5, 513), randn(513), randn(513)), 1),
    "residual and rms_norm": lambda: (residual_norm, (randn(7, 512).to(bf16), randn(7, 512).to(bf16), randn(512).to(bf16)), 1),
    "group_norm": lambda: (group_norm, (randn(2, 16, 5, 7), randn(16), randn(16)), 1),
    "group_norm bf16": lambda: (group_norm, (randn(2, 16, 4, 8).to(bf16), randn(16).to(bf16), randn(16).to(bf16)), 1),
    "instance_norm": lambda: (F.instance_norm, (randn(2, 6, 9, 8),), 1),
    "batch_norm": lambda: (batch_norm, (randn(3, 5, 4, 8), randn(5), randn(5)), 1),
    "batch_norm, odd sizes": lambda: (batch_norm, (randn(3, 5, 3, 5), randn(5), randn(5)), 1),
    "what neighbours share": lambda: (
        lambda s, x, w, b: batch_norm(x - s[:, :, None, None], w, b), (randn(3, 5), randn(3, 5, 4, 8), randn(5), randn(5)), 1,
    ),
    "over the first and last": lambda: (lambda x: x - x.mean((0, 2), keepdim=True), (randn(6, 5, 8),), 1),
    "variance and mean": lambda: (lambda x: torch.var_mean(x, -1), (randn(4, 50),), 1),
    "normalize": lambda: (lambda x: F.normalize(x, dim=-1), (randn(40, 129),), 1),
    "a mask": lambda: (lambda x, m: torch.softmax(x * 0.1 + m, -1), (randn(2, 3, 16, 16), randn(2, 1, 16, 16)), 1),
    "a computed mask": lambda: (triangle, (randn(2, 3, 16, 16),), 1),
    "integers": lambda: (lambda x: (x - x.amin(-1, keepdim=True)) * x.sum(-1, keepdim=True), (torch.randint(-9, 9, (5, 70)),), 1),
    "booleans": lambda: (lambda x: (x > 2).any(-1, keepdim=True) | (x < 0), (randn(5, 70),), 1),
    "products": lambda: (lambda x: x * (1 + x / 16).prod(-1, keepdim=True), (randn(6, 40),), 1),
    "a gradient": lambda: (lambda g, y: torch.ops.aten._softmax_backward_data(g, torch.softmax(y, -1), -1, y.dtype), (randn(6, 50), randn(6, 50)), 1),
    "cross_entropy": lambda: (F.cross_entropy, (randn(40, 70).to(bf16), torch.randint(0, 70, (40,)).index_fill(0, torch.tensor([3]), -100)), 2),
    "transposed rows": lambda: (lambda x, y: torch.softmax(x, -1) + y.t().sum(-1, keepdim=True), (randn(16, 16), randn(16, 16)), 1),
    # What does not go over the same rows stays apart.
    "along the first": lambda: (lambda x: torch.softmax(x, 0), (randn(16, 16),), 4),
}
# Rows that begin anywhere in a vector.
RAGGED = {
    "softmax": lambda n: (softmax, (randn(5, n).to(bf16),)),
    "softmax f32": lambda n: (softmax, (randn(9, n),)),
    "layer_norm": lambda n: (layer_norm, (randn(5, n), randn(n), randn(n))),
    "residual and rms_norm": lambda n: (residual_norm, (randn(5, n).to(bf16), randn(5, n).to(bf16), randn(n).to(bf16))),
    "a mask": lambda n: (lambda x, m: torch.softmax(x + m, -1), (randn(3, 5, n).to(bf16), randn(5, n).to(bf16))),
    "logsumexp": lambda n: (lambda x: torch.logsumexp(x, -1), (randn(5, n).half(),)),
    "a flip": lambda n: (lambda x, y: torch.softmax((x + y).flip(-1) * x, -1), (randn(5, n).half(), randn(5, n).half())),
}
RAGGED_SCHEDULES = {
    "held": {"threads": 64, "across": 32},
    "packed": {"threads": 64, "across": 32, "packed": True},
    "a loop": {"threads": 32, "across": 32, "held": False, "unroll": 2},
    "kept by a cluster": {"threads": 32, "across": 32, "cluster": 2, "held": False, "unroll": 1, "kept": 2},
}
# What a kernel's own schedule becomes.
SCHEDULES = {
    "chosen": {},
    "a loop": {"threads": 64, "across": 64, "held": False, "unroll": 2},
    "part of a warp": {"threads": 64, "across": 8},
    "a cluster": {"threads": 64, "across": 64, "cluster": 2},
    "a loop of a cluster": {"threads": 32, "across": 32, "cluster": 4, "held": False},
    "kept": {"threads": 32, "across": 32, "held": False, "unroll": 2, "kept": 1},
    "kept by a cluster": {"threads": 64, "across": 64, "cluster": 2, "held": False, "unroll": 2, "kept": 9},
    "sent in a cluster": {"threads": 64, "across": 64, "cluster": 4, "sends": True},
    "kept and sent": {"threads": 32, "across": 32, "cluster": 2, "held": False, "unroll": 2, "kept": 9, "sends": True},
    "reciprocals": {"reciprocals": True},
    "approximate": {"approximate": True},
    "online": {"threads": 64, "across": 64, "held": False, "unroll": 2, "online": True},
    "online in a cluster": {"threads": 32, "across": 32, "cluster": 2, "held": False, "unroll": 2, "kept": 9, "sends": True, "online": True},
    "packed": {"packed": True},
    "single elements": {"threads": 128, "across": 64, "vector": 1},
}

# Of blocks that go over all rows, which lie in whole vectors.
PERSISTENT = {
    "blocks": {"threads": 64, "across": 64, "held": False, "unroll": 2, "kept": 9, "persistent": 2},
    "clusters": {"threads": 32, "across": 32, "cluster": 2, "held": False, "unroll": 2, "kept": 9, "sends": True, "persistent": 2},
    "a part": {
        "threads": 32, "across": 32, "cluster": 2, "held": False, "unroll": 1, "kept": 1, "sends": True, "persistent": 3, "online": True,
    },
    "weights": {"threads": 64, "across": 64, "cluster": 2, "held": False, "unroll": 1, "kept": 9, "sends": True, "persistent": 2, "common": True},
}


# Of blocks that have a part of each row.
GRIDS = {
    "one group": {"threads": 32, "share": 3, "ahead": 2},
    "groups": {"threads": 64, "share": 2, "groups": 2, "ahead": 1, "lag": 3},
    "many blocks": {"threads": 32, "share": 40, "ahead": 1},
}


def choose_grid(change: dict):
    """Schedules for blocks that have a part of each row."""
    def chosen(kernel):
        c = rows.read(kernel, find_target("sm_90a"))
        return None if c is None else GridRows(vector=(row_lanes.most_lanes if change.get("ragged") else row_lanes.lanes)(c), **change)

    return chosen


def choose_ragged(change: dict):
    """The same for whole vectors of rows that begin anywhere."""
    def chosen(kernel):
        target = find_target("sm_90a")
        c = rows.read(kernel, target)
        if c is None:
            return None
        vector = 8 if min(a.element.width for s in c.steps for a in s.extras) == 16 else 4
        return replace(rows.pick(c, target), **{**change, "vector": vector, "ragged": True})

    return chosen


def choose(change: dict):
    """A way to choose schedules: ``rows``' own, changed."""
    def chosen(kernel):
        own = rows.choose(kernel, find_target("sm_90a"))
        return None if own is None else replace(own, **change)

    return chosen
