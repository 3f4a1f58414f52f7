"""Programs that sort and select, for the simulator and for a GPU."""

import torch

nan, inf = float("nan"), float("inf")
PASSES = "fuse-sorts{target=sm_90a always=1}"


def numbers(*shape, dtype=torch.float32):
    """Numbers of which some are equal, zeros of both signs, infinities and NaN."""
    x = torch.randn(shape).mul(4).round().div(4)
    special = torch.tensor([nan, -0.0, 0.0, inf, -inf, -nan, 1.5])
    where = torch.rand(shape) < 0.3
    return torch.where(where, special[torch.randint(0, len(special), shape)], x).to(dtype)


def whole(*shape, dtype=torch.int64):
    low, high = (-100, 100) if dtype == torch.int8 else (-1000, 1000)
    return torch.randint(low, high, shape).to(dtype)


def sort(x, dim=-1, descending=False):
    return torch.sort(x, dim=dim, descending=descending, stable=True)
