"""Contractions by mma.sync on the GPU against float64: types, layouts, odd sizes, bodies, batches."""

import pytest
import torch
from checks import assert_right, check, poison_memory
from contraction_cases import BATCHES, EPILOGUES, LAYOUTS, PROLOGUES, epilogue_shapes, heads, layout_shapes, not_finite, repeats
from mma_choice import mma
from universal_program import compile_universal

from inferno.runtime.device import target_of
from inferno.schedule.matmul.mma import _CANDIDATES, _DOUBLE, Mma

F = torch.nn.functional
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0), reason="needs mma.sync of sm_80"),
    pytest.mark.usefixtures("tf32"),
]


def randn(*shape, dtype=BF16):
    """Random normal; for float64, whose reference is no better than it is, small whole numbers, of which sums are exact."""
    if dtype in (F64, torch.int8):
        return torch.randint(-8 if dtype == F64 else -128, 9 if dtype == F64 else 128, shape, device="cuda").to(dtype)
    return torch.randn(shape, device="cuda").to(dtype)


def right(function, args, schedule=None):
    """One kernel by mma.sync, and right.  TF32 has a rounding unit of 2**-10; eager does not use it for every shape."""
    device, used = args[0].device, []
    target, tf32 = target_of(device).name, any(a.dtype == F32 for a in args)
    compiled = compile_universal(function, args, device, target, mma(target, schedule, tf32, used))
    assert len(used) == 1
    poison_memory()
    found = check(compiled, function, args, unit=2**-10 if tf32 else None)
    assert found.right, str(found)
    return compiled


SIZES = [
    (1024, 1024, 1024), (4096, 1024, 512), (64, 64, 64), (3, 5, 2), (1, 4096, 512), (16, 1024, 1024), (300, 500, 700), (33, 51, 77),
    (129, 257, 65), (64, 50, 64), (64, 64, 50), (7, 7, 5000), (1504, 1152, 328),
]


@pytest.mark.parametrize("dtype", [BF16, F16, F32, F64])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_sizes(dtype, m, n, k):
    right(lambda x, w: torch.relu(x @ w), (randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)))


@pytest.mark.parametrize("dtype", [BF16, F32, F64])
@pytest.mark.parametrize("m, n, k", [(256, 384, 192), (204, 132, 68), (99, 131, 67)])
@pytest.mark.parametrize("layout", list(LAYOUTS)[:5])
def test_layouts(dtype, m, n, k, layout):
    right(LAYOUTS[layout], tuple(randn(*s, dtype=dtype) for s in layout_shapes(m, n, k)))


@pytest.mark.parametrize("dtype, schedule", [
    *((BF16, s) for s, _ in _CANDIDATES), *((F32, s) for s, _ in _CANDIDATES if s.tile_m >= 32), *((F64, s) for s, _ in _DOUBLE),
], ids=str)
def test_tiles(dtype, schedule):
    m, n = 2 * schedule.tile_m + 10, 3 * schedule.tile_n + 20
    right(lambda x, w: x.t() @ w.t(), (randn(500, m, dtype=dtype), randn(n, 500, dtype=dtype)), schedule)


@pytest.mark.parametrize("m, n, k", [(64, 64, 128), (256, 384, 512), (104, 136, 72)])
def test_bytes(m, n, k):
    """Eager takes multiples of 8 only."""
    for transposed in (False, True):
        x, w = randn(m, k, dtype=torch.int8), randn(n, k, dtype=torch.int8).t() if transposed else randn(k, n, dtype=torch.int8)
        used = []
        target = target_of(x.device).name
        compiled = compile_universal(torch._int_mm, (x, w), x.device, target, mma(target, used=used))
        assert used and torch.equal(compiled(x, w).cpu(), x.cpu().int() @ w.cpu().int())


@pytest.mark.parametrize("shapes", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [BF16, F32, F64])
def test_batches(shapes, dtype):
    right(torch.matmul, tuple(randn(*s, dtype=dtype) for s in shapes))


def test_axes_of_several_loops():
    heads(right, randn, 150, 3, 40)
    right(lambda a, b: torch.einsum("bhmk,hkn->bmn", a, b), (randn(2, 3, 70, 24), randn(3, 24, 40)))


@pytest.mark.parametrize("dtype", [BF16, F64])
@pytest.mark.parametrize("channels, stride", [(8, 1), (3, 2)])
def test_convolutions(dtype, channels, stride):
    args = (randn(2, channels, 33, 31, dtype=dtype), randn(40, channels, 3, 3, dtype=dtype))
    right(lambda x, w: torch.relu(F.conv2d(x, w, stride=stride)), args)


@pytest.mark.parametrize("dtype", [BF16, F64])
@pytest.mark.parametrize("terms", [False, True])
def test_sizes_that_vary(dtype, terms):
    """Compiled once for the example's, called with others."""
    function = (lambda x, w: x.t() @ w) if terms else (lambda x, w: torch.relu(x @ w))
    n = torch.export.Dim("n", min=1, max=4096)
    args = lambda s: (randn(s, 136, dtype=dtype), randn(*((s if terms else 136), 264), dtype=dtype))  # noqa: E731
    first, used = args(200), []
    target = target_of(first[0].device).name
    shapes = ({0: n}, {0: n} if terms else None)
    compiled = compile_universal(function, first, first[0].device, target, mma(target, used=used), shapes)
    assert len(used) == 1
    for size in (200, 1, 7, 64, 777):
        each = args(size)
        found = check(compiled, function, each)
        assert found.right, f"{size}: {found}"


@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="about what Hopper chooses")
def test_hopper_leaves_it_what_wgmma_does_not_take():
    made = assert_right(lambda x, w, b: torch.relu(x @ w + b), (randn(200, 300, dtype=F64), randn(300, 100, dtype=F64), randn(100, dtype=F64)))
    assert 'generator = "mma"' in made.ir("scheduled")
    made = assert_right(lambda x, w: torch.relu(x @ w), (randn(200, 304), randn(304, 104)))
    assert 'generator = "mma"' not in made.ir("scheduled")


@pytest.mark.parametrize("name", ["gelu", "residual", "column", "float", "all", "triangle", "two"])
@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (67, 131, 72)])
def test_epilogues(name, m, n, k):
    right(EPILOGUES[name], tuple(randn(*s) for s in epilogue_shapes(m, n, k)))


@pytest.mark.parametrize("name", ["relu", "scale", "int8", "int8 scaled"])
@pytest.mark.parametrize("m, n, k", [(256, 512, 128), (67, 131, 71)])
def test_prologues(name, m, n, k):
    right(PROLOGUES[name], (randn(m, k), randn(k, n), randn(k, n, dtype=torch.int8), randn(1, k)))


@pytest.mark.parametrize("dtype", [BF16, F32, F64])
@pytest.mark.parametrize("m, n, k", [(64, 64, 65536), (65, 33, 1000), (512, 512, 8192)])
def test_few_long_sums(dtype, m, n, k):
    function, args = lambda x, w, b: F.gelu(F.linear(x, w, b)), tuple(randn(*s, dtype=dtype) for s in ((m, k), (n, k), (n,)))
    right(function, args)
    right(function, args, Mma(64, 64, 2, 2, 128, 4, split=5))


def test_infinities_and_nan():
    right(lambda x, w: torch.relu(x @ w), not_finite(randn, 200, 264, 136))


@pytest.mark.parametrize("m, n, k, dtype", [(1504, 1152, 328, F16), (3000, 3000, 320, F32), (700, 300, 77, BF16)])
def test_many_calls_in_a_row(m, n, k, dtype):
    args = randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)
    repeats(right(lambda x, w: torch.relu(x @ w), args), args)
