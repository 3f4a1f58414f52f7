"""Contractions on Hopper's tensor cores against float64: bf16, f16 and TF32, any size, layout, batch, prologue and epilogue."""

import pytest
import torch
from checks import assert_right
from contraction_cases import BATCHES, EPILOGUES, LAYOUTS, PROLOGUES, epilogue_shapes, heads, layout_shapes, not_finite, repeats
from on_gpu import on_hopper

F = torch.nn.functional
HALVES = [torch.bfloat16, torch.float16]

pytestmark = on_hopper


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def right(function, args, *others):
    """Right, and on the tensor cores, by Hopper's instructions, or mma.sync where lines begin anywhere or results are few, or as a product with few vectors.
    TF32 has a rounding unit of 2**-10; eager does not use it for every shape."""
    tf32 = torch.get_float32_matmul_precision() != "highest" and any(a.dtype == torch.float32 for a in args)
    compiled = assert_right(function, args, unit=2**-10 if tf32 else None, matmul="generated")
    assert any(f'generator = "{name}"' in compiled.ir("scheduled") for name in ("wgmma", "mma", "direct", "vectors", "short_vectors", *others))
    return compiled


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


@pytest.mark.parametrize("function, shapes, count", [
    (lambda x, w: torch.relu(x @ w), ((2048, 2048), (2048, 2048)), 0),
    (lambda x, w: torch.relu(x @ w), ((3000, 2056), (2056, 2501)), 1),
    (lambda x, w: torch.relu(x.mT @ w), ((1536, 2048), (1536, 2048)), 1),
    (torch.bmm, ((4, 2048, 1024), (4, 1024, 2048)), 0),
])
def test_factors_transposed_before(tf32, function, shapes, count):
    compiled = right(function, tuple(randn(*s, dtype=torch.float32) for s in shapes))
    assert compiled.ir("scheduled").count("call @transpose") == count


@pytest.mark.parametrize("m, n, k", [(16, 4096, 4096), (60, 3072, 768), (100, 1500, 1000), (200, 4100, 1032), (256, 2048, 4096), (500, 1024, 1024)])
def test_by_registers(tf32, m, n, k):
    args = tuple(randn(*s, dtype=torch.float32) for s in ((m, k), (k, n), (n,), (m, n)))
    right(lambda x, w: x @ w, args[:2])
    right(lambda x, w, b, r: torch.relu(x @ w + b) + r, args)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("m, n, k", [(256, 384, 192), (200, 136, 72), (99, 131, 67)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tf32, dtype, m, n, k, layout):
    right(LAYOUTS[layout], tuple(randn(*s, dtype=dtype) for s in layout_shapes(m, n, k)))


@pytest.mark.parametrize("shapes", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_batches(tf32, shapes, dtype):
    right(torch.matmul, tuple(randn(*s, dtype=dtype) for s in shapes), *(["mma"] if dtype == torch.float32 else []))


@pytest.mark.parametrize("count, size", [(4, 64), (3, 40), (2, 33)])
def test_heads(count, size):
    heads(right, randn, 150, count, size)


@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (300, 200, 104), (67, 131, 72)])
def test_epilogues(name, dtype, m, n, k):
    right(EPILOGUES[name], tuple(randn(*s, dtype=dtype) for s in epilogue_shapes(m, n, k)))


@pytest.mark.parametrize("name", PROLOGUES)
@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (300, 200, 104), (67, 131, 71)])
def test_prologues(name, m, n, k):
    q = torch.randint(-100, 100, (k, n), device="cuda", dtype=torch.int8)
    x = randn(m, k, dtype=torch.float32 if name == "round" else torch.bfloat16)
    assert_right(PROLOGUES[name], (x, randn(k, n), q, randn(1, k)))


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
    right(lambda x, w: torch.relu(x @ w), not_finite(randn, 200, 264, 136))


@pytest.mark.parametrize("m, n, k", [(4096, 4096, 4096), (8192, 1024, 4096)])
def test_many_rounds_of_tiles(m, n, k):
    right(lambda x, w, b: torch.relu(x @ w + b), (randn(m, k), randn(k, n), randn(n)))


@pytest.mark.parametrize("m, n, k, dtype", [(1504, 1152, 328, torch.float16), (3000, 3000, 320, torch.float32), (700, 300, 77, torch.bfloat16)])
def test_many_calls_in_a_row(m, n, k, dtype):
    args = randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)
    repeats(assert_right(lambda x, w: torch.relu(x @ w), args), args)
