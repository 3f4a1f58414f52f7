"""Programs of several operations that memory bounds, on a GPU: how they are cut into kernels, what is computed again, and their numbers."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper

import inferno

F = torch.nn.functional
pytestmark = on_hopper


def softmaxes(x, y, w):
    x = torch.log_softmax(x, -1) * y.sum(-1, keepdim=True) / x.shape[1] + w
    x = F.silu(F.layer_norm(x - x.amax(-1, keepdim=True), w.shape, w)) * y
    return torch.log_softmax(x, -1)


def columns(x, y, w):
    return F.normalize(torch.cat((F.gelu(torch.softmax(x, 0).clamp(-2, 2) * 100 + w), y), -1), dim=-1).t().sum(-1)


def joined(x, y, w):
    x = F.gelu(torch.cat((F.layer_norm(x, w.shape, w), y), -1))
    return x * x.sum(-1, keepdim=True) / x.shape[1]


def side_by_side(x, y, w):
    return torch.softmax(torch.cat((x, y), -1), -1).t().sum(-1), torch.log_softmax(F.silu(torch.cat((x, x[:, : x.shape[1] // 2], y), -1)), -1)


def total(x, y, w):
    return (F.layer_norm(x, w.shape, w) * y).square().float().mean(), F.normalize(torch.softmax(x * y, -1), dim=-1).amax()


def run(model, rows, columns, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in ((rows, columns), (rows, columns), (columns,)))
    compiled = inferno.compile(model, args)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    first, second = compiled(*args), compiled(*args)
    for a, b in zip(first if isinstance(first, tuple) else (first,), second if isinstance(second, tuple) else (second,)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("model", [softmaxes, columns, joined, total])
@pytest.mark.parametrize("rows, columns, dtype", [
    (440, 24768, torch.float32), (9000, 129, torch.float16), (3000, 513, torch.bfloat16), (5000, 49, torch.float32), (400, 3840, torch.bfloat16),
])
def test_programs(model, rows, columns, dtype):
    run(model, rows, columns, dtype)


@pytest.mark.parametrize("rows, columns, dtype", [
    (1800, 804, torch.float32), (1998, 9088, torch.bfloat16), (700, 36, torch.float32), (3000, 512, torch.float16), (40, 60000, torch.float32),
])
def test_concatenations_are_read_in_place(rows, columns, dtype):
    run(side_by_side, rows, columns, dtype)


@pytest.mark.parametrize("shape", [(24369, 1026), (5000, 2052), (25951, 258), (25951, 129), (8112, 49)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_of_odd_lengths(shape, dtype):
    torch.manual_seed(0)
    args = (torch.randn(shape, device="cuda").to(dtype),)
    for model in (lambda x: x.sum(-1), lambda x: x.sum(0), lambda x: x.amax(0), lambda x: x.argmax(-1), lambda x: x.argmin(0)):
        found = check(inferno.compile(model, args), model, args)
        assert found.right, str(found)
