"""Memory that is asked for in an order of its own lies so: what ``as_strided`` reads of a copy to it is what eager's is."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inferno

X = torch.arange(256.0).reshape(2, 16, 8).sin()

COPIES = {
    "empty_strided": lambda x: torch.empty_strided((2, 8, 16), (128, 1, 8)).copy_(x.mT),
    "new_empty_strided": lambda x: x.new_empty_strided((2, 8, 16), (1, 2, 16)).copy_(x.mT),
    "one of a dimension": lambda x: torch.empty_strided((2, 1, 8, 16), (128, 7, 1, 8)).copy_(x.mT[:, None]),
    "empty_permuted": lambda x: torch.empty_permuted((2, 8, 16), (2, 0, 1)).copy_(x.mT),
    "with gaps": lambda x: torch.empty_strided((2, 8, 16), (300, 1, 16)).copy_(x.mT),
}


@pytest.mark.parametrize("name", COPIES)
def test_read_by_strides(name):
    places = ((2, 3), (16, 2), 1) if name == "with gaps" else ((2, 8), (9, 2), 3)  # which are written to

    def model(x):
        copy = COPIES[name](x)
        return copy.as_strided(*places) * 1, copy + 1

    fast = inferno.compile(model, (X,), target="cpu", fallback=name == "with gaps")
    for found, expected in zip(fast(X), model(X), strict=True):
        assert torch.equal(found, expected)


def test_gradients_of_writes_to_a_turned_tensor():
    """A graph of them, as make_fx traces it, has memory of the tensor's strides, and parts of it by their places there."""
    def forces(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            turned = x.sigmoid().mT
            states, state = torch.zeros_like(turned), torch.zeros(2, 16)
            for i in range(4):
                state = state * 0.5 + turned[:, i]
                states[:, i] = state
            return torch.autograd.grad((states * states).sum(), x)[0]

    fast = inferno.compile(make_fx(forces)(X), (X,), target="cpu", fallback=False)
    torch.testing.assert_close(fast(X), forces(X))
