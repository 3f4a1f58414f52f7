"""Sums of several tensors that lie differently, and schedules that read pieces of all: for the simulator and for a GPU."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import torch

from inferno.schedule.reductions import reductions, transposed_sums
from inferno.schedule.reductions.reduction_schedule import Reductions
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")
TABLES = {  # of two tensors of so many rows and columns, the second of which is transposed
    "sums of rows": lambda x, y: torch.where(x > 0, x, y.t()).sum(1),
    "sums of columns": lambda x, y: (F.silu(x) * y.t()).sum(0),
    "mean of all": lambda x, y: (x - y.t()).square().mean(),
    "largest": lambda x, y: (x + y.t()).amax(1),
    "largest of all": lambda x, y: (x - y.t()).abs().amax(),
    "two sums": lambda x, y: ((x * y.t()).sum(0), (x - y.t()).abs().sum(0)),
    "of numbers": lambda x, y: (x * y.t() * (1 + torch.arange(x.shape[1], device=x.device) / 8)).sum(0),
    "with a row": lambda x, y: (x * y.t() * x[:1]).mean(1),
}
IMAGES = {  # of two images, the second with its channels last
    "channels": lambda x, y: (x * y).sum((0, 2, 3)),
    "over channels": lambda x, y: (x - y).square().mean(1),
    "images": lambda x, y: F.relu(x + y).mean((2, 3)),
    "losses": lambda x, y: (x - y).square().mean((1, 2, 3)),
    "loss": lambda x, y: F.smooth_l1_loss(x, y),
    "of a mask": lambda x, y: (x * y.sigmoid() * (x[:, :1] > 0)).sum((1, 2, 3)),
}
SIZES = [(203, 92), (64, 64), (40, 333), (129, 1), (33, 16), (8, 300)]
IMAGE_SIZES = [(3, 64, 9, 8), (2, 33, 7, 5), (1, 16, 20, 20), (5, 3, 30, 8), (2, 96, 4, 6)]
SCHEDULES = {  # threads side by side and along, lanes, vectors at once, chunks
    "chosen": None, "lanes": (64, 4, 8, 1, 1), "chunks": (32, 4, 2, 2, 3), "one by one": (16, 2, 1, 3, 2), "one warp": (16, 8, 4, 1, 5),
    "many": (128, 2, 2, 1, 2), "between each other": (32, 4, 2, 2, 3),
}


def choose(name: str, found: list[Reductions]) -> Callable:
    """What chooses the schedule of that name where it fits, and the generator's own elsewhere; the schedules of transposed sums are added to ``found``."""
    def chosen(kernel):
        s, c = reductions.choose(kernel, TARGET), reductions.read(kernel, TARGET)
        if SCHEDULES[name] is not None and c is not None and transposed_sums.transposed_run(c) is not None:
            across, along, vector, unroll, chunks = SCHEDULES[name]
            other = Reductions(across, along, vector, unroll, transposed=True)
            while other.vector > 1 and not other.takes(c, other.vector):
                other = replace(other, vector=other.vector // 2)
            while other.across > 1 and not transposed_sums.parts(c, other.across):
                other = replace(other, across=other.across // 2, along=other.along * 2)
            if other.fits(c):
                share = replace(other, chunks=min(chunks, other.units(c))).share(c)
                s = replace(other, chunks=ceil(other.units(c) / share), interleaved=name == "between each other")
        found.extend([s] if s is not None and s.transposed else [])
        return s

    return chosen


def tables(size: tuple[int, int], dtype: torch.dtype, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, device=device).to(dtype), torch.randn(size[::-1], device=device).to(dtype)


def images(size: tuple[int, ...], dtype: torch.dtype, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (torch.randn(size, device=device).to(dtype) for _ in range(2))
    return x, y.to(memory_format=torch.channels_last)


