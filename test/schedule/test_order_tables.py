"""What is read at computed places, put in the order of what is made of it: numbers on a simulated GPU, of the kernels that are chosen."""

import pytest
import torch
from checks import check
from torch import nn
from universal_program import SimulatedModel

from inferno.schedule.assign import choose
from inferno.target import find_target

F = nn.functional
PASS = "order-tables{target=sm_90a always=1}"


def last(x):
    return x.permute(0, 2, 3, 1).contiguous()


def resized(x, size, mode):
    return F.interpolate(x, size=size, mode=mode, **({} if "nearest" in mode else {"align_corners": False}))


def head(a, b, c):
    """Maps of two sizes and one that is as large as the result, channels innermost in that alone."""
    size = c.shape[2:]
    return last(torch.cat([resized(a, size, "bilinear"), resized(b, size, "bilinear"), c], 1))


def smaller(x):
    """More is read than made: computed in the order of the image."""
    return last(F.interpolate(x, size=(16, 16), mode="bilinear", align_corners=True))


def logits(x):
    """The other way round: from channels last to channels first."""
    return x.permute(0, 3, 1, 2)[:, :, (torch.arange(8) // 2)[:, None], torch.arange(32) // 2] * 2


def pooled(x):
    """The same of short rows, which make a long one of each channel."""
    return F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2).contiguous()


def kinds(*sizes, dtype=torch.float32):
    return tuple(torch.randn(s).to(dtype) for s in sizes)


# name: the model, its inputs, and how many kernels transpose.
CASES = {
    "head": lambda: (head, kinds((1, 16, 8, 16), (1, 16, 16, 16), (1, 24, 16, 32), dtype=torch.bfloat16), 3),
    "bilinear": lambda: (lambda x: last(resized(x, (20, 34), "bilinear")), kinds((2, 16, 16, 17)), 1),
    "bicubic": lambda: (lambda x: last(resized(x, (18, 32), "bicubic")), kinds((1, 24, 16, 16), dtype=torch.float16), 1),
    "nearest": lambda: (lambda x, y: last(resized(x, (32, 32), "nearest")) + last(y), kinds((1, 16, 16, 16), (1, 16, 32, 32), dtype=torch.bfloat16), 1),
    "smaller": lambda: (smaller, kinds((1, 16, 24, 32)), 1),
    "logits": lambda: (logits, kinds((2, 4, 16, 19), dtype=torch.bfloat16), 1),
    "pooled": lambda: (pooled, kinds((2, 15, 13, 32)), 1),
    "pooled to little": lambda: (pooled, kinds((2, 7, 7, 32)), 0),
    "in order": lambda: (lambda x: resized(x, (16, 32), "bilinear"), kinds((1, 16, 8, 16)), 0),
    "anywhere": lambda: (lambda x, i: last(x[:, :, i]), (torch.randn(1, 16, 16, 16), torch.randint(0, 16, (16,))), 1),
    "one element": lambda: (lambda x: torch.roll(F.gelu(x[[0], None]), 1, 0), kinds((1, 1)), 0),
    "few channels": lambda: (lambda x: last(resized(x, (32, 32), "bilinear")), kinds((1, 3, 16, 16)), 0),
}


@pytest.mark.covering(most=3, also=lambda name: name == "one element")
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, args, transposes = CASES[name]()
    chosen = []

    def pick(kernel):
        found = choose(kernel, find_target("sm_90a"))
        chosen.append((kernel.name.value, found))
        return found

    found = check(SimulatedModel(model, args, choose=pick, expand=True, passes=PASS), model, args)
    assert found.right, str(found)
    assert sum(n.startswith("transpose") for n, _ in chosen) == transposes
