"""Models with sizes that vary: for the simulator, the CPU and a GPU.  Each gives the model, what makes its inputs for given sizes,
``dynamic_shapes``, and sizes to try, the first of which it is compiled for."""

import torch
from torch.export import Dim

F = torch.nn.functional
ROWS = [(5,), (1,), (2,), (64,), (333,)]
BATCH = [(3, 5), (1, 1), (1, 7), (4, 64), (2, 131)]


def _dims(rank: int, *names: str) -> tuple[dict, ...]:
    """``rank`` inputs whose first dimensions are the named ones."""
    dims = [Dim(n, min=1, max=4096) for n in names]
    return tuple(dict(enumerate(dims)) for _ in range(rank))


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(16, 24)

    def forward(self, x):
        return F.relu(self.l(x))


class Attention(torch.nn.Module):
    """Four heads of 8, the scores of which have both sizes that vary in their strides."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (t.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))


def rows(*shape: int, count: int = 1):
    """Inputs of (size, *shape)."""
    return lambda n: tuple(torch.randn(n, *shape) for _ in range(count))


def batches(*shape: int, count: int = 1):
    """Inputs of (batch, length, *shape)."""
    return lambda b, s: tuple(torch.randn(b, s, *shape) for _ in range(count))


def _residual(x, r, w):
    x = x + r
    return x, F.layer_norm(x, (48,)) * w[:48]


# A kernel of the generator of rows each.
ROWS_OF_KNOWN_LENGTH = {
    "softmax of rows": lambda: (lambda x: torch.softmax(x, -1), batches(72), _dims(1, "b", "s"), BATCH),
    "residual and layer norm": lambda: (
        _residual, lambda b, s: (torch.randn(b, s, 48), torch.randn(b, s, 48), torch.randn(64)), (*_dims(2, "b", "s"), None), BATCH,
    ),
    "rms norm of heads": lambda: (lambda x: F.rms_norm(x.view(*x.shape[:2], 4, 16), (16,)), batches(64), _dims(1, "b", "s"), BATCH),
    "masked scores": lambda: (
        lambda x, m: torch.softmax(x + m[:, None, None], -1), lambda b, s: (torch.randn(b, 3, s, 40), torch.randn(b, 40)),
        tuple({0: b, **more} for b, s in [(Dim("b", min=1, max=64), Dim("s", min=1, max=4096))] for more in ({2: s}, {})), BATCH,
    ),
    "variance": lambda: (lambda x: (x.var(-1), x.mean(-1)), rows(130), _dims(1, "n"), ROWS),
    "no rows of known length": lambda: (lambda x: torch.log_softmax(x, -1), rows(24), ({0: Dim("n", min=0, max=64)},), [(5,), (0,), (1,)]),
}

SCANS_OF_KNOWN_LENGTH = {
    "softmax and running sums": lambda: (lambda x: torch.softmax(x, -1).cumsum(-1), batches(72), _dims(1, "b", "s"), BATCH),
    "running sums of rows": lambda: (lambda x: (x * 2).cumsum(-1) + 1, rows(130), _dims(1, "n"), ROWS),
    "no rows of running sums": lambda: (lambda x: x.cumsum(-1), rows(24), ({0: Dim("n", min=0, max=64)},), [(5,), (0,), (1,)]),
}

CASES = {
    # As wide as one window, and a column more that no window reaches.
    "a convolution with one window across": lambda: (
        lambda x, w: F.conv2d(x, w, stride=2), lambda n: (torch.randn(n, 4, 12, 5), torch.randn(8, 4, 4, 4)), (*_dims(1, "n"), None), ROWS,
    ),
    "elementwise": lambda: (lambda x, y: (x * y - 1).abs() + x, rows(7, count=2), _dims(2, "n"), ROWS),
    "broadcast": lambda: (lambda x, y: x[:, None, :] - y[None, :, :], lambda n: (torch.randn(n, 6), torch.randn(n, 6)), _dims(2, "n"), ROWS[:4]),
    "transposed": lambda: (lambda x: x.transpose(0, 1).contiguous() * 2, batches(3), _dims(1, "b", "s"), BATCH),
    "row sums": lambda: (lambda x: (x.sum(-1), x.mean(0), x.amax(1)), batches(), _dims(1, "b", "s"), BATCH),
    # (Of squares: what normal numbers come to is thousands of times less than their magnitudes, and its error, eager's too, a matter of chance.)
    "long sums": lambda: (lambda x: (x * x).sum(), rows(300), _dims(1, "n"), ROWS),
    "sums of constants": lambda: (
        lambda x: (torch.full_like(x, 3).sum(0) + x[0], torch.ones_like(x, dtype=torch.int64).sum(1), torch.ones_like(x).sum()),
        batches(), _dims(1, "b", "s"), BATCH,
    ),
    "softmax": lambda: (lambda x: torch.softmax(x, -1), batches(), _dims(1, "b", "s"), BATCH),
    "layer norm": lambda: (torch.nn.LayerNorm(48).eval(), batches(48), _dims(1, "b", "s"), BATCH),
    "linear": lambda: (Linear(), batches(16), _dims(1, "b", "s"), BATCH),
    "matmul": lambda: (lambda x: x @ x.transpose(1, 2) @ x, batches(12), _dims(1, "b", "s"), BATCH),
    "sums of any length": lambda: (lambda x, y: torch.relu(x.t() @ y) * 2 - 1, lambda n: (torch.randn(n, 24), torch.randn(n, 40)), _dims(2, "n"), ROWS),
    "scaled sums": lambda: (lambda x, y: (x.transpose(1, 2) @ (y * 0.5)).abs() + 1, batches(9, count=2), _dims(2, "b", "s"), BATCH),
    "products divided by a size": lambda: (
        lambda x, y: (x.transpose(1, 2) @ y).abs() / x.shape[1] + x.shape[0], batches(9, count=2), _dims(2, "b", "s"), BATCH,
    ),
    "attention": lambda: (Attention(), batches(32), _dims(1, "b", "s"), BATCH[:4]),
    "concatenation": lambda: (lambda x, y: torch.cat([x, y * 2, x], 1), batches(4, count=2), _dims(2, "b", "s"), BATCH),
    "padding": lambda: (lambda x: F.pad(x, (1, 2, 3, 0)), batches(), _dims(1, "b", "s"), BATCH),
    "slices": lambda: (lambda x: x[:, 1:] - x[:, :-1], batches(4), ({0: Dim("b", min=1, max=64), 1: Dim("s", min=3, max=4096)},), [(3, 5), (1, 3), (2, 65)]),
    "positions": lambda: (lambda x: x + torch.arange(x.shape[1])[:, None] / x.shape[1], batches(4), _dims(1, "b", "s"), BATCH),
    "gather": lambda: (lambda i, t: t[i] * 2, lambda b, s: (torch.randint(0, 10, (b, s)), torch.randn(10, 6)),
                       ({0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=4096)}, None), BATCH),
    "cumulative sums": lambda: (lambda x: x.cumsum(1), batches(3), _dims(1, "b", "s"), BATCH),
    "argmax": lambda: (lambda x: x.argmax(-1), batches(), _dims(1, "b", "s"), BATCH),
    "no rows": lambda: (lambda x, y: (x * 2, x.sum(0), x @ y), lambda n: (torch.randn(n, 6), torch.randn(6, 3)),
                        ({0: Dim("n", min=0, max=64)}, None), [(5,), (0,), (1,)]),
    **ROWS_OF_KNOWN_LENGTH,
    **SCANS_OF_KNOWN_LENGTH,
    "windows": lambda: (_windows, lambda h, w: (torch.randn(2, h, w, 8),), ({1: _two(2)[0], 2: _two(2)[1]},), [(8, 12), (5, 7), (7, 6), (31, 64)]),
    "halves": lambda: (lambda x: x[:, : x.shape[1] // 2] + x[:, x.shape[1] - x.shape[1] // 2 :], batches(4), (dict(enumerate(_two(4))),), [(4, 11), (5, 8)]),
    "at most": lambda: (lambda x: x[:, : min(x.shape[1], 20)] * x[0, max(x.shape[1] - 9, 0)], batches(4), (dict(enumerate(_two(2))),), [(3, 33), (4, 25)]),
    "spread": lambda: (lambda x: ((x - x.mean()) / (x.std() + 1e-4), x.std(0)), rows(7), ({0: Dim("n", min=2, max=4096)},), [(5,), (2,), (333,)]),
    "floats of sizes": lambda: (
        lambda x: (x * x.shape[1] ** -0.5 + x.shape[0] / x.shape[1], x / (x.shape[0] * x.shape[1]) ** 0.5, (x.shape[1] / 2) * x - 1 / x.shape[1]),
        batches(4), (dict(enumerate(_two(2))),), [(3, 33), (4, 25)],
    ),
    "resized": lambda: (
        lambda x: F.interpolate(x, (7, 9), mode="bilinear"), lambda b, h: (torch.randn(b, 3, h, 12),), ({0: _two(2)[0], 2: _two(4)[1]},),
        [(3, 8), (2, 5), (4, 31)],
    ),
    "neighbours repeated": lambda: (
        lambda x: (F.interpolate(x, scale_factor=2, mode="nearest"), F.pad(x.flip(3), (1, 2, 0, 3)).relu()),
        lambda h, w: (torch.randn(2, 3, h, w),), ({2: _two(2)[0], 3: _two(2)[1]},), [(4, 6), (5, 7), (2, 2), (3, 2), (9, 16)],
    ),
    "seen as rows and back": lambda: (
        lambda x, y: (x.view(-1, 4).mul(2).view_as(x), (y * 2).view_as(x)), lambda n, m: (torch.randn(n, 4), torch.randn(4 * n)),
        ({0: Dim("rows", min=1, max=512)}, {0: 4 * Dim("rows", min=1, max=512)}), [(4, 0), (6, 0), (1, 0), (66, 0)],
    ),
    "an image as large as another": lambda: (
        lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear") + y, lambda h, w: (torch.randn(2, 3, 6, 5), torch.randn(2, 3, h, w)),
        ({}, {2: _two(2)[0], 3: _two(2)[1]}), [(12, 9), (6, 5), (2, 2), (3, 31)],
    ),
    "multiples": lambda: (lambda x: x.view(x.shape[0] // 2, 2, 3).sum(1), rows(3), ({0: 2 * Dim("half", min=1, max=512)},), [(4,), (6,), (66,)]),
}


def _two(least: int) -> list:
    return [Dim(n, min=least, max=4096) for n in ("h", "w")]


def _windows(x):
    """Images padded to whole windows of 4 by 4."""
    x = F.pad(x, (0, 0, 0, -x.shape[2] % 4, 0, (4 - x.shape[1] % 4) % 4))
    h, w = x.shape[1] // 4, x.shape[2] // 4
    return x.view(2, h, 4, w, 4, 8).transpose(2, 3).reshape(-1, 16, 8).softmax(1)


def _sums(dim: int):
    """What is summed along one of two sizes: of numbers of one sign, so that a long chain of float32 additions is off by many roundings."""
    def model(x):
        return x.sum(dim), x.mean(dim), x.norm(dim=dim), x.var(dim), torch.softmax(x, dim)

    return model, lambda n: (torch.rand((n, 3) if dim == 0 else (3, n)) + 1,), ({dim: Dim("n", min=2, max=1 << 20)},)


# The model, its inputs, ``dynamic_shapes``; and for each length that it is compiled for, those that it is called with.
SUMS = {"along memory": lambda: _sums(1), "across memory": lambda: _sums(0)}
COMPILED_FOR, CALLED_WITH = (300, 4), (2500, 8192, 100000)
