"""Many rows of three points, as of vectors in space, are a thread's each: what they have in common is computed once."""

from dataclasses import replace

import pytest
import torch
from scheduled_program import assert_right

import inferno


def product(s, v, r):
    """Scalars and vectors with edges' directions."""
    gate = torch.sigmoid(s + (v * r[:, None]).sum(-1))
    return s * gate, (v + torch.linalg.cross(v, r[:, None].expand_as(v), dim=-1)) * gate[..., None]


def norm(s, v, r):
    v = v * s[..., None] + r[:, None]
    return (v - v.mean(-1, keepdim=True)) / v.square().sum(-1, keepdim=True).add(0.1).sqrt()


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", [product, norm])
def test_a_thread_for_each_row(model, dtype):
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(dtype) for s in ((37, 5), (37, 5, 3), (37, 3)))
    found = []

    def change(kernel, schedule):
        found.append(replace(schedule, across=1, threads=64) if schedule.generator == "rows" else schedule)
        return found[-1]

    assert_right(model, args, change)
    assert any(s.generator == "rows" for s in found)


@pytest.mark.parametrize("edges, alone", [(65536, True), (64, False)])
def test_of_many_rows(edges, alone):
    args = torch.randn(edges, 8).bfloat16(), torch.randn(edges, 8, 3).bfloat16(), torch.randn(edges, 3).bfloat16()
    rows = [r for r in inferno.compile(product, args, target="sm_90a").explain().rows if r.generator == "rows"]
    assert rows and all(("across=1," in str(r.schedule)) == alone for r in rows)
