"""Rows that are picked out of a table whose sizes are known, of a number of rows that varies, on the simulator."""

import pytest
import torch
from checks import check
from kernels import TARGET
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.schedule import assign


class _Embedded(torch.nn.Module):
    """Tokens and their places, normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(50, 96), torch.nn.Parameter(torch.randn(64, 96))
        self.norm = torch.nn.LayerNorm(96)

    def forward(self, i):
        return self.norm(self.tokens(i) + self.places[: i.shape[1]])


class _Looked(torch.nn.Module):
    """A bias of every fourth row, picked by where a row is."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(4, 50))

    def forward(self, x):
        return torch.softmax(x + self.bias[torch.arange(x.shape[0]) % 4][:, torch.arange(40)], -1)


def tokens(count, length):
    return (torch.randint(50, (count, length)),)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("model, make, varying, sizes", [
    (_Embedded, tokens, {0: Dim.AUTO, 1: Dim.AUTO}, [(3, 20), (2, 2), (7, 33), (2, 64)]),
    (_Looked, lambda count: (torch.randn(count, 40),), {0: Dim.AUTO}, [(8,), (3,), (77,)]),
])
def test_one_kernel(model, make, varying, sizes, dtype):
    torch.manual_seed(0)
    made = model().to(dtype).requires_grad_(False)
    run = SimulatedModel(made, make(*sizes[0]), (varying,), choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a}")
    assert len(run.program.plan.steps) == 1
    for each in sizes:
        args = make(*each)
        assert (found := check(run, made, args)).right, str(found)
