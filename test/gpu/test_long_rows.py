"""Rows that several blocks share, with several tensors and steps, against float64: how many blocks, and whether in registers, is chosen by an estimate."""

import pytest
import torch
from checks import check
from on_gpu import on_hopper

import inferno

F = torch.nn.functional

pytestmark = on_hopper


def right(program, *shapes, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes)
    found = check(inferno.compile(program, args), program, args)
    assert found.right, str(found)


def gated(x, y, w):
    return F.layer_norm(F.silu(x) * y, x.shape[1:], w)


def chosen(x, y, w):
    z = torch.where(x > 0, x, y)
    return F.rms_norm(z - z.amax(-1, keepdim=True), z.shape[1:], w)


PROGRAMS = {
    "gated": gated, "chosen": chosen, "a norm of a sum": lambda x, y, w: F.layer_norm(x + y, x.shape[1:]),
    "a norm of a norm": lambda x, y, w: F.layer_norm(torch.tanh(F.layer_norm(x, x.shape[1:], w)), x.shape[1:]),
    "two norms": lambda x, y, w: F.normalize(F.rms_norm(x, x.shape[1:], w), dim=-1),
    "softmax": lambda x, y, w: torch.softmax(x * y + w, -1), "of one": lambda x, y, w: torch.softmax(F.gelu(x), -1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(113, 92372), (304, 42514), (3, 92372), (40, 131072), (20, 262144), (33, 50257), (64, 65536), (300, 33000)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_right(name, shape, dtype):
    right(PROGRAMS[name], shape, shape, shape[1:], dtype=dtype)


SIDES = {
    "columns": lambda x, y, w: torch.cat((x, y), -1).sum(0), "centred": lambda x, y, w: (lambda c: (c - c.mean(0)).square().mean(0))(torch.cat((x, y), -1)),
    "normalized": lambda x, y, w: (F.normalize(torch.cat((F.normalize(x.flip(-1), dim=-1), y), -1), dim=-1)).sum(0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(8192, 96), (26496, 545), (5000, 1030)])
@pytest.mark.parametrize("name", SIDES)
def test_columns_of_tensors_side_by_side(name, shape, dtype):
    right(SIDES[name], shape, shape, shape[1:], dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("first, second, side", [(640, 320, 32), (64, 64, 56), (40, 24, 33), (96, 7, 20)])
def test_images_side_by_side_with_channels_last(first, second, side, dtype):
    def transposed(x, y):
        return F.silu(torch.cat((x, y), 1)).permute(0, 2, 3, 1).contiguous()

    right(transposed, *((2, c, side, side) for c in (first, second)), dtype=dtype)
