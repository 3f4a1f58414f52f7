"""Extrema of rows and their places in kernels that hold the rows: of a warp, a block and a cluster, of any alignment, with ties and NaN."""

import pytest
import torch
from checks import assert_right
from extremum_cases import SHARED

import inferno

F = torch.nn.functional
MODELS = {
    **SHARED,
    "the largest probability": lambda x: F.softmax(x, -1).max(-1).values,
    "behind a norm": lambda x: (lambda v: (v, v.max(-1).values))(F.layer_norm(x, x.shape[-1:])),
    "beside sums": lambda x: (x.argmin(-1), x.sum(-1), x.max(-1)),
    "plus its place": lambda x: x + x.argmax(-1, keepdim=True),
}
SHAPES = [(8192, 256), (3, 70), (1003, 1001), (4096, 4096), (4, 65536), (130, 10003), (2, 200000)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, shape, dtype):
    x = torch.randn(shape, device="cuda", dtype=dtype)
    if name in ("softmax and its place", "straight through"):  # rounded probabilities are equal where float64's are not
        x = x.mul(8).round()
        x[torch.arange(shape[0]), torch.randint(0, shape[1], (shape[0],))] = 60
    assert_right(MODELS[name], (x,))


@pytest.mark.parametrize("name", ["from its place on", "beside sums"])
def test_ties_and_nan(name):
    x = torch.randint(-3, 4, (300, 515), device="cuda").float()
    x[0, 200], x[1], x[2, 1::3], x[3] = float("nan"), float("-inf"), float("nan"), float("nan")
    assert_right(MODELS[name], (x,))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int16], ids=str)
def test_whole_numbers(dtype):
    x = torch.randint(0, 9, (333, 2000), device="cuda").to(dtype)
    assert_right(lambda x: (x + x.argmax(-1, keepdim=True).to(x.dtype), x.min(-1)), (x,))


@pytest.mark.parametrize("name", MODELS)
def test_is_one_kernel(name):
    compiled = inferno.compile(MODELS[name], (torch.randn(8192, 256, device="cuda", dtype=torch.bfloat16),), fallback=False)
    assert [r.generator for r in compiled.explain().rows] == ["rows"]
