"""Reductions whose terms are extracted from tables, or lie backwards: name -> (function, makes its arguments of a scale)."""

import torch

F = torch.nn.functional
randn, randint = torch.randn, torch.randint



def _numbers(y):
    return (y[:, 0].abs() * 9).long()


CASES = {
    "rows by numbers, flipped": (lambda x, y: (x * y)[_numbers(y)].flip(1).sum(0), lambda s: (randn(70, 24 * s), randn(70, 24 * s).clamp(-2, 2))),
    "odd rows by numbers": (lambda x, y: (x * y)[_numbers(y)].flip(1).amax(0), lambda s: (randn(70, 9 * s).half(), randn(70, 9 * s).half().clamp(-2, 2))),
    "rows by numbers": (lambda x, y: torch.sigmoid(x)[_numbers(y)].flip(0).sum(1), lambda s: (randn(70, 24 * s), randn(70, 24 * s).clamp(-2, 2))),
    "a loss": (F.nll_loss, lambda s: (randn(5003 * s, 6).log_softmax(1), randint(0, 6, (5003 * s,)).index_fill(0, torch.tensor([7, 9]), -100))),
    "one of each row": (lambda x, t: x.gather(1, t).sum(), lambda s: (randn(2000 * s, 5).bfloat16(), randint(0, 5, (2000 * s, 2)))),
    "rows of a table": (lambda w, t: F.embedding(t, w).sum(1), lambda s: (randn(50, 24 * s), randint(0, 50, (7 * s, 300)))),
    "odd rows of a table": (lambda w, t: F.embedding(t, w).amax(0), lambda s: (randn(50, 13).half(), randint(0, 50, (900 * s,)))),
    "one row's columns": (lambda x, i: x[:, i].mean(), lambda s: (randn(40 * s, 70), randint(0, 70, (33,)))),
    "two tables": (lambda x, y, t: (x[t] * y[t]).sum(-1), lambda s: (randn(60, 72), randn(60, 72), randint(0, 60, (41 * s,)))),
    "backwards": (lambda x: (x.flip(-1) ** 2).mean(), lambda s: (randn(64 * s, 131),)),
    "columns from the last row on": (lambda x: x.flip(0).amax(0), lambda s: (randn(64 * s, 130 * s).half(),)),
    "columns from the last one on": (lambda x: x.flip(1).sum(0), lambda s: (randn(70, 48 * s).bfloat16(),)),
    "the place of the largest backwards": (lambda x: x.flip(1).argmax(1), lambda s: (randint(0, 9, (50, 300 * s)).float(),)),
    "both ways": (lambda x: (x.flip(0) + x).exp().sum(0), lambda s: (randn(70, 48 * s),)),
}
