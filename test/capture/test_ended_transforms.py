"""What torch.func's transforms leave of themselves in an exported graph is never read: the process would end."""

import pytest
import torch

import inferno
from inferno.capture import capture
from inferno.errors import CaptureError

PROGRAMS = {
    "a running sum": lambda x, g: torch.func.vjp(lambda v: v.cumsum(1), x)[1](g)[0],
    "a product": lambda x, g: torch.func.vjp(lambda v: v * v.tanh(), x)[1](g)[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_functions(name):
    args = torch.randn(8, 16), torch.randn(8, 16)
    with pytest.raises(CaptureError, match="torch.func transform that has ended"):
        capture(PROGRAMS[name], args)
    torch.testing.assert_close(inferno.compile(PROGRAMS[name], args)(*args), PROGRAMS[name](*args))
