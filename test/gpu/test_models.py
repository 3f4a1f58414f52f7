"""Whole models on the GPU: small ones of every kind, right against float64."""

import pytest
import torch
from checks import assert_right

from benchmarks.models import MODELS

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_small_models(name, dtype, monkeypatch):
    monkeypatch.setenv("INFERNO_ATTENTION", "1")
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]("small", dtype, torch.device("cuda"))
    compiled = assert_right(model, args, kwargs)
    generators = {row.generator for row in compiled.explain().rows}
    assert "library" not in generators and (not generators.isdisjoint(("attention", "short_attention"))) == (name != "resnet50" and HOPPER)
