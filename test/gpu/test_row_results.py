"""Rows that write parts of results on a GPU: the numbers, of rows of all lengths and pieces that begin anywhere."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check, poison_memory

import inferno

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from test_row_results import CASES, F, halves, into, into_rows, norm, rms, sinks
from test_rows_of_pieces import made

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def right(model, shapes, dtype):
    args = tuple(a.cuda() for a in made(*shapes, dtype=dtype))
    compiled = inferno.compile(model, args, fallback=False)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    return [row.generator for row in compiled.explain().rows]


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name", CASES)
def test_cases(name, dtype):
    right(*CASES[name], dtype)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=str)
@pytest.mark.parametrize("width", [33, 768, 1001, 4096, 12346, 70000])
def test_lengths(width, dtype):
    rows = max(3, (1 << 20) // width)
    right(sinks, ((2, rows, width), (2, rows, 1)), dtype)
    right(into, ((rows, width + 5), (rows, width)), dtype)
    right(into_rows, ((rows + 3, width), (rows, width)), dtype)
    right(lambda x, y: torch.cat((norm(x), y), -1), ((rows, width), (rows, width // 2)), dtype)
    right(lambda x, y: torch.cat((y, rms(x)), 0), ((rows, width), (7, width)), dtype)
    right(lambda x: F.pad(norm(x), (8, 3)), ((rows, width),), dtype)
    if width % 2 == 0:
        right(halves, ((rows, width),), dtype)


def test_large():
    """Of many rows of whole vectors, one kernel."""
    assert right(sinks, ((8, 16, 512, 512), (8, 16, 512, 1)), torch.bfloat16) == ["rows"]
    assert right(lambda x, y: torch.cat((norm(x), norm(y)), -1), ((16384, 2048), (16384, 2048)), torch.bfloat16) == ["rows"]
