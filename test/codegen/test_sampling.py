"""Images that are sampled where a grid says: numbers on a simulated GPU, and which schedules read at places that are told."""

import pytest
import torch
from checks import check
from kernels import recorded
from torch import nn
from universal_program import SimulatedModel

from inferno.schedule.maps import elementwise
from inferno.schedule.maps.elementwise import Elementwise
from inferno.target import find_target

TARGET, F, bf16 = find_target("sm_90a"), nn.functional, torch.bfloat16


def sampled(**how):
    return lambda x, g: F.grid_sample(x, g, **{"align_corners": False, **how})


def pieces(x, g):
    """Levels of an image, as deformable attention reads them, side by side."""
    return torch.stack([F.grid_sample(x[:, i], g[:, i], align_corners=False) for i in range(2)], -2).flatten(-2)


def grid(*shape):
    return torch.rand(*shape) * 2.6 - 1.3


# name: the model, its inputs, and a schedule.
CASES = {
    "bilinear": lambda: (sampled(), (torch.randn(2, 8, 32, 33), grid(2, 5, 16, 2)), Elementwise(64, 1, across=4)),
    "one at a time": lambda: (sampled(), (torch.randn(2, 4, 48, 49), grid(2, 5, 9, 2)), Elementwise(64, 1, unroll=2)),
    "bf16": lambda: (sampled(align_corners=True), (torch.randn(1, 16, 48, 49).to(bf16), grid(1, 4, 16, 2).to(bf16)), Elementwise(64, 1, across=16)),
    "border": lambda: (sampled(padding_mode="border"), (torch.randn(2, 4, 48, 49), grid(2, 5, 16, 2)), Elementwise(64, 1, across=2)),
    "reflection": lambda: (sampled(padding_mode="reflection"), (torch.randn(2, 4, 48, 49), grid(2, 5, 16, 2) * 2), Elementwise(64, 1, across=4)),
    "nearest": lambda: (sampled(mode="nearest"), (torch.randn(2, 4, 48, 49), grid(2, 5, 16, 2)), Elementwise(64, 1, across=4)),
    "bicubic": lambda: (sampled(mode="bicubic"), (torch.randn(2, 4, 48, 49), grid(2, 5, 16, 2)), Elementwise(64, 1)),
    "volumes": lambda: (sampled(), (torch.randn(1, 4, 16, 17, 18), grid(1, 3, 4, 8, 3)), Elementwise(64, 1, across=4)),
    "pieces": lambda: (pieces, (torch.randn(2, 2, 4, 48, 49), grid(2, 2, 40, 4, 2)), Elementwise(64, 1, across=4)),
    "vectors": lambda: (sampled(), (torch.randn(2, 4, 48, 49), grid(2, 5, 16, 2)), Elementwise(64, 4, across=2)),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, args, schedule = CASES[name]()
    built = SimulatedModel(model, args, choose=lambda kernel: schedule if "tensor.extract " in str(kernel) else elementwise.choose(kernel, TARGET), expand=True)
    found = check(built, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model, shapes, type_, schedule", [
    (sampled(), [(4, 64, 128, 160), (4, 128, 160, 2)], bf16, Elementwise(256, 1, across=4)),
    (sampled(), [(4, 64, 128, 160), (4, 128, 160, 2)], torch.float32, Elementwise(256, 1, across=4)),
    (sampled(mode="nearest"), [(4, 64, 128, 160), (4, 128, 160, 2)], bf16, Elementwise(256, 1, across=4)),
    (sampled(), [(2, 16, 32, 64, 64), (2, 32, 64, 64, 3)], bf16, Elementwise(256, 1, across=4)),
    (sampled(), [(8, 1, 256, 256), (8, 256, 256, 2)], bf16, Elementwise(256, 1, unroll=2)),
    (pieces, [(16, 2, 32, 50, 50), (16, 2, 900, 8, 2)], bf16, Elementwise(256, 1, across=4)),
])
def test_neighbouring_threads_have_neighbouring_points(model, shapes, type_, schedule):
    """And what is computed of a point's place is so once for several channels, by the kernel that reads there."""
    choose, chosen = recorded(elementwise.choose)
    SimulatedModel(model, tuple(torch.empty(s).to(type_) for s in shapes), choose=choose, expand=True)
    assert chosen[-1] == schedule
    assert all(s.vector > 1 for s in chosen[:-1])  # copies of parts of arguments


def test_rows_that_are_taken_are_read_by_vectors():
    choose, chosen = recorded(elementwise.choose)
    SimulatedModel(lambda x, i: x[i] * 2, (torch.empty(8192, 4096).to(bf16), torch.empty(8192).long()), choose=choose, expand=True)
    assert [s.vector for s in chosen] == [8]


def test_tables_that_the_l1_cache_has_leave_vectors():
    choose, chosen = recorded(elementwise.choose)
    args = torch.empty(4, 12, 512, 512).to(bf16), torch.empty(1024, 12).to(bf16), torch.empty(512, 512).long()
    SimulatedModel(lambda x, t, i: x + t[i].permute(2, 0, 1), args, choose=choose, expand=True)
    assert [s.vector for s in chosen] == [8]


def test_an_infinite_edge_is_not_read_from_outside():
    """What lies outside is zero, not an element of the edge times zero."""
    x = torch.randn(1, 4, 16, 17)
    x[..., 0, :], x[..., -1] = torch.inf, torch.nan
    g = torch.tensor([[[[-3.0, -3.0], [3.0, 0.1], [0.2, 3.0], [0.1, 0.2], [0.5, -3.0]]]])
    found = SimulatedModel(sampled(), (x, g), expand=True)(x, g)
    assert torch.allclose(found, sampled()(x, g)) and found[..., 3].isfinite().all()
