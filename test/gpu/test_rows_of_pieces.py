"""Rows that are read in pieces on a GPU: the numbers, of rows of all lengths and pieces that begin anywhere."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check, poison_memory

import inferno

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from test_rows_of_pieces import CASES, behind_a_token, behind_a_token_and_returned, beside, of_both, padded, shifted, transposed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def right(model, args):
    args = tuple(a.cuda() for a in args)
    compiled = inferno.compile(model, args, fallback=False)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    return [row.generator for row in compiled.explain().rows]


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    right(*CASES[name])


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("first, second", [(1, 1), (13, 64), (333, 150), (768, 1), (1025, 1025), (5001, 1000), (30000, 7), (65536, 4096), (100003, 29)])
def test_pieces_that_begin_anywhere(first, second, dtype):
    rows = max(3, (1 << 20) // (first + second))
    torch.manual_seed(0)
    right(beside, (torch.randn(rows, first).to(dtype), torch.randn(rows, second).to(dtype)))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=str)
@pytest.mark.parametrize("width", [2, 33, 768, 1001, 4096, 12345])
def test_pieces_of_rows(width, dtype):
    torch.manual_seed(0)
    make = lambda *shape: torch.randn(shape).to(dtype)  # noqa: E731
    token = make(1, 1, width), make(8, 49, width), make(1, 50, width)
    assert right(behind_a_token, token) == ["rows"]
    right(behind_a_token_and_returned, token)
    right(shifted, (make(4, 33, width), make(4, 33, width)))
    right(transposed, (make(60, width), make(41, width)))
    right(padded, (make(3, 40, width), make(width + 24)))
    right(of_both, (make(40, width - 1), make(40, 1), make(9, width)))
