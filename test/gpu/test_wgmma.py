"""Contractions on Hopper's tensor cores against float64: bf16, f16 and TF32, any size, layout, batch, prologue and epilogue."""

import pytest
import torch
from checks import assert_right

F = torch.nn.functional
HALVES = [torch.bfloat16, torch.float16]

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU")


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def right(function, args):
    """Right, and on the tensor cores, or streamed as a product with few vectors.  TF32 has a rounding unit of 2**-10; eager does not use it for every shape."""
    tf32 = torch.get_float32_matmul_precision() != "highest" and any(a.dtype == torch.float32 for a in args)
    compiled = assert_right(function, args, unit=2**-10 if tf32 else None)
    assert any(f'generator = "{name}"' in compiled.ir("scheduled") for name in ("wgmma", "vectors"))
    return compiled


@pytest.fixture
def tf32():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


SIZES = [
    (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 512), (512, 4096, 4096), (128, 256, 64), (64, 64, 64), (3, 5, 2), (1, 4096, 512),
    (16, 1024, 1024), (300, 500, 700), (1000, 1000, 1000), (33, 51, 77), (129, 257, 65), (64, 50, 64), (64, 64, 50), (50, 64, 64),
    (2000, 1, 300), (1, 2000, 300), (7, 7, 5000), (1504, 1152, 328),
]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m, n, k", SIZES)
def test_sizes(dtype, m, n, k):
    right(lambda x, w: torch.relu(x @ w), (randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)))


@pytest.mark.parametrize("m, n, k", SIZES)
def test_linear(m, n, k):
    right(F.linear, (randn(m, k), randn(n, k), randn(n)))


@pytest.mark.parametrize("m, n, k", SIZES)
def test_tf32(tf32, m, n, k):
    right(lambda x, w, b: F.gelu(F.linear(x, w, b)), tuple(randn(*s, dtype=torch.float32) for s in ((m, k), (n, k), (n,))))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("m, n, k", [(256, 384, 192), (200, 136, 72), (99, 131, 67)])
@pytest.mark.parametrize("function", [
    lambda x, w, a, b: a @ w, lambda x, w, a, b: a @ b.t(), lambda x, w, a, b: x.t() @ w, lambda x, w, a, b: x.t() @ b.t(),
    lambda x, w, a, b: (x.t() @ w).t(), lambda x, w, a, b: (a @ b.t()).t(),
], ids=["mk,kn", "mk,nk", "km,kn", "km,nk", "km,kn,t", "mk,nk,t"])
def test_layouts(tf32, dtype, m, n, k, function):
    right(function, tuple(randn(*s, dtype=dtype) for s in ((k, m), (k, n), (m, k), (n, k))))


@pytest.mark.parametrize("shapes", [
    ((4, 64, 32), (4, 32, 48)), ((3, 33, 17), (3, 17, 35)), ((2, 3, 160, 24), (2, 3, 24, 80)), ((5, 40, 30), (30, 20)),
    ((70, 10, 10), (70, 10, 10)), ((7, 128, 64), (64, 128)), ((64, 128), (6, 128, 72)), ((2, 1, 96, 64), (1, 5, 64, 96)),
])
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_batches(tf32, shapes, dtype):
    right(torch.matmul, tuple(randn(*s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize("heads, size", [(4, 64), (3, 40), (2, 33)])
def test_heads(heads, size):
    def scores(q, k):
        q, k = (t.view(2, 150, heads, size).transpose(1, 2) for t in (q, k))
        return q @ k.transpose(-1, -2) * 0.25

    def merged(p, v):
        return (p @ v).transpose(1, 2).reshape(2, 150, heads * size)

    right(scores, (randn(2, 150, heads * size), randn(2, 150, heads * size)))
    right(merged, (randn(2, heads, 150, 150), randn(2, heads, 150, size)))


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
    "masked": lambda x, w, b, r, c, s: torch.where(r > 0, x @ w, torch.zeros((), device="cuda", dtype=x.dtype)),
    "triangle": lambda x, w, b, r, c, s: torch.tril(x @ w),
}


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (300, 200, 104), (67, 131, 72)])
def test_epilogues(name, dtype, m, n, k):
    shapes = ((m, k), (k, n), (n,), (m, n), (m, 1), ())
    right(EPILOGUES[name], tuple(randn(*s, dtype=dtype) for s in shapes))


PROLOGUES = {
    "relu": (lambda x, w, q, s: torch.relu(x) @ w, torch.bfloat16),
    "scale": (lambda x, w, q, s: (x * s) @ w, torch.bfloat16),
    "round": (lambda x, w, q, s: x.to(w.dtype) @ w, torch.float32),
    "int8": (lambda x, w, q, s: x @ q.to(x.dtype), torch.bfloat16),
    "int8 scaled": (lambda x, w, q, s: x @ (q.to(x.dtype) * s[0, 0]), torch.bfloat16),
}


@pytest.mark.parametrize("name", PROLOGUES)
@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (300, 200, 104), (67, 131, 71)])
def test_prologues(name, m, n, k):
    function, dtype = PROLOGUES[name]
    q = torch.randint(-100, 100, (k, n), device="cuda", dtype=torch.int8)
    assert_right(function, (randn(m, k, dtype=dtype), randn(k, n), q, randn(1, k)))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("m, n, k", [(64, 64, 65536), (512, 512, 8192), (16, 1024, 4096), (65, 33, 1000), (1, 2, 4096), (100, 40, 3000)])
def test_few_long_sums(tf32, dtype, m, n, k):
    def step(x, w, b, r):
        return F.gelu(F.linear(x, w, b)) + r

    right(step, tuple(randn(*s, dtype=dtype) for s in ((m, k), (n, k), (n,), (m, n))))


def test_modules():
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda().to(torch.bfloat16)
    right(model, (randn(8, 100, 512),))


def test_infinities_and_nan():
    x, w = randn(200, 136), randn(136, 264)
    x[3, 5], x[7, 9], w[2, 4] = float("inf"), float("nan"), -float("inf")
    right(lambda x, w: torch.relu(x @ w), (x, w))


@pytest.mark.parametrize("m, n, k", [(4096, 4096, 4096), (8192, 1024, 4096)])
def test_many_rounds_of_tiles(m, n, k):
    right(lambda x, w, b: torch.relu(x @ w + b), (randn(m, k), randn(k, n), randn(n)))


@pytest.mark.parametrize("m, n, k, dtype", [(1504, 1152, 328, torch.float16), (3000, 3000, 320, torch.float32), (700, 300, 77, torch.bfloat16)])
def test_many_calls_in_a_row(m, n, k, dtype):
    """Kernels of consecutive calls overlap: the next one is on the multiprocessors before the last one's blocks have ended."""
    x, w = randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)
    compiled = assert_right(lambda x, w: torch.relu(x @ w), (x, w))
    first = compiled(x, w)
    for _ in range(20):
        results = [compiled(x, w) for _ in range(20)]
        assert all(torch.equal(r, first) for r in results)
