"""Whole models on the GPU: small ones of every kind, right against float64."""

import pytest
import torch
from checks import assert_right

from benchmarks.suites import MODELS


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_small_models(name, dtype):
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]("small", dtype, torch.device("cuda"))
    compiled = assert_right(model, args, kwargs)
    assert all(row.generator != "library" for row in compiled.explain().rows)
