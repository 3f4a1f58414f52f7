"""Sums of shifted parts that Python's loops put together: what they become, what stays, and their numbers."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right

from inferno.capture.capture import capture

aten, randn = torch.ops.aten, torch.randn


def shifted(b, size, step=1):
    h, w = size
    b = F.pad(b, (2 * step,) * 4)
    return [b[:, :, i:i + h, j:j + w] for i in range(0, 5 * step, step) for j in range(0, 5 * step, step)]


def costs(a, b):
    """What optical flow is estimated of."""
    return F.leaky_relu(torch.stack([(a * part).mean(1) for part in shifted(b, a.shape[2:])], 1), 0.1)


def kept(a, b):
    return torch.cat([(a * part).sum(1, keepdim=True) for part in shifted(b, a.shape[2:])], 1)


def distances(a, b):
    return torch.stack([(a - part).abs().amax(1) for part in shifted(b, a.shape[2:], 2)], -1)


def disparities(a, b):
    """Along one dimension, backwards of one tensor, whose windows are shared."""
    w = a.shape[-1] - 8
    return torch.stack([(a[..., :w] - b[..., i:i + w]).square().sum(1) for i in range(9)], 1)


def weighted(a, b, w):
    """With a number for each window, and an activation behind the sum."""
    return torch.stack([torch.sigmoid((a * part).sum(1) * w[k]) for k, part in enumerate(shifted(b, a.shape[2:]))], 1)


def volumes(a, b):
    b = F.pad(b[:, :, None].expand(-1, -1, 3, -1, -1), (1,) * 6)
    h, w = a.shape[2:]
    return torch.stack([(a[:, :, None] * b[:, :, i:i + 3, j:j + h, k:k + w]).sum(1) for i in range(3) for j in range(3) for k in range(3)], 1)


def descending(a, b):
    return torch.stack([(a[..., :8] * b[..., i:i + 8]).sum(1) for i in range(7, -1, -1)], 1)


def uneven(a, b):
    return torch.stack([(a[..., :4] * b[..., i:i + 4]).sum(1) for i in (0, 1, 2, 3, 5, 6, 7, 8)], 1)


def elementwise(a, b):
    """Only moves and multiplies: each part is read once."""
    return torch.stack([a[..., :8] * b[..., i:i + 8] for i in range(8)], 1)


def normalised(a, b):
    """What is made of all points behind a sum would be in memory for all windows at once."""
    return torch.stack([(a * part.softmax(1)).sum(1) for part in shifted(b, a.shape[2:])], 1)


IMAGES = (randn(2, 6, 10, 16), randn(2, 6, 10, 16))
JOINED = {costs: IMAGES, kept: IMAGES, distances: IMAGES, disparities: IMAGES, weighted: (*IMAGES, randn(25)), volumes: IMAGES}
APART = {descending: IMAGES, uneven: IMAGES, elementwise: IMAGES, normalised: IMAGES}


def sums(model, args):
    with torch.no_grad():
        targets = [n.target for n in capture(model, args).graph.nodes]
    return sum(t in (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default) for t in targets), aten.cat.default in targets


@pytest.mark.covering
@pytest.mark.parametrize("model", JOINED)
def test_joined(model):
    assert sums(model, JOINED[model]) == (1, False)


@pytest.mark.covering
@pytest.mark.parametrize("model", APART)
def test_apart(model):
    assert sums(model, APART[model])[1]


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("model", (*JOINED, descending, uneven))
def test_right(model, dtype):
    assert_right(model, tuple(a.to(dtype) for a in {**JOINED, **APART}[model]))


@pytest.mark.thorough
def test_gradients():
    a, b = (x.clone().requires_grad_() for x in IMAGES)
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: costs(a, b).square().sum(), backend="inferno", dynamic=False)
    ours, theirs = (torch.autograd.grad(f(a, b), (a, b)) for f in (compiled, lambda a, b: costs(a, b).square().sum()))
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
