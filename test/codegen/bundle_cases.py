"""Models with small kernels that do not wait for each other: the function, its arguments, and the generators of each bundle."""

import torch

F = torch.nn.functional


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def several(a, b, c, d):
    """Results of other sizes than the arguments: what could be written in the place of one is left alone."""
    return torch.sin(a)[:, None] * b, torch.exp(b)[:, None] + a, torch.softmax(c, -1), F.layer_norm(d, d.shape[-1:])


def equal(a, b, c, x):
    return torch.sin(a)[:, None] * x, torch.sin(b)[:, None] * x, torch.sin(c)[:, None] * x


def between(a, b, w):
    """A product that one of them waits for, and that the other one is in front of."""
    h = torch.softmax(a @ w, -1)
    return torch.softmax(h.t() @ a, -1), torch.softmax(b, -1), h


def bytes_and_halves(a, b):
    return a.to(torch.bfloat16).t(), b > 0, torch.roll(a, 1, 0)


def transposed(a, b, x):
    return a.t() + x[:, None, None], torch.cos(b)[:, None] * x


def several_results(a, b):
    return *torch.var_mean(a, -1), F.log_softmax(b, -1)


def sums(a, b, c):
    """Sums of rows and of columns, and the largest of each row with its place, in shared memory of their own."""
    return a.sum(-1), torch.softmax(b, -1), c.max(-1), a.mean(0)


def sums_of_columns(a, b):
    """Of what takes much to compute, by twice the threads of the others."""
    return F.gelu(a).sum(0), b.sum(0)


def of_nothing(x):
    """Kernels that read no tensor."""
    return torch.arange(70, device=x.device) * 3, torch.eye(9, device=x.device), torch.softmax(x, -1)


CASES = {
    "several generators": (several, (randn(24), randn(90), randn(4, 512), randn(6, 512)), [["elementwise", "elementwise", "rows", "rows"]]),
    "equal parts": (equal, (randn(33), randn(33), randn(33), randn(64)), [["elementwise"] * 3]),
    "around a product": (between, (randn(96, 64), randn(40, 64), randn(64, 96)), [["rows", "rows"]]),
    "bytes and halves": (bytes_and_halves, (randn(9, 33), randn(7, 40)), [["elementwise"] * 3]),
    "a transposing one": (transposed, (randn(48, 64), randn(40), randn(3)), [["elementwise"] * 2]),
    "of nothing": (of_nothing, (randn(9, 40),), [["elementwise", "elementwise", "rows"]]),
    "sums": (sums, (randn(123, 640), randn(70, 256), randn(64, 520)), [["reductions", "rows", "reductions", "reductions"]]),
    "sums of columns": (sums_of_columns, (randn(23, 2048, dtype=torch.bfloat16),) * 2, [["reductions", "reductions"]]),
    "several results": (several_results, (randn(32, 300), randn(32, 300)), [["rows", "rows"]]),
}
