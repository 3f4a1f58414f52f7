"""Scans with maps in front of them and behind: for the simulator and for a GPU."""

import torch

from inferno.capture.running import recurrence
from inferno.schedule.scans.scan_schedule import Scans

randn, bf16 = torch.randn, torch.bfloat16
PASSES = "fuse-scans{target=sm_90a}"


def masked(x, m):
    y = torch.where(m, x, 0).cumsum(-1)
    return y, torch.sigmoid(y) * x


def numbered(x):
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return (x + rows[:, None]).cumsum(1) * columns


def discretised(dt, a, b, x):
    """A state space: state [batch, length, width, states]."""
    step = torch.exp(-torch.exp(a) * dt[..., None])
    return recurrence(step, dt[..., None] * b[:, :, None] * x[..., None], 1).to(bf16)


def mean(op, dim):
    """A running value by its place, of what is scaled by place, row and column."""
    def model(x, row, column):
        place = torch.arange(1, x.shape[dim] + 1, device=x.device)
        place = place if dim else place[:, None]
        return op(x * place * row + column[:, None], dim) / place
    return model


def from_end(dim):
    """The gradient of a running sum, beside what it is multiplied with."""
    return lambda x, y: (x * y).flip(dim).cumsum(dim).flip(dim) * y


def extrema_from_end(dim):
    """Running maxima and their places from the end, in its order and in that of memory."""
    def model(x):
        values, places = x.flip(dim).cummax(dim)
        return values.flip(dim), places.flip(dim), values
    return model


def both_ways(x, y):
    """Sums, and the same from the last one on beside what lies in that order and in the other."""
    s = (x * y).cumsum(1)
    return s * x, s.flip(1) * y + x.flip(1) * torch.arange(x.shape[1], device=x.device)


# The model, its inputs, and a schedule; each is one kernel.
FUSED = {
    "flipped behind, along": (lambda x: x.cumsum(1).flip(1), lambda: (randn(5, 300),), Scans(64, 32, 4, 2)),
    "flipped behind, along, packed": (lambda x: x.cumsum(1).flip(1), lambda: (randn(2, 4000).to(bf16),), Scans(64, 64, 8, 2, 4, packed=True)),
    "flipped behind, across, staged": (lambda x: x.cumsum(0).flip(0), lambda: (randn(900, 32),), Scans(64, 4, 4, 2, stages=2)),
    "flipped in front, along, in groups": (lambda x: x.flip(1).cumsum(1) + x, lambda: (randn(2, 4000),), Scans(64, 64, 4, 2, 4)),
    "flipped in front, across, staged, in groups": (
        lambda x, y: (x - y).flip(0).cumsum(0) * y, lambda: (randn(900, 32), randn(900, 32)), Scans(64, 4, 4, 2, 4, stages=1),
    ),
    "flipped along neighbours, staged": (lambda x: x.flip(1).cumsum(0), lambda: (randn(900, 32),), Scans(64, 4, 4, 2, stages=2)),
    "flipped along all": (lambda x: x.flip((0, 1, 2)).cumsum(1).flip((1, 2)) + 1, lambda: (randn(3, 60, 20),), None),
    "flipped and not": (lambda x: (x + x.flip(1)).cumsum(1), lambda: (randn(5, 300),), None),
    "both ways": (both_ways, lambda: (randn(5, 300), randn(5, 300)), None),
    "maxima from the end, along": (extrema_from_end(1), lambda: (randn(5, 300),), None),
    "maxima from the end, across": (extrema_from_end(0), lambda: (randn(300, 5).to(bf16),), None),
    "minima, flipped": (lambda x: tuple(y.flip(0) for y in x.cummin(0)), lambda: (randn(300, 8).to(bf16),), Scans(64, 2, 4, 2, 2, stages=1)),
    "from the end, along": (from_end(-1), lambda: (randn(5, 300), randn(5, 300)), Scans(64, 32, 4, 2)),
    "from the end, along, in groups": (from_end(-1), lambda: (randn(2, 4000), randn(2, 4000)), Scans(64, 64, 4, 2, 4)),
    "from the end, along, packed": (lambda x: x.flip(1).cumsum(1).flip(1), lambda: (randn(2, 4000).to(bf16),), Scans(64, 64, 8, 2, 4, packed=True)),
    "from the end, across": (from_end(1), lambda: (randn(2, 90, 24), randn(2, 90, 24)), Scans(64, 4, 2, 2)),
    "from the end, across, in groups": (from_end(0), lambda: (randn(900, 24), randn(900, 24)), Scans(64, 4, 2, 2, 4)),
    "from the end, across, staged": (from_end(0), lambda: (randn(900, 32), randn(900, 32)), Scans(64, 4, 4, 2, stages=2)),
    "from the end, across, staged, in groups": (from_end(0), lambda: (randn(900, 32), randn(900, 32)), Scans(64, 4, 4, 2, 4, stages=1)),
    "maps in front and behind": (lambda x: torch.relu(x * 2).cumsum(-1) + 1, lambda: (randn(5, 300),), None),
    "two results, a mask": (masked, lambda: (randn(3, 2000), torch.rand(3, 2000) > 0.5), Scans(64, 64, 4, 2)),
    "broadcasts": (lambda x, w, b: (x * w + b).cumsum(1), lambda: (randn(2, 30, 40), randn(40), randn(2, 1, 1)), None),
    "broadcasts along": (lambda x, w: (x * w).cumsum(-1) * w, lambda: (randn(2, 30, 40), randn(40)), None),
    "places": (numbered, lambda: (randn(7, 200),), None),
    "reshapes": (lambda x: (x.view(6, 5, 40) * 2).cumsum(2).view(30, 40) + 1, lambda: (randn(30, 40),), None),
    "narrow rows": (lambda x: x.cumsum(-1) + 1, lambda: (randn(70, 18).to(bf16),), Scans(64, 4, 2, 3)),
    "very narrow rows": (lambda x: x.cummax(-1), lambda: (randn(70, 7),), Scans(64, 2, 1, 4)),
    "a walk": (lambda x, y: (x - y).cumsum(1).to(bf16), lambda: (randn(2, 200, 16), randn(16)), Scans(64, 4, 4, 2)),
    "a look back": (lambda x, y: (x - y).cumsum(1) * y, lambda: (randn(2, 200, 16), randn(16)), Scans(64, 4, 4, 2, 4)),
    "a look back at a tile that waits": (
        lambda x, y: torch.relu(x - y).cumsum(1) * x, lambda: (randn(2, 200, 16), randn(16)), Scans(64, 4, 4, 2, 4, stages=1),
    ),
    "maxima that wait, and where they are": (lambda x: x.cummax(0), lambda: (randn(300, 8).to(bf16),), Scans(64, 2, 4, 2, 2, stages=1)),
    "maxima, and where they are": (lambda x: x.cummax(-1), lambda: (randn(5, 300),), None),
    "a recurrence of what is computed": (discretised, lambda: (torch.rand(2, 60, 8), randn(8, 16), randn(2, 60, 16), randn(2, 60, 8)), None),
    "a recurrence that looks back": (
        lambda a, b: recurrence(a, b, 1) * 2, lambda: (torch.rand(2, 200, 16), randn(2, 200, 16)), Scans(64, 4, 2, 2, 4),
    ),
    "minima, and where they are": (lambda x: x.cummin(0), lambda: (randn(300, 5).to(bf16),), None),
    "sums by place": (mean(torch.cumsum, 1), lambda: (randn(5, 200), randn(200), randn(5)), None),
    "sums by place, the first dimension": (mean(torch.cumsum, 0), lambda: (randn(70, 12), randn(12), randn(70)), None),
    "products by place": (mean(torch.cumprod, 1), lambda: (1 + randn(5, 40) / 99, 1 + randn(40) / 99, randn(5) / 99), None),
    "maxima by place": (mean(lambda x, d: x.cummax(d)[0], 0), lambda: (randn(70, 12), randn(12), randn(70)), None),
    "logarithms by place": (mean(torch.logcumsumexp, 1), lambda: (randn(5, 200), randn(200), randn(5)), None),
}
