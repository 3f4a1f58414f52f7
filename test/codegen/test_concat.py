"""Concatenations, paddings and what is around them as one elementwise kernel: right for every width, in whole vectors wherever they lie together."""

from dataclasses import replace

import pytest
from checks import check
from piece_cases import CASES
from universal_program import SimulatedModel

from inferno.schedule import elementwise
from inferno.schedule.pointwise import parse_pointwise
from inferno.target import find_target

TARGET = find_target("sm_90a")
# All widths of vectors; most cases have one that lanes alternate in, or that lies across two pieces.
WIDTHS = [(name, vector) for number, name in enumerate(CASES) for vector in ((1, 8), (4, 8), (2, 8))[number % 3]]


def simulated(name, vector):
    model, args = CASES[name]

    def choose(kernel):
        own = elementwise.choose(kernel, TARGET)
        return own and replace(own, vector=vector, tile=0)

    return SimulatedModel(model, args, choose=choose, expand=True)


@pytest.mark.parametrize("name, vector", WIDTHS)
def test_right(name, vector):
    model, args = CASES[name]
    made = simulated(name, vector)
    found = check(made, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("rope")] + ["of broadcasts"])
@pytest.mark.parametrize("vector, across", [(8, 2), (2, 4)])
def test_reads_what_is_broadcast_once(name, vector, across, monkeypatch):
    monkeypatch.setattr(elementwise, "_FAR", 1)
    model, args = CASES[name]
    did = []

    def choose(kernel):
        own = elementwise.choose(kernel, TARGET)
        point = parse_pointwise(kernel)
        fits = own and elementwise.reused(point, across, vector) is not None
        did.append(fits)
        return own and replace(own, vector=vector if fits else 1, across=across if fits else 1, tile=0)

    found = check(SimulatedModel(model, args, choose=choose, expand=True), model, args)
    assert found.right, str(found)
    assert any(did) or across == 4
