"""``as_strided_scatter`` into what the graph makes is elementwise: a contrastive loss's diagonal, and places of any steps."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right
from torch.fx.experimental.proxy_tensor import make_fx

import inferno
from inferno.capture.strided_writes import write_strided

aten = torch.ops.aten


def left(function, *args):
    """How many calls are left; the results are the same."""
    module = make_fx(function, tracing_mode="fake")(*args)
    write_strided(module.graph)
    module.recompile()
    assert torch.equal(module(*args), function(*args))
    return sum(n.target is aten.as_strided_scatter.default for n in module.graph.nodes)


def scattered(x, new, *places):
    return aten.as_strided_scatter.default(x, new, *places)


WRITTEN = {
    "rows": (lambda x, v: scattered(x.exp(), v, (2, 3), (7, 2), 3), (4, 6), (2, 3)),
    "columns first": (lambda x, v: scattered(x.exp(), v, (3, 2), (2, 7), 3), (4, 6), (3, 2)),
    "diagonal": (lambda x, v: scattered(x.exp(), v, (5,), (6,)), (7, 5), (5,)),
    "up to the end": (lambda x, v: scattered(x.exp(), v, (3,), (11,), 1), (4, 6), (3,)),
    "one": (lambda x, v: scattered(x.exp(), v, (1, 1), (9, 2), 3), (4, 6), (1, 1)),
    "one of several": (lambda x, v: scattered(x.exp(), v, (2, 1, 3), (7, 50, 2), 3), (4, 6), (2, 1, 3)),
    "in memory": (lambda x, v: scattered(x.mT + x.mT, v, (3,), (2,), 4), (4, 6), (3,)),
    "scalar": (lambda x, v: scattered(x.sum(), v, (), (), 0), (4,), ()),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_places_that_are_known(name):
    function, *shapes = WRITTEN[name]
    assert left(function, *map(torch.randn, shapes)) == 0


@pytest.mark.parametrize("function", [
    lambda x, v: scattered(x, v, (2,), (3,)),  # a caller's tensor, which may lie otherwise in another call
    lambda x, v: scattered(x.exp()[1:].mT, v, (2,), (3,), 7),  # a part
], ids=["a caller's", "a part"])
def test_others_stay(function):
    assert left(function, torch.randn(4, 6), torch.randn(2)) == 1


def test_places_that_overlap_stay():
    def overlapping(x, v):
        return scattered(x.exp(), v.view(1, 2).expand(2, 2), (2, 2), (1, 1))

    assert left(overlapping, torch.randn(4, 6), torch.ones(2)) == 1


def contrastive(x):
    x = F.normalize(x, dim=-1)
    similar = (x @ x.T / 0.1).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similar, torch.arange(len(x)).flip(0))


def test_a_contrastive_loss_is_whole():
    assert_right(contrastive, (torch.randn(6, 8),))
    inferno.compile(contrastive, (torch.randn(6, 8),), target="sm_90a", fallback=False)


@pytest.mark.parametrize("shape, wrap", [((5, 7), False), ((17, 5), False), ((17, 5), True), ((3, 3, 3), False)])
def test_diagonals(shape, wrap):
    assert_right(lambda x: x.exp().fill_diagonal_(2.5, wrap=wrap) + 1, (torch.randn(shape),))
