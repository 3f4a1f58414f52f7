"""Pieces that are put together in their own order, and then transposed: numbers on a simulated GPU, of the kernels that are chosen."""

import pytest
import torch
from checks import check
from torch import nn
from universal_program import SimulatedModel

from inferno.schedule.assign import choose
from inferno.schedule.maps.elementwise import Elementwise
from inferno.target import find_target

F = nn.functional
PASS = "split-pieces{target=sm_90a always=1}"


def joined(a, b):
    """Channels innermost in the pieces, places in the result; the second one's begin inside of the result's."""
    return torch.cat([a, b], 2).permute(0, 3, 1, 2).contiguous() * 2


def turns(dtype, c, h, w):
    """Four images, channels innermost, of which one with twice as many rows and columns is made: its places are innermost."""
    return lambda *x: torch.stack([torch.stack(x[:2], 3), torch.stack(x[2:], 3)], 2).flatten(3, 4).flatten(1, 2).permute(0, 3, 1, 2).contiguous(), tuple(
        torch.randn(2, h, w, c).to(dtype) for _ in range(4))


CASES = {
    "bf16": lambda: turns(torch.bfloat16, 32, 4, 5),
    "f16, odd": lambda: turns(torch.float16, 19, 3, 5),
    "f32, odd": lambda: turns(torch.float32, 17, 5, 3),
    "joined": lambda: (joined, (torch.randn(2, 5, 3, 24), torch.randn(2, 5, 4, 24))),
    "padded": lambda: (lambda x: F.pad(x, (0, 0, 1, 2, 1, 0)).permute(0, 3, 1, 2).contiguous() + 1, (torch.randn(1, 6, 5, 20),)),
    "channels joined": lambda: (lambda a, b: torch.cat([a, b], 3).permute(0, 3, 1, 2).contiguous(), (torch.randn(1, 5, 7, 16), torch.randn(1, 5, 7, 9))),
}


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, args = CASES[name]()
    chosen = []

    def pick(kernel):
        chosen.append(choose(kernel, find_target("sm_90a")))
        return chosen[-1]

    found = check(SimulatedModel(model, args, choose=pick, expand=True, passes=PASS), model, args)
    assert found.right, str(found)
    assert all(isinstance(s, Elementwise) for s in chosen) and [s.tile for s in chosen].count(0) == len(chosen) - 1  # the transpose has tiles
