"""Divergences of two softmaxes, and entropies: rows of both are read once, and what they come to is added up."""

import pytest
import torch
import torch.nn.functional as F
from checks import check
from choices import generators
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
PASSES = "split-totals{target=sm_90a},merge-softmaxes{target=sm_90a},fuse-reductions{target=sm_90a},fuse-totals{target=sm_90a},fuse-sum-maps{target=sm_90a}"


def library(x, y):
    return F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean")


def by_hand(x, y):
    p, q = x.softmax(-1), y.softmax(-1)
    return (p * (p.log() - q.log())).sum(-1).mean()


def distillation(x, y):
    return F.kl_div(F.log_softmax(x / 4, -1), F.softmax(y / 4, -1), reduction="batchmean") * 16


def of_logarithms(x, y):
    return F.kl_div(F.log_softmax(x / 2, -1), F.log_softmax(y / 2, -1), reduction="batchmean", log_target=True)


def shannon(x, y):
    p, q = x.softmax(-1), y.softmax(-1)
    m = (p + q) / 2
    return 0.5 * ((p * (p.log() - m.log())).sum(-1) + (q * (q.log() - m.log())).sum(-1)).mean()


def entropy(x, y):
    return -(x.softmax(-1) * x.log_softmax(-1)).sum(-1).mean()


def cross(x, y):
    return -(y.softmax(-1) * x.log_softmax(-1)).sum(-1).mean()


MODELS = (library, by_hand, distillation, of_logarithms, shannon, entropy, cross)


def arguments(shape, dtype):
    torch.manual_seed(0)
    return tuple((3 * torch.randn(shape)).to(dtype) for _ in range(2))  # what alike distributions differ in is rounding for the most part


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("shape", ((300, 70), (270, 128), (24, 40)))
@pytest.mark.parametrize("model", MODELS)
def test_right(model, shape, dtype):
    args = arguments(shape, dtype)
    found = check(SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes=PASSES), model, args)
    assert found.right, str(found)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("shape", ((8192, 2048), (4096, 32000)))
@pytest.mark.parametrize("model", MODELS)
def test_rows_and_a_total(model, shape, dtype):
    """The second kernel reads what rows come to, two numbers each at most."""
    rows = inferno.compile(model, tuple(torch.empty(shape, dtype=dtype) for _ in range(2)), target="sm_90a").explain().rows
    assert [r.generator for r in rows] == ["rows", "reductions"]
    count = 1 if model is entropy else 2
    assert rows[0].bytes <= count * shape[0] * shape[1] * dtype.itemsize + 8 * shape[0] and rows[1].bytes <= 8 * shape[0] + 4


@pytest.mark.parametrize("model", (lambda x: (-x).sum(), lambda x: (-x).mean(0), lambda x: (-x.exp()).sum(-1)))
def test_negated_terms_are_summed_as_others(model):
    found = generators(model, (torch.empty(2048, 1000),))
    assert found and set(found) <= {"reductions", "rows", "columns"}
