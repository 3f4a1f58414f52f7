"""Programs whose contractions have factors that are computed: written first, they compute the same (on the CPU), and one factor is written once."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check

import inferno

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
CPU = find_target("cpu")


def normalised(x, r, g):
    return (x.float() * r * g.float()).to(x.dtype)


def alike(x, r, g, w, v):
    y = normalised(x, r, g)
    return F.linear(y, w), torch.relu(F.linear(y, v))


FUNCTIONS = {
    "rows that are normalised": (alike, ((24, 64), (24, 1), (64,), (40, 64), (40, 64)), 3),
    "both factors": (lambda x, s, w, t: (x * s) @ (w * t), ((24, 64), (64,), (64, 40), (64, 1)), 3),
    "what the end reads too": (lambda x, g, w: F.linear(x * g, w) + x, ((24, 64), (64,), (64, 64)), 2),
    "batches, transposed": (lambda x, s, w: (x * s).mT @ w, ((3, 64, 24), (3, 64, 1), (3, 64, 40)), 2),
    "two orders": (lambda x, s, v, w: ((y := x * s) @ v, y.mT @ w), ((24, 64), (24, 1), (64, 40), (24, 40)), 3),
    "three dimensions": (lambda x, s, v, w: ((y := x * s).mT @ v, y @ w), ((3, 64, 64), (64,), (3, 64, 64), (3, 64, 64)), 3),
    "numbers": (lambda x, w: F.linear(x * 2.5 + 1, w), ((24, 64), (40, 64)), 2),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same(name):
    function, shapes, kernels = FUNCTIONS[name]
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(torch.bfloat16) for s in shapes)
    passes = "split-operands{target=sm_90a always=1}"
    compiled = compile_universal(function, args, torch.device("cpu"), "cpu", lambda k: assign.choose(k, CPU), passes=passes)
    verdict = check(compiled, function, args)
    assert verdict.right, str(verdict)
    assert sum(row.calls for row in compiled.explain().rows) == kernels


def test_what_is_chosen():
    """Of many rows the factor is written, together with what it is made of; of few it stays in the kernel that reads it."""
    def block(x, g, w):
        r = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return F.linear((x.float() * r).to(x.dtype) * g, w), r

    def generators(rows):
        args = tuple(torch.empty(s, dtype=torch.bfloat16) for s in ((rows, 1024), (1024,), (2816, 1024)))
        return [(row.generator, row.calls) for row in inferno.compile(block, args, target="sm_90a").explain().rows]

    assert generators(4096) == [("rows", 1), ("wgmma", 1)]
    assert len(generators(16)) == 2
