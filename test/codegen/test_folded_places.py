"""Scatters that compute where they put what they do, of indices of several dimensions: their numbers on a simulated GPU."""

import pytest
import torch
from checks import check
from universal_program import SimulatedModel

from inferno.schedule.scatters import matched_rows

aten = torch.ops.aten
PASSES = "assign-schedules{target=sm_90a},fold-places{target=sm_90a}"


@pytest.fixture(autouse=True)
def by_the_last_generator(monkeypatch):
    """As more would be: what is few has a generator that ``fuse-scatters`` gives the places to before."""
    monkeypatch.setattr(matched_rows, "choose", lambda kernel, target: None)


def numbers(below, *shape):
    return torch.randint(-below, below, shape)


def add(*between):
    """A sum at places that the indices behind ``between``, of dimensions that none is of, tell."""
    return lambda x, y, *i: aten.index_put(x, [*between, *i], y, True)


CASES = {
    "elements": (add(), (torch.randn(5, 7), torch.randn(40), numbers(5, 40), numbers(7, 40))),
    "rows": (add(), (torch.randn(5, 7, 3), torch.randn(20, 3), numbers(5, 20), numbers(7, 20))),
    "a column and a row": (add(), (torch.randn(5, 7), torch.randn(6, 9), numbers(5, 6, 1), numbers(7, 9))),
    "one for all": (add(), (torch.randn(5, 7, 4), torch.randn(9), numbers(5, 1), numbers(7, 9), numbers(4, 1))),
    "behind others": (add(None), (torch.randn(3, 5, 7), torch.randn(3, 6, 9), numbers(5, 6, 1), numbers(7, 9))),
    "windows": (add(None, None), (torch.randn(2, 3, 8, 9), torch.randn(2, 3, 3, 6, 2, 4), numbers(8, 3, 6, 1, 1), numbers(9, 2, 4))),
    "between others": (add(None), (torch.randn(3, 5, 7, 3), torch.randn(3, 6, 9, 3), numbers(5, 6, 1), numbers(7, 6, 9))),
    "one number": (add(), (torch.randn(5, 7), torch.tensor(0.5), numbers(5, 6, 1), numbers(7, 9))),
    "integers": (add(), (torch.randint(0, 99, (5, 7)), torch.randint(0, 99, (40,)), numbers(5, 40).int(), numbers(7, 40).int())),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args = CASES[name]
    made = SimulatedModel(model, args, passes=PASSES, expand=True)
    assert not any("muli" in step.kernel for step in made.program.plan.steps), "places are no table in memory"
    found = check(made, model, args)
    assert found.right, str(found)


def test_places_outside_are_left_alone():
    """Each dimension's: what is behind the end of a row is no place of the next one."""
    x, y = torch.randn(5, 7), torch.randn(6)
    i, j, inside = torch.tensor([0, 4, 5, -6, 1, 1 << 33]), torch.tensor([7, -7, 0, 3, 6, 2]), [1, 4]
    made = SimulatedModel(add(), (x, y, i.clamp(0, 4), j.clamp(0, 6)), passes=PASSES, expand=True)
    torch.testing.assert_close(made(x, y, i, j), add()(x, y[inside], i[inside], j[inside]))
