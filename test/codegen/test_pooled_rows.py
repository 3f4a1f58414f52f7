"""Neighbouring rows, of which a few are added up for maps: each map reads these rows, and no kernel of its own adds them."""

import pytest
import torch
from scheduled_program import assert_right, launches

F = torch.nn.functional


def pool(x, n=2):
    return x.view(x.shape[0], x.shape[1] // n, n, x.shape[2]).mean(2)


PROGRAMS = {  # and in how many launches
    "of normalised ones": (lambda x, y: F.glu(pool(F.normalize(x, dim=-1))), 2),
    "of a layer norm": (lambda x, y: F.relu(pool(F.layer_norm(x, x.shape[2:]), 4)), 2),
    "of what is multiplied": (lambda x, y: pool(x * y[:, :1]) * torch.sigmoid(y[:, ::2]), 1),
    "the largest": (lambda x, y: (x * y).view(x.shape[0], -1, 4, x.shape[2]).amax(2).tanh(), 1),
    "with weights": (lambda x, y: (x.view(x.shape[0], -1, 2, x.shape[2]) * y[:, :, 0].exp().view(x.shape[0], -1, 2, 1)).sum(2) + 1, 1),
    "normalised after it": (lambda x, y: F.layer_norm(pool(x + y), x.shape[2:]), 2),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_right(name, dtype):
    torch.manual_seed(0)
    program, most = PROGRAMS[name]
    text = assert_right(program, tuple(torch.randn(3, 16, 192).to(dtype) for _ in range(2)))
    assert launches(text) <= most, text[:3000]
