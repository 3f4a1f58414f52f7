"""What models of images and sequences do with sizes that vary: one graph, one program and nothing in eager serve every size."""

import copy

import pytest
import torch
from checks import assert_close_to_float64
from torch import nn
from torch.nn import functional

import inferno

SIZES = [(2, 3, 32, 24), (3, 3, 20, 28), (4, 3, 17, 24), (2, 3, 19, 19)]


def rows_to_numbers(x):
    """As a discriminator's or a reward's: of each row one number."""
    return functional.linear(x.transpose(1, -1), x.new_ones(1, 3)).squeeze(-1)


def with_a_class(x):
    """Rows of a picture behind one more; torch says how many there are as a sum of several sizes."""
    patches = functional.pad(x, (0, 0, 0, x.shape[2] % 2)).flatten(2)
    return torch.cat([x.mean((2, 3)).unsqueeze(-1), patches, x.flatten(2)], 2).softmax(-1)


def in_windows(x):
    whole = functional.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4))
    return whole.unflatten(2, (-1, 4)).unflatten(4, (-1, 4)).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, 3).exp()


MODELS = {
    "a column": rows_to_numbers, "a class": with_a_class, "windows": in_windows,
    "halved three times": lambda x: functional.avg_pool2d(functional.avg_pool2d(functional.avg_pool2d(x, 2), 2), 2).flatten(2).relu(),
    "half, then twice as large": lambda x: functional.interpolate(functional.avg_pool2d(x, 2), scale_factor=2).exp(),
    "1.5 times as large": lambda x: functional.interpolate(x, scale_factor=1.5),
    "corners aligned": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    "maxima": lambda x: functional.max_pool2d(x, 3, 2, 1).relu(),
    "maxima at the end, too": lambda x: functional.max_pool2d(x, 3, 2, ceil_mode=True).relu(),
    "maxima and their places": lambda x: functional.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)[1],
    "pooled to one": lambda x: functional.adaptive_avg_pool1d(x.exp().flatten(2), 1),
    "a stride": nn.Conv2d(3, 2, 2, 2), "a narrow integer's range": lambda x: x + torch.arange(x.shape[3], dtype=torch.int32, device=x.device),
    "down to the negative": lambda x: x.sum(3) + torch.arange(x.shape[2], -x.shape[2], -2.0, dtype=torch.int64, device=x.device),
}


def compiled(model):
    torch.manual_seed(0)
    torch._dynamo.reset()
    inferno.stats(reset=True)
    return torch.compile(model, backend="inferno")


def examples(device="cpu"):
    for shape in SIZES:
        x = torch.randn(shape, device=device)
        for d in (0, 2, 3):
            torch._dynamo.maybe_mark_dynamic(x, d)
        yield x


@pytest.mark.covering(most=5)
@pytest.mark.parametrize("name", MODELS)
def test_one_graph_serves_every_size(name):
    model = MODELS[name]
    fast = compiled(model)
    for x in examples():
        with torch.no_grad():
            assert_close_to_float64(fast(x), model, (x,))
    found = inferno.stats()
    assert (found.graphs, found.segments, found.recompiles, found.fallbacks) == (1, 1, 0, 0)


@pytest.mark.thorough
def test_a_gradient_that_knows_halves_alone():
    """What a forward keeps behind a stride has sizes that are quotients of the picture's, which no tensor of the backward has."""
    layers = [nn.Conv2d(3, 4, 3, 2, 1), nn.SiLU(), nn.Conv2d(4, 2, 3, 2, 1), nn.SiLU()]
    model = nn.Sequential(*layers)
    fast, double = compiled(model), copy.deepcopy(model).double()
    for x in examples():
        ours = torch.autograd.grad(fast(x).square().sum(), list(model.parameters()))
        exact = torch.autograd.grad(double(x.double()).square().sum(), list(double.parameters()))
        assert all((a.double() - b).norm() <= 1e-5 * b.norm() for a, b in zip(ours, exact))
    assert inferno.stats().graphs == 2 and not inferno.stats().recompiles
