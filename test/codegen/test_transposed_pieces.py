"""Concatenations that are transposed: pieces that lie along another loop than the result are picked from tiles, in their branches alone."""

from dataclasses import replace

import pytest
import torch
from checks import check
from scheduled_program import assert_right_of
from universal_program import SimulatedModel

from inferno.schedule.maps import elementwise
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.maps.transposed_gathers import brought_together, transposed_gathers
from inferno.target import find_target

TARGET = find_target("sm_90a")
F = torch.nn.functional


def transposed(x, y, z):
    return torch.cat((x, y), -1).t().contiguous()


def computed(x, y, z):
    return torch.cat((torch.where((a := x * z[:, :1]) > 0, a, y), z), -1).t().contiguous()


def from_both_orders(x, y, z):
    """Of pieces that lie as the result does, and that do not."""
    w = torch.tanh(torch.cat((x.t() * y.reshape(x.t().shape), z.t()), -1)).t()
    return torch.where(w > 0, w, torch.cat((y, x), 0)).contiguous()


def three(x, y, z):
    return F.gelu(torch.cat((x, y, z), -1)).t().contiguous()


def flipped(x, y, z):
    return torch.cat((x.flip(-1), y), -1).t().contiguous()


def of_images(x, y, z):
    x, y = (t.reshape(2, -1, t.shape[1]) for t in (x, y))
    return torch.cat((x, y), -1).permute(0, 2, 1).contiguous()


def channels_last(x, y, z):
    """Channels of two images side by side, and the places of each image one behind the other."""
    x, y = (t.reshape(2, -1, t.shape[1]) for t in (x, y))
    return F.silu(torch.cat((x, y), 1)).permute(0, 2, 1).contiguous()


def planes_last(x, y, z):
    x, y = (t.reshape(2, -1, 2, t.shape[1] // 2) for t in (x, y))
    return torch.cat((x, y), 1).permute(0, 2, 3, 1).contiguous()


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("program", [transposed, computed, from_both_orders, three, flipped, of_images, channels_last, planes_last])
@pytest.mark.parametrize("shape", [(34, 20), (130, 30), (70, 66)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_results_are_right(program, shape, dtype):
    _assert_right_by_tiles(program, shape, dtype)


def _assert_right_by_tiles(program, shape, dtype):
    text = assert_right_of(program, shape, dtype, 3)
    kernels = text[text.index("func.func private"):]
    assert "tile = 64" in kernels or "tile = 32" in kernels, text[:3000]


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("program", [transposed, three, of_images, channels_last])
@pytest.mark.parametrize("shape, together", [((134, 20), 2), ((128, 34), 2), ((40, 70), 2), ((70, 33), 1)])
def test_words_of_16_bits(program, shape, together):
    """Tiles of 64 points a side, of which a thread brings neighbours."""
    chosen = []

    def choose(kernel):
        own, point = elementwise.choose(kernel, TARGET), parse_pointwise(kernel)
        if not own or (picks := transposed_gathers(point)) is None:
            return own
        chosen.append(brought_together(point, picks))
        return replace(own, tile=64, vector=chosen[-1])

    args = tuple(torch.randn(shape).bfloat16() for _ in range(3))
    found = check(SimulatedModel(program, args, choose=choose, expand=True), program, args)
    assert found.right, str(found)
    assert chosen == [together]


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Numbers of rows, by what they have in their first column, some counted from the end."""
    number = (x[:, 0].float() * 37).to(torch.int64)
    return number.remainder(x.shape[0]) - torch.where(number % 2 == 0, x.shape[0], 0)


def gathered(x, y, z):
    return (x[_rows(z)] + y).t().contiguous()


def gathered_backwards(x, y, z):
    return (x.flip(-1)[_rows(z)] * y[:, :1]).t().contiguous()


def gathered_of_images(x, y, z):
    x, y = (t.reshape(2, -1, t.shape[1]) for t in (x, y))
    return (x[:, _rows(y[0])] + y).permute(0, 2, 1).contiguous()


def gathered_pieces(x, y, z):
    return (torch.cat((x, y), -1)[_rows(z)] * 0.5).t().contiguous()


def gathered_pieces_backwards(x, y, z):
    """Factors and numbers of rows are looked up, too."""
    x = torch.cat((x, y), -1).clamp(-2, 2) * z[:, :1]
    return (x[_rows(z)].flip(-1) * y.sum(-1, keepdim=True)).t().contiguous()


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("program", [gathered, gathered_backwards, gathered_of_images, gathered_pieces, gathered_pieces_backwards])
@pytest.mark.parametrize("shape", [(34, 20), (130, 30), (70, 66), (132, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_rows_that_are_gathered(program, shape, dtype):
    _assert_right_by_tiles(program, shape, dtype)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("shape, together", [((134, 20), 2), ((70, 33), 1)])
@pytest.mark.parametrize("program", [gathered, gathered_pieces])
def test_words_of_gathered_rows(program, shape, together):
    test_words_of_16_bits(program, shape, together)
