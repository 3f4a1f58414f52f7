"""Extrema of rows and their places beside what else goes over the rows: one kernel, which holds what it compares."""

import pytest
import torch
from checks import check
from choices import generators
from extremum_cases import SHARED
from universal_program import SimulatedModel

from inferno.capture.devices import capturing_for

F = torch.nn.functional
MODELS = {
    **SHARED,
    "the largest probability": lambda x: F.softmax(x, -1).max(-1),
    "behind a norm": lambda x: F.layer_norm(x, x.shape[-1:]).argmin(-1),
    "beside sums": lambda x: (x.argmax(-1), x.sum(-1), x.min(-1)),
    "of computed terms": lambda x: (lambda v: v + v.argmax(-1, keepdim=True))(torch.sin(x) * 3),
}


def values(shape, dtype, ties):
    x = torch.randint(-3, 4, shape).to(dtype) if ties else torch.randn(shape).to(dtype)
    if ties and dtype.is_floating_point:
        x[0, shape[1] // 2], x[1] = float("nan"), float("-inf")
        x[2, 1::3] = float("nan")
    return x


@pytest.mark.covering
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(64, 256), (37, 129), (5, 2050)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_right(name, shape, dtype, ties):
    x = values(shape, dtype, ties)
    with capturing_for(True):
        made = SimulatedModel(MODELS[name], (x,))
    found = check(made, MODELS[name], (x,))
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int16])
def test_whole_numbers(dtype):
    x = torch.randint(0, 9, (33, 200)).to(dtype)
    def model(x):
        return x + x.argmax(-1, keepdim=True).to(x.dtype), x.min(-1)
    with capturing_for(True):
        made = SimulatedModel(model, (x,))
    for ours, wanted in zip(torch.utils._pytree.tree_leaves(made(x)), torch.utils._pytree.tree_leaves(model(x))):
        assert torch.equal(ours, wanted)


@pytest.mark.covering
@pytest.mark.parametrize("name", MODELS)
def test_is_one_kernel(name):
    assert generators(MODELS[name], (torch.empty(8192, 256, dtype=torch.bfloat16),)) == ["rows"]
