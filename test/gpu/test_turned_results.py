"""Images that are resized, padded or pooled and then rows of channels, rows that are looked up and gated, and gates of padded images, on a GPU: the numbers."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
import test_computed_gathers
import test_hoist_vectors
import test_turned_results as turned

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("shape", ((2, 8, 14, 14), (3, 64, 28, 31), (1, 384, 56, 56), (11, 96, 32, 32), (1, 66, 75, 178)), ids=str)
@pytest.mark.parametrize("model", (turned.resized, turned.reflected, turned.averaged, turned.by_columns))
def test_turned(model, shape, dtype):
    torch.manual_seed(0)
    assert assert_right(model, tuple(torch.randn(shape, device="cuda").to(dtype) for _ in range(2))).explain().launches == 1


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("shape, taken", (((57, 64, 128), 32), ((57, 256, 512), 128), ((40, 33, 102), 34)), ids=str)
@pytest.mark.parametrize("model", (test_computed_gathers.gated, test_computed_gathers.summed))
def test_looked_up(model, shape, taken, dtype):
    torch.manual_seed(0)
    args = torch.randn(shape, device="cuda").to(dtype), torch.randint(0, shape[1], (taken,), device="cuda")
    assert assert_right(model, args).explain().launches <= 3  # (sums in two launches where they are cut)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("shape", ((72, 5, 7), (384, 128, 256)), ids=str)
@pytest.mark.parametrize("model", (test_hoist_vectors.padded, test_hoist_vectors.beside))
def test_gates(model, shape, dtype):
    torch.manual_seed(0)
    assert_right(model, (torch.randn(shape, device="cuda").to(dtype), torch.randn(2, *shape[1:], device="cuda").to(dtype)))
