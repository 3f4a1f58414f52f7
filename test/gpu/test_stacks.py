"""Stacks on a GPU: of the steps of an unrolled loop, by one kernel, and of what kernels write to their places."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right


def filtered(x, a):
    blocks, out = x.view(64, -1, 16), []
    y1 = y2 = torch.zeros_like(blocks[..., 0])
    for t in range(16):
        y1, y2 = blocks[..., t] - a[:, None] * y1 - 0.2 * y2, y1
        out.append(y1)
    return torch.stack(out, -1).view_as(x)


def returns(x, y):
    last, out = torch.zeros_like(x[0]), []
    for t in reversed(range(32)):
        last = x[t] + 0.99 * y[t + 1] - y[t] + 0.9 * y[t].sigmoid() * last
        out.append(last)
    a = torch.stack(out[::-1])
    return a, a + y[:-1]


def flags(x, y):
    a = x > y
    b = a ^ (x > 0)
    c = b & (y > 0.5)
    return torch.stack((a, b, c, b ^ c), -1), c


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize(("model", "shapes"), [
    (filtered, ((64, 4096), (64,))), (filtered, ((64, 65536), (64,))), (returns, ((32, 16384), (33, 16384))), (returns, ((32, 1001), (33, 1001))),
    (flags, ((1000, 37), (1000, 37))),
])
def test_steps(model, shapes, dtype):
    compiled = assert_right(model, tuple(torch.randn(s, device="cuda", dtype=dtype) * 0.5 for s in shapes))
    assert len(compiled.explain().rows) == 1


def products(x, w, v):
    return torch.cat((x @ w, F.gelu(x @ v)))


def mixed(x, w, v):
    """Kernels of several kinds, one piece that is computed, and one that is read elsewhere, too."""
    a = F.softmax(x @ w, -1)
    return torch.stack((a, F.layer_norm(x, x.shape[-1:]).cumsum(-1), x * v)), (a @ v).sum(-1)


def halves(x, w, v):
    """The concatenation lies in the workspace."""
    return F.layer_norm(torch.cat((x @ w, v @ w)), w.shape[-1:]) @ v


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (products, mixed, halves))
@pytest.mark.parametrize("n", (128, 512, 1000))
def test_places(model, n, dtype):
    assert_right(model, tuple(torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(3)))


def corners(b):
    return torch.cat((b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2), -1)


def boxes(p, t):
    a, b = corners(p), corners(t)
    sides = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0)
    around = torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    union = p[:, 2] * p[:, 3] + t[:, 2] * t[:, 3] - sides[:, 0] * sides[:, 1]
    apart = (p[:, :2] - t[:, :2]).square().sum(-1) / (around.square().sum(-1) + 1e-3)
    return (1 - sides[:, 0] * sides[:, 1] / (union + 1e-3) + apart).mean()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("n", (1000, 262144))
def test_boxes(n, dtype):
    compiled = assert_right(boxes, tuple(torch.rand(n, 4, device="cuda", dtype=dtype) + 0.1 for _ in range(2)))
    assert len(compiled.explain().rows) == 1


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (lambda x: x.mean(3).mean(2), lambda x: x.amax(3).amax(2), lambda x: x.sum(1).sum(2)))
def test_reductions_of_reductions(model, dtype):
    compiled = assert_right(model, (torch.randn(16, 64, 28, 36, device="cuda", dtype=dtype),))
    assert len(compiled.explain().rows) == 1
