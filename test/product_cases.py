"""Sums of products of which each factor is read once: name -> (function, shapes of a scale)."""

import torch



def differences_of_pairs(x, y, w):
    """Of all pairs of a row's numbers, by a weight of one side: a loss of quantiles."""
    d = y[:, None] - x[:, :, None]
    return ((w - (d < 0).to(d.dtype)).abs() * torch.where(d.abs() < 1, d * d / 2, d.abs() - 0.5)).sum(2)


CASES = {
    "dot": (torch.dot, lambda s: ((300 * s,), (300 * s,))),
    "of what is computed": (lambda x, y: torch.relu(torch.dot(torch.relu(x) * 2, y)), lambda s: ((300 * s,), (300 * s,))),
    "batches": (torch.bmm, lambda s: ((6 * s, 1, 72), (6 * s, 72, 1))),
    "all": (lambda x, y: torch.tensordot(x, y, 2), lambda s: ((5 * s, 72), (5 * s, 72))),
    "rows that end in more": (lambda x, y: torch.relu(torch.einsum("bi,bi->b", torch.sigmoid(x), y) + 1), lambda s: ((7 * s, 40 * s), (7 * s, 40 * s))),
    "a factor for each term": (lambda x, y, r: torch.relu((x * (y * r)).sum(0)), lambda s: ((40 * s, 24), (40 * s, 24), (40 * s, 1))),
    "columns": (lambda x, y: torch.einsum("ib,ib->b", x, y), lambda s: ((40 * s, 24), (40 * s, 24))),
    "differences of pairs": (differences_of_pairs, lambda s: ((3, 20 * s), (3, 72), (20 * s, 1))),
}
