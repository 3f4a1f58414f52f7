"""Concatenations by the elementwise generator: whole vectors of one piece, where no vector lies across two."""

from dataclasses import replace

import pytest
import torch
from checks import check
from universal_program import SimulatedModel, assert_assembles

from inferno.schedule import elementwise
from inferno.target import find_target

TARGET, randn = find_target("sm_90a"), torch.randn


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    """They are not by default."""
    monkeypatch.setattr(elementwise, "CONCATS", True)


def cat(*pieces, dim=-1):
    return torch.cat(pieces, dim)


# The model, its inputs, and the widest vectors that it can have.
CASES = {
    "last": (cat, (randn(6, 8), randn(6, 16)), 4),
    "last bf16": (cat, (randn(6, 16).bfloat16(), randn(6, 8).bfloat16()), 8),
    "odd": (cat, (randn(6, 5), randn(6, 3)), 1),
    "even": (cat, (randn(6, 6), randn(6, 10)), 2),
    "first": (lambda *p: cat(*p, dim=0), (randn(6, 8), randn(3, 8), randn(1, 8)), 4),
    "middle": (lambda *p: cat(*p, dim=1), (randn(3, 6, 7), randn(3, 2, 7)), 1),
    "parts": (lambda x, y: cat(x[:, 4:12], y[:, 8:]), (randn(6, 16), randn(6, 16)), 4),
    "parts with steps": (lambda x, y: cat(x[:, 4:12], y[:, ::2]), (randn(6, 16), randn(6, 16)), 1),
    "parts of parts": (lambda x: cat(x[1:, 2:][:, 2:6], x[1:, 8:]), (randn(6, 16),), 4),
    "booleans": (lambda x: cat(x, ~x), (randn(30, 32) > 0,), 8),
    "one": (lambda x: torch.cat((x, x), -1), (randn(4, 4),), 4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("vectors", [True, False])
def test_right(name, vectors):
    model, args, widest = CASES[name]

    def choose(kernel):
        own = elementwise.choose(kernel, TARGET)
        return replace(own, vector=widest if vectors else 1)

    simulated = SimulatedModel(model, args, choose=choose)
    found = check(simulated, model, args)
    assert found.right, str(found)
    if name in ("last bf16", "parts with steps"):
        assert_assembles(simulated.program.gpu, TARGET)


@pytest.mark.parametrize("columns, dtype, vector", [((512, 256), torch.bfloat16, 8), ((513, 255), torch.bfloat16, 1), ((514, 510), torch.float32, 2)])
def test_vectors_do_not_lie_across_pieces(columns, dtype, vector):
    chosen = []

    def choose(kernel):
        chosen.append(elementwise.choose(kernel, TARGET))
        return chosen[-1]

    args = tuple(randn(1500, c).to(dtype) for c in columns)
    SimulatedModel(cat, args, choose=choose)
    assert [s.vector for s in chosen] == [vector]
