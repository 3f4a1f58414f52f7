"""The gradients of a negative log-likelihood, and of what is picked from rows: torch's numbers, without a scatter."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.decompositions.losses import nll_loss_backward
from inferno.capture.decompositions.scattering import scatter_add

aten, F = torch.ops.aten, nn.functional
SHAPES = {"a row": (5,), "rows": (7, 5), "images": (2, 5, 3, 4)}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_torchs(shape, reduction, weighted):
    torch.manual_seed(0)
    x, batch = torch.randn(shape, dtype=torch.float64), shape[:1] + shape[2:] if len(shape) > 1 else ()
    target, weight = torch.randint(0, 5, batch), torch.rand(5, dtype=torch.float64) if weighted else None
    ignored = 3
    forward, backward = (aten.nll_loss2d_forward, aten.nll_loss2d_backward) if len(shape) == 4 else (aten.nll_loss_forward, aten.nll_loss_backward)
    loss, total = forward(x, target, weight, reduction, ignored)
    gradient = torch.randn_like(loss)
    exact = backward(gradient, x, target, weight, reduction, ignored, total)
    assert torch.allclose(nll_loss_backward(gradient, x, target, weight, reduction, ignored, total), exact)
    traced = make_fx(nll_loss_backward)(gradient, x, target, weight, reduction, ignored, total)
    assert not any("scatter" in str(n.target) for n in traced.graph.nodes)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "ignore_index": 2}, {"reduction": "sum"}], ids=str)
def test_cross_entropy_is_trained(options, dtype):
    torch._dynamo.reset()
    x, target = torch.randn(64, 9).to(dtype), torch.randint(0, 9, (64,))

    def gradient(function, x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x, target), x)[0]

    loss = lambda x, t: F.cross_entropy(x, t, **options)  # noqa: E731
    ours, plain, exact = gradient(torch.compile(loss, backend="inferno"), x), gradient(loss, x), gradient(loss, x.double())
    bound = max(1.5 * (plain.double() - exact).norm(), torch.finfo(dtype).eps * exact.norm())
    assert ours.dtype == dtype and (ours.double() - exact).norm() <= bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape, dim, wider", [((6, 9), 1, False), ((4, 9, 3), -2, False), ((5, 7), 0, True)])
def test_one_place_of_each_row(shape, dim, wider, dtype):
    """What gather's gradient adds to zeros is compared with places, too; ``src`` may have more elements than are added."""
    torch.manual_seed(0)
    places = [1 if d == dim % len(shape) else n for d, n in enumerate(shape)]
    index = torch.randint(0, shape[dim], places)
    x, src = (torch.randint(-9, 9, s).to(dtype) for s in (shape, [n + wider for n in places]))
    assert torch.equal(scatter_add(x, dim, index, src), x.scatter_add(dim, index, src))
    traced = make_fx(scatter_add)(x, dim, index, src)
    assert not any("scatter" in str(n.target) or "index_put" in str(n.target) for n in traced.graph.nodes)
