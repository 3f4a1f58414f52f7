"""Products that are broadcast and summed are products of matrices; other sums stay, and all are right."""

import pytest
import torch
from checks import check, scheduled

import inferno
from inferno.capture.capture import capture

randn = torch.randn


def outer(b, x, decay):
    """The states that the tokens of a chunk leave, as Mamba-2's."""
    return ((b * decay[..., None])[..., None, :] * (x * 2)[..., None]).sum(1)


CASES = {
    "outer": (outer, lambda: (randn(2, 24, 3, 16), randn(2, 24, 3, 8), torch.rand(2, 24, 3)), True),
    "along rows": (lambda x, y: (x[:, None] * y[None]).sum(-1), lambda: (randn(12, 20), randn(10, 20)), True),
    "fewer dimensions, and one is kept": (lambda x, y: (x[..., None] * y).sum(1, keepdim=True), lambda: (randn(3, 16, 9), randn(16, 1, 8)), True),
    "several dimensions": (lambda x, y: (x[:, :, :, None] * y[:, :, None]).sum((0, 1)), lambda: (randn(3, 16, 9), randn(3, 16, 8)), True),
    "neighbours": (lambda x, y: (x * y).sum(0), lambda: (randn(16, 16), randn(16, 16)), False),
    "a row for all": (lambda x, y: (x * y).sum(1), lambda: (randn(16, 16), randn(16)), False),
    "few": (lambda x, y: (x[:, None] * y[None]).sum(-1), lambda: (randn(12, 20), randn(2, 20)), False),
    "no element": (lambda x, y: (x[:, None] * y[None]).sum(-1), lambda: (randn(12, 0), randn(10, 0)), False),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make, joined = CASES[name]
    args = make()
    targets = [n.target for n in capture(model, args).graph.nodes]
    assert (torch.ops.aten.bmm.default in targets) == joined
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)


def test_sums_are_never_rounded_to_tf32():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert torch.ops.aten.bmm.default not in [n.target for n in capture(outer, CASES["outer"][1]()).graph.nodes]
        x, y = randn(512, 256), randn(512, 128)
        for model, rounded in ((lambda x, y: (x[:, :, None] * y[:, None]).sum(0), False), (lambda x, y: (x * 2).mT @ y, True)):
            assert ('precision = "tf32"' in scheduled(model, (x, y), tf32=True).stages["scheduled"]) == rounded
    finally:
        torch.set_float32_matmul_precision(before)
