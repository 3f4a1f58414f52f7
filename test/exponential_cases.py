"""Programs that sum exponentials below the largest of a column: for the simulator and for a GPU."""

import torch

MODELS = {
    "softmax": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, 0),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "of a function": lambda x: torch.softmax(torch.tanh(x) * 3, 0),
    "the middle": lambda x: torch.softmax(x.view(2, -1, x.shape[1]), 1),
    "a sum by itself": lambda x: (x - x.amax(0)).exp().sum(0),
}
PASSES = "merge-softmaxes{target=sm_90a always=1}"


def columns(rows, count, dtype, device="cpu"):
    """The first columns are minus infinity, NaN once, infinity once, minus infinity once, large, far from 0, ascending and descending."""
    x = torch.randn(rows, count, device=device)
    x[:, 0], x[3, 1], x[5, 2], x[7, 3] = -torch.inf, torch.nan, torch.inf, -torch.inf
    x[:, 4] *= 1e4
    x[:, 5] += 300
    x[:, 6], x[:, 7] = torch.linspace(-50, 50, rows, device=device), torch.linspace(50, -50, rows, device=device)
    return x.to(dtype)
