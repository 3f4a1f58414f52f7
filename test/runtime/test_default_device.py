"""What Inferno makes of its own does not lie where the program has its tensors made: ``torch.set_default_device``."""

import pytest
import torch
from checks import check

import inferno

F = torch.nn.functional
PROGRAMS = {
    "index_copy": (lambda c, p, s: c.index_copy(1, p, s), lambda: (torch.randn(2, 9, 4), torch.tensor([3, 5]), torch.randn(2, 2, 4))),
    "numbers": (lambda x, w: F.gelu(x @ w) * 2.5 + x.new_zeros(3), lambda: (torch.randn(5, 4), torch.randn(4, 3))),
    "masks": (lambda x, m: torch.where(m, x, -torch.inf).softmax(-1).masked_fill(~m, 0), lambda: (torch.randn(5, 4), torch.rand(5, 4) > 0.5)),
    "losses": (lambda x, t: F.cross_entropy(x, t), lambda: (torch.randn(5, 4), torch.tensor([0, 1, -100, 3, 2]))),
    "nothing": (lambda x: (x[:, :0], x.sum()), lambda: (torch.randn(5, 4),)),
    "selections": (lambda x: (x.median(-1), x.topk(2), x.sort(0)), lambda: (torch.randn(5, 4),)),
    "counts": (lambda x: x + torch.arange(4, device=x.device), lambda: (torch.randn(5, 4),)),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_right(name):
    model, make = PROGRAMS[name]
    torch.manual_seed(0)
    args = make()
    with torch.device("meta"):
        compiled = inferno.compile(model, args, fallback=False)
        results = compiled(*args)
    found = check(lambda *a: results, model, args)
    assert found.right, str(found)


def test_draws():
    x = torch.ones(1000)
    with torch.device("meta"):
        torch.manual_seed(1)
        y = inferno.compile(lambda x: F.dropout(x, 0.25), (x,))(x)
    torch.testing.assert_close(y.unique(), torch.tensor([0, 4 / 3]))
    assert 150 < (y == 0).sum() < 350
