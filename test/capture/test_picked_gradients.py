"""The gradients of a negative log-likelihood, and of what is picked from rows: torch's numbers, without a scatter."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.decompositions import table
from inferno.capture.decompositions.losses import nll_loss_backward
from inferno.capture.decompositions.scattering import scatter_add
from inferno.capture.gathered_sums import sum_gathered

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


PICKED = {
    "last": (lambda i, v: torch.where(torch.arange(9) == i[:, None], v[:, None], 0.0).sum(1), True),
    "kept": (lambda i, v: torch.where(i[:, None] == torch.arange(9), v[:, None], 0.0).bfloat16().float().sum(-1, keepdim=True), True),
    "first": (lambda i, v: (torch.zeros(9, 6) + torch.where(torch.arange(9)[:, None] == i, v, 0.0)).sum(0), True),
    "one number": (lambda i, v: torch.where(torch.arange(9).view(1, 9) == i.view(6, 1), v.sum(), 0.0).sum(1), True),
    "another dimension": (lambda i, v: torch.where(torch.arange(9) == i[:, None], v[:, None], 0.0).sum(0), False),
    "what varies": (lambda i, v: torch.where(torch.arange(6) == i, v, 0.0).sum(0), False),
    "floats": (lambda i, v: torch.where(torch.arange(9) == i[:, None] + 0.5, v[:, None], 0.0).sum(1), False),
    "others": (lambda i, v: torch.where(torch.arange(9) == i[:, None], v[:, None], 1.0).sum(1), False),
    "from 1 on": (lambda i, v: torch.where(torch.arange(1, 9) == i[:, None], v[:, None], 0.0).sum(1), False),
}


@pytest.mark.parametrize("name", PICKED)
def test_sums_of_what_is_picked(name):
    """An index that is none of the places picks nothing."""
    function, found = PICKED[name]
    index, values = torch.tensor([0, 8, -1, 9, 3, 3]), torch.randn(6)
    module = make_fx(function, decomposition_table=table(), tracing_mode="fake")(index, values)
    before = sum(n.target is aten.sum.dim_IntList for n in module.graph.nodes)
    sum_gathered(module.graph, table())
    assert before - sum(n.target is aten.sum.dim_IntList for n in module.graph.nodes) == found
    module.recompile()
    assert torch.equal(module(index, values), function(index, values))
