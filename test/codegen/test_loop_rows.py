"""Operations over the same rows in one kernel on the CPU: that they are one, and right."""

import pytest
import torch
import torch.nn.functional as F
from checks import check, poison_memory

import inferno

randn = torch.randn


def made(model, *args, kernels=None):
    poison_memory()
    compiled = inferno.compile(model, args, target="cpu")
    assert not [k.note for k in compiled.program.kernels.values() if k.note]
    found = check(compiled, model, args)
    assert found.right, str(found)
    if kernels is not None:
        assert compiled.ir("scheduled").count("call @") == kernels, compiled.ir("scheduled")
        assert compiled.ir("gpu").count("inferno.launch") == kernels, "the operations are apart"
    return compiled


def rms(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


OPERATIONS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log softmax": lambda x: torch.log_softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:], torch.arange(x.shape[-1], dtype=x.dtype) / 100, torch.ones(x.shape[-1], dtype=x.dtype)),
    "rms norm": lambda x: rms(x, torch.arange(x.shape[-1], dtype=x.dtype)),
    "standard deviation": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", OPERATIONS)
def test_rows_are_one_kernel(name, dtype):
    made(OPERATIONS[name], randn(70, 131).to(dtype), kernels=1)
    made(OPERATIONS[name], randn(4, 33, 3, 64).to(dtype), kernels=1)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("shape", [(5, 1000), (64, 4), (3, 40000), (70, 70000), (1, 300), (300,), (128, 1, 65), (0, 100)])
@pytest.mark.parametrize("name", ["softmax", "layer norm"])
def test_rows_of_any_size(name, shape):
    made(OPERATIONS[name], randn(shape))


def test_what_is_read_outside_leaves_the_kernel():
    def model(x):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).square().mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5), mean.reshape(10, 8), variance

    made(model, randn(80, 200))


def test_operands_that_are_not_cut_into_rows():
    def attention(q, k, mask):
        return torch.softmax(q @ k.transpose(-1, -2) * 0.3 + mask, -1)

    made(attention, randn(2, 3, 70, 16), randn(2, 3, 80, 16), randn(70, 80))
    made(attention, randn(2, 3, 70, 16), randn(2, 3, 80, 16), randn(2, 1, 1, 80))
    made(lambda x, y: torch.softmax(x * y.t(), -1), randn(90, 100), randn(100, 90))
    made(lambda x: torch.softmax(x, -1) + torch.softmax(x.t(), -1), randn(96, 96))


def test_rows_that_meet_columns_stay_apart():
    """Row by row is no order for what goes down the columns of what the rows give."""
    made(lambda x: torch.softmax(torch.softmax(x, -1), 0), randn(80, 90))
    made(lambda x: (x - x.mean(-1, keepdim=True)).sum(0), randn(80, 90))
    made(lambda x: x.softmax(-1).t().softmax(-1), randn(80, 80))
    made(lambda x: x.softmax(-1).flip(0) * x.amax(-1, keepdim=True), randn(80, 90))


def test_not_a_number_in_one_row():
    x = randn(70, 100)
    x[3, 5], x[4, 6], x[5, 7] = float("nan"), float("inf"), -float("inf")
    for name in ("softmax", "log softmax", "layer norm"):
        ours, eager = inferno.compile(OPERATIONS[name], (x,), target="cpu")(x), OPERATIONS[name](x)
        assert torch.equal(ours.isnan(), eager.isnan()), name
