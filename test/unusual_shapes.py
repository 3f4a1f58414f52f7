"""Programs of shapes that are not usual: rows of a few numbers, images of a few channels, odd lengths, tall matrices; for schedules, and for a GPU."""

import torch

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16


def one_hot(i, w):
    return F.one_hot(i, w.shape[0]).to(w.dtype) @ w


def stacked(*x):
    return torch.stack(x, -1)


# A program, what it is given ``scale`` times, and the generators of its kernels for a GPU where that is 64.
PROGRAMS = {
    "many rows of 4": (lambda x: x.softmax(-1), lambda scale: (randn(65536 * scale, 4),), ["rows"]),
    "many rows of 8": (lambda x: x.softmax(-1), lambda scale: (randn(32768 * scale + 1, 8).to(bf16),), ["rows"]),
    "rows of 3": (lambda x: F.normalize(x, dim=-1), lambda scale: (randn(21845 * scale + 1, 3),), ["columns"]),
    "rows of 197": (lambda x: x.softmax(-1), lambda scale: (randn(501 * scale, 197),), ["rows"]),
    "means of pairs of pairs": (lambda x: x.mean((2, 3)), lambda scale: (randn(64 * scale, 1024, 2, 2).to(bf16),), ["columns"]),
    "squares of 8 columns": (lambda x: x.t() @ x, lambda scale: (randn(16400 * scale, 8),), ["direct"]),
    "squares of 3 columns": (lambda x: x.t() @ x, lambda scale: (randn(16401 * scale, 3).to(bf16),), ["reductions"]),
    "products of tall matrices": (lambda x, y: x.t() @ y, lambda scale: (randn(16384 * scale, 8).to(bf16), randn(16384 * scale, 32).to(bf16)), ["direct"]),
    "products of tall matrices, odd": (lambda x, y: x.t() @ y, lambda scale: (randn(16381 * scale, 7), randn(16381 * scale, 19)), ["direct"]),
    "a layer to 3 features": (lambda x, w, b: F.linear(x, w, b), lambda scale: (randn(4096 * scale, 64), randn(3, 64), randn(3)), ["direct"]),
    "products of small matrices": (
        lambda x, y: torch.einsum("nik,njk->nij", x, y), lambda scale: (randn(256 * scale, 8, 32), randn(256 * scale, 8, 32)), ["direct"],
    ),
    "a running sum of 3": (lambda x: x.cumsum(0), lambda scale: (randn(3, 2048 * scale),), ["scans"]),
    "a running sum of 5 in float64": (lambda x: x.double().cumsum(1), lambda scale: (randn(2, 5, 1000 * scale),), ["scans"]),
    "a stack of 8": (stacked, lambda scale: tuple(randn(16384 * scale) for _ in range(8)), ["elementwise"]),
    "a stack of 8 in bf16": (stacked, lambda scale: tuple(randn(16384 * scale).to(bf16) for _ in range(8)), ["elementwise"]),
    "pairs transposed": (lambda x: x.t().contiguous(), lambda scale: (randn(65536 * scale, 2),), ["boxes"]),
    "columns of 8 transposed": (lambda x: x.transpose(1, 2).contiguous(), lambda scale: (randn(256 * scale, 128, 8),), ["boxes"]),
    "sums of two vectors": (lambda a, b: a[:, None] + b, lambda scale: (randn(128 * scale), randn(1024)), ["elementwise"]),
    "labels times a matrix": (one_hot, lambda scale: (torch.randint(0, 64, (1024 * scale,)), randn(64, 64).to(bf16)), ["elementwise", "wgmma"]),
    "losses of images": (F.cross_entropy, lambda scale: (randn(scale, 19, 64, 64), torch.randint(0, 19, (scale, 64, 64))), None),
    "losses of 3 classes": (F.cross_entropy, lambda scale: (randn(1024 * scale, 3), torch.randint(0, 3, (1024 * scale,))), None),
    "losses of 2 classes, some ignored": (
        F.cross_entropy,
        lambda scale: (randn(1001 * scale, 2).to(bf16), torch.randint(0, 2, (1001 * scale,)).masked_fill(torch.rand(1001 * scale) < 0.2, -100)), None),
    "a norm of channels": (
        lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (24,), w, b).permute(0, 3, 1, 2),
        lambda scale: (randn(2 * scale, 24, 56, 56), randn(24), randn(24)), ["columns"]),
    "unit vectors of channels": (lambda x: F.normalize(x, dim=1), lambda scale: (randn(scale, 64, 56, 56),), ["columns"]),
    "sorted rows of 8": (lambda x: x.sort(-1)[0], lambda scale: (randn(32768 * scale + 1, 8),), None),
    "sorted rows of 8 in bf16": (lambda x: x.sort(-1, descending=True)[0], lambda scale: (randn(32768 * scale + 1, 8).to(bf16),), None),
    "places of sorted rows of 5": (lambda x: torch.sort(x, stable=True)[1], lambda scale: (randn(32768 * scale + 1, 5),), None),
    "sorted columns of 4": (lambda x: torch.msort(x), lambda scale: (randn(4, 32768 * scale).to(bf16),), None),
    "odd columns": (lambda x: x.sum(0), lambda scale: (randn(64 * scale + 3, 4099),), ["reductions"]),
}
