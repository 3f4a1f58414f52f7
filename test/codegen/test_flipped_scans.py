"""Scans with flips in front and behind, as gradients of running sums have them: one kernel, which reads and writes from the end."""

import pytest
import torch
from scheduled_program import assert_right, launches


def from_end(scan, dim):
    return lambda x: scan(x.flip(dim), dim).flip(dim)


def with_maps(dim):
    return lambda x, y: (x * y).flip(dim).cumsum(dim).flip(dim) * torch.sigmoid(y) + x


def two_results(x, y):
    s = (x + y).flip(1).cumsum(1).flip(1)
    return s * y, torch.tanh(s)


def decayed(x, y):
    """What is flipped has a weight for each row."""
    return (x * y[:, :1]).flip(1).cumsum(1).flip(1)


PROGRAMS = {  # what is computed, shapes of arguments, launches
    "along": (from_end(torch.cumsum, -1), [(37, 96)], 1),
    "along, odd": (from_end(torch.cumsum, -1), [(5, 77)], 1),
    "along, long": (from_end(torch.cumsum, -1), [(3, 9000)], 1),
    "along, one row": (from_end(torch.cumsum, 0), [(30001,)], 1),
    "along, many short": (from_end(torch.cumsum, -1), [(2000, 18)], 1),
    "across": (from_end(torch.cumsum, 0), [(70, 33)], 1),
    "across, long": (from_end(torch.cumsum, 1), [(2, 700, 40)], 1),
    "products": (from_end(torch.cumprod, 1), [(4, 50, 24)], 1),
    "logarithms of sums": (from_end(torch.logcumsumexp, -1), [(8, 200)], 1),
    "with maps, along": (with_maps(-1), [(9, 128), (9, 128)], 1),
    "with maps, across": (with_maps(1), [(3, 60, 20), (3, 60, 20)], 1),
    "two results": (two_results, [(3, 60, 20), (3, 60, 20)], 1),
    "a weight": (decayed, [(3, 60, 20), (3, 60, 20)], 1),
    "flipped in front alone": (lambda x: x.flip(1).cumsum(1), [(3, 60, 20)], 1),
    "flipped in front alone, along": (lambda x: x.flip(-1).cumsum(-1), [(37, 96)], 1),
    "flipped behind alone": (lambda x: x.cumsum(1).flip(1), [(3, 60, 20)], 1),
    "flipped behind alone, along": (lambda x: x.cumsum(-1).flip(-1) * 2, [(37, 96)], 1),
    "flipped behind alone, along, odd": (lambda x: x.cumsum(-1).flip(-1), [(37, 95)], 1),
    "flipped along another": (lambda x: x.flip(2).cumsum(1).flip(2), [(3, 60, 20)], 1),
    "flipped along two": (lambda x: x.flip((1, 2)).cumsum(1).flip((1, 2)), [(3, 60, 20)], 1),
    "flipped in another way behind": (lambda x: x.flip((0, 2)).cumsum(1).flip((1, 2)), [(3, 60, 20)], 1),
    "not flipped back for all": (lambda x: ((s := x.flip(1).cumsum(1)).flip(1) * x, s.exp()), [(3, 60, 20)], 1),
    "a part, flipped": (lambda x: x[:, 4:].flip(1).cumsum(1), [(3, 64, 20)], 1),
    "beside what is flipped": (lambda x, y: x.cumsum(1).flip(1) * y + y.flip(1), [(3, 60, 20), (3, 60, 20)], 1),
    "beside itself": (lambda x: (s := x.cumsum(1)).flip(1) * s, [(3, 60, 20)], 2),
    "by its place": (lambda x: x.cumsum(1).flip(1) / torch.arange(1, 61)[:, None], [(3, 60, 20)], 1),
    "by its place, along": (lambda x: (x.flip(1) * torch.arange(96)).cumsum(1).flip(1) - torch.arange(96), [(37, 96)], 1),
    "maxima": (lambda x: tuple(y.flip(1) for y in x.flip(1).cummax(1)), [(3, 60, 20)], 1),
    "maxima, along": (lambda x: tuple(y.flip(-1) for y in x.flip(-1).cummax(-1)), [(9, 128)], 1),
    "maxima, their own order": (lambda x: tuple(x.flip(-1).cummax(-1)), [(9, 128)], 1),
    "values of minima": (lambda x: x.flip(0).cummin(0).values.flip(0), [(70, 33)], 1),
    "places of minima": (lambda x: x.shape[0] - 1 - x.flip(0).cummin(0).indices.flip(0), [(70, 33)], 1),
    "behind each other": (lambda x, y: ((s := (x * y).flip(1).cumsum(1)).flip(1) * s.flip(1).mean(2, keepdim=True)), [(3, 60, 20), (3, 60, 20)], 3),
    "rolled": (lambda x: x.flip(1).cumsum(1).roll(1, 1), [(3, 60, 20)], 2),
}


@pytest.mark.covering
@pytest.mark.parametrize("name, dtype", [(name, (torch.float32, torch.bfloat16)[n % 2]) for n, name in enumerate(PROGRAMS)], ids=str)
def test_right(name, dtype):
    program, shapes, most = PROGRAMS[name]
    torch.manual_seed(0)
    text = assert_right(program, tuple((1 + torch.randn(s) / 16 if name == "products" else torch.randn(s)).to(dtype) for s in shapes))
    assert launches(text) <= most, text[:3000]


@pytest.mark.parametrize("shape, dim", [((37, 96), 1), ((70, 33), 0)])
def test_gradient_of_running_sums(shape, dim):
    def program(g):
        return torch.ops.aten.flip(torch.ops.aten.cumsum(torch.ops.aten.flip(g, [dim]), dim), [dim])  # as autograd has it

    text = assert_right(program, (torch.randn(shape),))
    assert launches(text) == 1, text[:3000]


@pytest.mark.parametrize("dim", [0, 1])
def test_whole_numbers(dim):
    torch.manual_seed(0)
    text = assert_right(from_end(torch.cumsum, dim), (torch.randint(-9, 9, (70, 48)),))
    assert launches(text) == 1, text[:3000]
