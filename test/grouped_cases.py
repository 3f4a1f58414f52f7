"""Products of groups of rows, the experts of a mixture, for the simulator and for a GPU."""

import torch
from torch.nn.functional import silu


def grouped(x, w, ends):
    """Row by row what ``torch._grouped_mm`` computes, as it is decomposed: 0 behind the last group."""
    count, groups = x.shape[0], w.shape[0]
    group = (ends <= torch.arange(count, device=x.device, dtype=ends.dtype).unsqueeze(-1)).sum(-1)
    place = group.clamp(max=groups - 1)
    every = torch.bmm(x.unsqueeze(0).expand(groups, *x.shape), w)
    picked = every.gather(0, place.view(1, count, 1).expand(1, count, every.shape[-1])).squeeze(0)
    return torch.where((group < groups).unsqueeze(-1), picked, 0)


def weighted(x, w, ends, each):
    """As a mixture's second product is."""
    return grouped(x, w, ends) * each.unsqueeze(-1)


def mixed(x, w, numbers):
    """Of rows in any order."""
    every = torch.bmm(x.unsqueeze(0).expand(w.shape[0], *x.shape), w)
    return every.gather(0, numbers.view(1, -1, 1).expand(1, *every.shape[1:])).squeeze(0)


def gated(x, w, numbers):
    """A SwiGLU of them, as a mixture's first product is."""
    gate, up = mixed(x, w, numbers).chunk(2, -1)
    return silu(gate) * up


def experts(x, first, second, ends, weights, order):
    """A mixture's experts; each row's weight lies elsewhere."""
    gate, up = grouped(x, first, ends).chunk(2, -1)
    return grouped(silu(gate) * up, second, ends) * weights[order].unsqueeze(-1)


ENDS = {
    "several": [0, 5, 70, 71, 71, 150], "to the end": [64, 64, 192, 200], "none behind the first": [3, 3, 3, 3], "whole tiles": [64, 128, 128, 256],
    "many": [i * 3 for i in range(1, 33)],
}


def operands(ends, rows, terms, columns, dtype=torch.bfloat16, device="cpu", transposed=True):
    """Rows, matrices, and where groups end; what is behind the last group is no number."""
    x = torch.randn(rows, terms, dtype=dtype, device=device)
    x[ends[-1]:] = float("nan")
    w = torch.randn(len(ends), *((columns, terms) if transposed else (terms, columns)), dtype=dtype, device=device)
    return x, w.transpose(1, 2) if transposed else w, torch.tensor(ends, dtype=torch.int32, device=device)
