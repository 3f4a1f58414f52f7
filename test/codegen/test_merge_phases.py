"""Concatenations of all phases of a tensor are transpositions: merged patches are one kernel with the norm behind them."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")


def merged(x, w):
    """Swin's patches: rows count before columns."""
    return F.layer_norm(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1), (4 * x.shape[-1],), w)


def focused(x, w):
    return torch.cat([x[..., i::2, j::2] for i in (0, 1) for j in (0, 1)], 1) * w[:, None, None]


def thirds(x, w):
    return F.layer_norm(torch.cat([x[:, i::3] for i in range(3)], -1), (3 * x.shape[-1],), w)


CASES = {merged: ((2, 6, 8, 16), (64,)), focused: ((2, 3, 6, 8), (12,)), thirds: ((2, 6, 1, 16), (48,))}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("model", CASES)
def test_one_kernel(model, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(dtype) for s in CASES[model])
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a}", expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("images", (1, 4))
def test_patches_are_moved_once(images):
    """In front of a linear layer they are written normalised, and not before."""
    def model(x, w, linear):
        return F.linear(merged(x.view(-1, 56, 56, 96), w).flatten(1, 2), linear)

    args = torch.empty(images, 3136, 96).bfloat16(), torch.empty(384).bfloat16(), torch.empty(192, 384).bfloat16()
    rows = inferno.compile(model, args, target="sm_90a").explain().rows
    assert len(rows) == 2 and rows[0].bytes < 2.1 * args[0].nbytes
