"""Contractions that every generator's tests run: functions of their operands, and shapes.  ``right(function, args)`` is a
test's own check, ``randn(*shape)`` its own kind of numbers."""

from collections.abc import Callable

import torch

F = torch.nn.functional
Check = Callable[..., object]

# Of x (k, m), w (k, n), a (m, k), b (n, k).
LAYOUTS = {
    "mk,kn": lambda x, w, a, b: a @ w,
    "mk,nk": lambda x, w, a, b: a @ b.t(),
    "km,kn": lambda x, w, a, b: x.t() @ w,
    "km,nk": lambda x, w, a, b: x.t() @ b.t(),
    "km,kn,t": lambda x, w, a, b: (x.t() @ w).t(),
    "mk,nk,t": lambda x, w, a, b: (a @ b.t()).t(),
}


def layout_shapes(m: int, n: int, k: int) -> tuple[tuple[int, int], ...]:
    return (k, m), (k, n), (m, k), (n, k)


BATCHES = (
    ((4, 64, 32), (4, 32, 48)), ((3, 33, 17), (3, 17, 35)), ((2, 3, 160, 24), (2, 3, 24, 80)), ((5, 40, 30), (30, 20)),
    ((70, 10, 10), (70, 10, 10)), ((7, 128, 64), (64, 128)), ((64, 128), (6, 128, 72)), ((2, 1, 96, 64), (1, 5, 64, 96)),
)

# Of x (m, k), w (k, n), b (n,), r (m, n), c (m, 1), s ().
EPILOGUES = {
    "gelu": lambda x, w, b, r, c, s: F.gelu(x @ w + b),
    "tanh gelu": lambda x, w, b, r, c, s: F.gelu(x @ w, approximate="tanh"),
    "silu": lambda x, w, b, r, c, s: F.silu(x @ w + b),
    "residual": lambda x, w, b, r, c, s: r + (x @ w + b),
    "column": lambda x, w, b, r, c, s: torch.relu(x @ w + c),
    "scalar": lambda x, w, b, r, c, s: (x @ w) * s,
    "clamp": lambda x, w, b, r, c, s: (x @ w).clamp(-1.5, 2.0),
    "float": lambda x, w, b, r, c, s: (x @ w).float() * 2,
    "gate": lambda x, w, b, r, c, s: torch.sigmoid(x @ w + b) * r,
    "all": lambda x, w, b, r, c, s: torch.tanh((x @ w) * s + b) * c + r,
    "boolean": lambda x, w, b, r, c, s: (x @ w) > 1000 * torch.sign(r),  # far from every sum: rounding decides nothing
    "masked": lambda x, w, b, r, c, s: torch.where(r > 0, x @ w, torch.zeros((), device=x.device, dtype=x.dtype)),
    "triangle": lambda x, w, b, r, c, s: torch.tril(x @ w),
    "two": lambda x, w, b, r, c, s: (x @ w, torch.relu(x @ w)),
}


def epilogue_shapes(m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    return (m, k), (k, n), (n,), (m, n), (m, 1), ()


# Of x (m, k), w (k, n), q (k, n) of int8, s (1, k); of "round", x is float32.
PROLOGUES = {
    "relu": lambda x, w, q, s: torch.relu(x) @ w,
    "scale": lambda x, w, q, s: (x * s) @ w,
    "round": lambda x, w, q, s: x.to(w.dtype) @ w,
    "int8": lambda x, w, q, s: x @ q.to(x.dtype),
    "int8 scaled": lambda x, w, q, s: torch.relu(x) @ (q.to(x.dtype) * s[0, 0]),
}


def heads(right: Check, randn: Callable[..., torch.Tensor], rows: int, count: int, size: int) -> None:
    """Attention's two products, whose rows and columns are axes of several loops."""
    def scores(q, k):
        q, k = (t.view(2, rows, count, size).transpose(1, 2) for t in (q, k))
        return q @ k.transpose(-1, -2) * 0.25

    def merged(p, v):
        return (p @ v).transpose(1, 2).reshape(2, rows, count * size)

    right(scores, (randn(2, rows, count * size), randn(2, rows, count * size)))
    right(merged, (randn(2, count, rows, rows), randn(2, count, rows, size)))


def not_finite(randn: Callable[..., torch.Tensor], m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(m, k) and (k, n) with infinities and a NaN."""
    x, w = randn(m, k), randn(k, n)
    x[3, 5], x[7, 9], w[2, 4] = float("inf"), float("nan"), -float("inf")
    return x, w


def repeats(compiled: Callable[..., torch.Tensor], args: tuple[torch.Tensor, ...]) -> None:
    """Kernels of consecutive calls overlap: the next one is on the multiprocessors before the last one's blocks have ended."""
    first = compiled(*args)
    for _ in range(20):
        results = [compiled(*args) for _ in range(20)]
        assert all(torch.equal(r, first) for r in results)
