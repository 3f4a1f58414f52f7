"""Parts of tensors that are reshaped: the right numbers, and no copies of the parts."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right

import inferno


def joint(x, c, g):
    def heads(t):
        q, k, v = (u.unflatten(-1, (4, 16)).transpose(1, 2) for u in t.chunk(3, -1))
        return F.rms_norm(q, (16,), g), F.rms_norm(k, (16,), g), v

    q, k, v = (torch.cat(p, 2) for p in zip(heads(c), heads(x)))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def normed(x, c, g):
    a, b = x.split([64, 128], -1)
    return F.layer_norm(a.unflatten(-1, (4, 16)), (16,)), b.reshape(-1, 128).softmax(-1), c[:, 1].unflatten(-1, (4, 48)) * 2


MODELS = (joint, normed)


def arguments(x=5, c=3, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(2, x, 192, dtype=dtype), torch.randn(2, c, 192, dtype=dtype), torch.randn(16, dtype=dtype)


@pytest.mark.covering
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_right(model, dtype):
    assert_right(model, arguments(dtype=dtype))


def test_rows_vary():
    rows = torch.export.Dim("rows", min=2, max=64)
    compiled = inferno.compile(normed, arguments(), dynamic_shapes=({1: rows}, None, None))
    for count in (5, 9):
        args = arguments(count)
        for one, other in zip(compiled(*args), normed(*args)):
            torch.testing.assert_close(one, other)


def test_no_copies():
    args = arguments(1024, 128, torch.bfloat16)
    report = inferno.compile(joint, args, target="sm_90a").explain()
    assert not any("slice" in r.kernel for r in report.rows), report
