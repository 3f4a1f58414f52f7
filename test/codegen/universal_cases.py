"""Models that between them hold every kind of operation: the universal generator must make kernels of all of them.

``CASES`` maps a name to a function that returns (model, arguments); sizes are small, for a simulator runs them too.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

torch.manual_seed(0)
randn = torch.randn


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Recurrent(nn.Module):
    """The outputs of an RNN, LSTM or GRU."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def _f(function: Callable, *args: Tensor) -> Callable:
    return lambda: (Function(function), args)


def _m(module: Callable[[], nn.Module], *args: Tensor) -> Callable:
    return lambda: (module().eval(), args)


def _ints(*shape: int, below: int = 10, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(0, below, shape, dtype=dtype)


def _norms(x):
    return x.std(), x.var(1), torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1, dim=0), x.mean((0, 2)), x.logsumexp(-1)


def _mathematics(x):
    y = torch.sin(x) + torch.erf(x) * torch.tanh(x).pow(3) + torch.rsqrt(x.abs() + 1) + torch.log1p(x.abs()) + torch.floor(x)
    return y + torch.pow(x.abs(), 1.7) + torch.expm1(x) + torch.atan2(x, x + 3) + torch.round(x * 3) + x.clamp(-1, 1) + torch.sigmoid(x)


def _reductions(x):
    return x.sum(), x.sum(0), x.sum(1), x.amax((0, 1)), x.amin(-1), x.prod(1), x.mean()


def _bits(x, m):
    return (x & 12) | (x ^ (x >> 1)), ~m, x // 3, x % 4, (x << 2) >> 1, m.any(1), m.all(), m.sum(), x.sum(1), x.cumsum(0)


def _of_constants(x):
    """Nothing but the constant says how long the loops are."""
    one, many = torch.ones(x.shape, dtype=torch.int64, device=x.device), torch.full((2, 3000), 3, device=x.device)
    flags, half = torch.ones(x.shape, dtype=torch.bool, device=x.device), torch.full(x.shape, 0.5, device=x.device)
    sums = one.sum(-3, keepdim=True)[0] + x.sum(0), one.sum(), many.sum(1), flags.sum(1), half.sum((0, 2)), half.mean(1), half.var(2), flags.all(1)
    return (*sums, one.cumsum(1), half.prod(1), half.amax(0), *half.max(1), many.argmin(1), half.softmax(-1), half @ half.mT, half.sort(dim=-1, stable=True)[1])


CASES: dict[str, Callable[[], tuple[nn.Module, tuple]]] = {
    "elementwise f32": _f(lambda x, y: torch.relu(x * y + 1), randn(7, 33), randn(33)),
    "elementwise f64": _f(lambda x: torch.exp(x) / (1 + x * x), randn(5, 9).double()),
    "elementwise f16": _f(lambda x: F.silu(x) * 2, randn(5, 40).half()),
    "elementwise bf16": _f(lambda x, y: F.gelu(x) + y, randn(5, 40).bfloat16(), randn(5, 40).bfloat16()),
    "integers": _f(_bits, _ints(6, 8, below=100), randn(6, 8) > 0),
    "i32 and u8": _f(lambda a, b: (a * 3 - 7, b + b, a.to(torch.float32) * b), _ints(4, 9, dtype=torch.int32), _ints(4, 9, below=99, dtype=torch.uint8)),
    "mathematics": _f(_mathematics, randn(20, 7)),
    "row sums": _f(lambda x: (x.sum(-1), x.amax(-1)), randn(6, 1500)),
    "row sums bf16": _f(lambda x: x.sum(-1), randn(6, 700).bfloat16()),
    "row means f64": _f(lambda x: x.mean(-1), randn(6, 300).double()),
    "column sums": _f(lambda x: (x.sum(0), x.amin(0)), randn(700, 37)),
    "sums of everything": _f(_reductions, randn(33, 47)),
    "a long sum": _f(lambda x: (x.sum(), x.max()), randn(200000)),
    "norms": _f(_norms, randn(5, 9, 31)),
    "softmax rows": _m(lambda: nn.Softmax(-1), randn(4, 3, 600)),
    "softmax middle": _m(lambda: nn.Softmax(1), randn(3, 90, 5)),
    "layer norm": _m(lambda: nn.Sequential(nn.LayerNorm(330), nn.GELU()), randn(4, 3, 330)),
    "group norm": _m(lambda: nn.GroupNorm(2, 6), randn(2, 6, 9, 9)),
    "batch norm": _m(lambda: nn.BatchNorm2d(4), randn(2, 4, 5, 5)),
    "linear": _m(lambda: nn.Sequential(nn.Linear(37, 50), nn.ReLU(), nn.Linear(50, 3)), randn(5, 37)),
    "linear bf16": _m(lambda: nn.Sequential(nn.Linear(40, 24), nn.GELU()).bfloat16(), randn(6, 40).bfloat16()),
    "linear f16": _m(lambda: nn.Sequential(nn.Linear(40, 24), nn.LayerNorm(24)).half(), randn(6, 40).half()),
    "matmul f64": _f(torch.matmul, randn(2, 9, 40).double(), randn(2, 40, 8).double()),
    "matmul i64": _f(torch.matmul, _ints(9, 40), _ints(40, 6)),
    "attention": _f(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *(randn(1, 2, 9, 16) for _ in range(3))),
    "conv1d": _m(lambda: nn.Conv1d(3, 5, 4, stride=2, padding=1), randn(2, 3, 20)),
    "conv2d": _m(lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.MaxPool2d(2)), randn(2, 3, 17, 17)),
    "conv2d dilated": _m(lambda: nn.Conv2d(3, 4, 3, dilation=2), randn(1, 3, 12, 12)),
    "conv2d grouped": _m(lambda: nn.Conv2d(8, 8, 3, groups=4), randn(1, 8, 9, 9)),
    "conv2d bf16": _m(lambda: nn.Conv2d(4, 8, 3).bfloat16(), randn(1, 4, 9, 9).bfloat16()),
    "conv3d": _m(lambda: nn.Conv3d(2, 3, 3), randn(1, 2, 5, 6, 7)),
    "conv transposed": _m(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), randn(1, 4, 5, 5)),
    "pooling": _f(lambda x: (F.avg_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 1)), randn(1, 3, 8, 8)),
    "padding": _f(
        lambda x: (F.pad(x, (1, 2), value=3.0), F.pad(x, (2, 2), "reflect"), F.pad(x, (1, 1), "replicate"), F.pad(x, (-1, 2))),
        randn(2, 3, 6),
    ),
    "concatenation": _f(lambda a, b, c: (torch.cat([a, b], 1), torch.stack([c, c]), torch.cat([a, c], 0)), randn(3, 4), randn(3, 5), randn(2, 4)),
    "slices": _f(lambda x: (x[1:5:2, ::3] + 1, x[:, -1], x[2:, 1:].contiguous()), randn(6, 10)),
    "slices written": _f(lambda x, y: (x.slice_scatter(y, 1, 1, 5, 2), x.select_scatter(y[:, 0], 1, 3)), randn(4, 6), randn(4, 2)),
    "permutations": _f(lambda x: (x.flip(1), x.roll(2, 0), x.transpose(0, 2).contiguous(), x.repeat(2, 1, 1), x.tril()), randn(3, 4, 5)),
    "gather": _f(
        lambda x, i, j: (x.gather(1, i), x[j], x.index_select(1, j), torch.take_along_dim(x, i, 1)), randn(6, 8), _ints(6, 3, below=8), _ints(4, below=6),
    ),
    "scatter": _f(
        lambda x, i, v: (x.scatter(1, i, v), x.scatter_add(0, i, v)),
        randn(6, 8), torch.stack([torch.randperm(6)[:3] for _ in range(6)]), randn(6, 3),
    ),
    "scatter mean": _f(lambda x, i, v: x.scatter_reduce(0, i, v, "mean"), randn(5, 4), _ints(7, 4, below=5), randn(7, 4)),
    "parts of booleans": _f(lambda x, y: (x.select_scatter(y[:, 0], 1, 2), x[:3, :4].diagonal_scatter(y[:3, 0]), torch.zeros_like(x).index_put(
        (torch.tensor([3, 1]),), y[:2])), randn(4, 16) > 0, randn(4, 16) > 0),
    "a scatter of one": _f(lambda x, i, y: x.scatter_add(0, i, y), randn(()), torch.tensor(0), randn(())),
    "scatter reduce": _f(lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), randn(5, 4), _ints(7, 4, below=5), randn(7, 4)),
    "index put": _f(
        lambda x, i, v: (x.index_put((i,), v, accumulate=True), x.index_put((torch.arange(4),), v)), randn(10, 4), torch.tensor([1, 3, 3, 7]), randn(4, 4),
    ),
    "cumulative": _f(lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(1)), randn(4, 9)),
    "long cumulative sums": _f(lambda x: x.cumsum(1), randn(2, 900)),
    "sort": _f(lambda x: torch.sort(x, dim=1, stable=True), randn(4, 12)),
    "sort with NaN": _f(lambda x: torch.sort(x, dim=0, descending=True, stable=True)[1], randn(12, 3).masked_fill(randn(12, 3) > 1, float("nan"))),
    "topk": _f(lambda x: (*torch.topk(x, 3, dim=-1), *torch.topk(x, 2, dim=0, largest=False)), randn(4, 12)),
    "argmax of long rows": _f(
        lambda x, i: (x.argmax(1), *x.min(1), i.argmax(1), i.argmin(0)), randn(3, 1500).round(decimals=1), _ints(4, 900, below=50),
    ),
    "argmax of 16 bits": _f(lambda x, y: (x.argmax(1), *x.min(1), *y.max(0)), randn(3, 1500).bfloat16(), randn(300, 5).half()),
    "argmax": _f(lambda x: (x.argmax(1), x.argmin(0), x.argmax(), *x.max(1)), randn(9, 70)),
    "where": _f(lambda x, i: (torch.where((x > 0) & (i % 2 == 0), x, -x), x.masked_fill(i > 3, 0.0)), randn(5, 8), _ints(5, 8)),
    "embedding": _m(lambda: nn.Embedding(50, 24), _ints(3, 6, below=50)),
    "one hot": _f(lambda i: F.one_hot(i, 6), _ints(5, below=6)),
    "constants": _f(lambda x: x + torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) * torch.tensor(2.5), randn(2, 3)),
    "scalars": _f(lambda x: x * x.mean() + x[:, 0].max(), randn(6, 5)),
    "interpolation": _f(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (7, 9), mode="bilinear")), randn(1, 2, 4, 5)),
    "gru": _m(lambda: Recurrent(nn.GRU(8, 12, batch_first=True)), randn(2, 4, 8)),
    "lstm": _m(lambda: Recurrent(nn.LSTM(6, 5)), randn(3, 2, 6)),
    "encoder": _m(lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), randn(2, 5, 16)),
    "sums of constants": _f(_of_constants, randn(3, 4, 5)),
    "empty sum": _f(lambda x: (x.sum(1), x.sum(0)), randn(3, 0)),
}
