"""Tensors that several kernels read from the end, each by itself: nothing is flipped in memory."""

import pytest
import torch
from checks import assert_right

TYPES = [torch.float32, torch.bfloat16, torch.float16]


def less_mean(x, y):
    v = x.flip(-1)
    return v - v.mean(0, keepdim=True) + y


def sum_and_points(x, y):
    v = x.flip(-1)
    return v + y, (v * y).sum(0)


def both_ways(x, y):
    v = (x * y).flip((0, 1))
    return v - v.amax(0), v.sum(0)


MODELS = {
    "less mean": less_mean, "softmax": lambda x, y: x.flip(-1).softmax(0) * y, "sum and points": sum_and_points, "both ways": both_ways,
    "rows": lambda x, y: (lambda v: v - v.mean(0) + torch.softmax(v, -1))(x.flip(0)),
    "twice": lambda x, y: (lambda v: (v - v.mean(0)).flip(-1) + v)(x.flip(-1)),
}


@pytest.mark.parametrize("shape", [(24732, 832), (3001, 129), (70, 6)], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, dtype, shape):
    assert_right(MODELS[name], tuple(torch.randn(shape, device="cuda").to(dtype) for _ in range(2)))


@pytest.mark.parametrize("name", ["less mean", "softmax", "sum and points"])
def test_no_flip_is_written(name):
    compiled = assert_right(MODELS[name], tuple(torch.randn(24732, 832, device="cuda", dtype=torch.bfloat16) for _ in range(2)))
    assert len(compiled.explain().rows) == 2, compiled.explain()
