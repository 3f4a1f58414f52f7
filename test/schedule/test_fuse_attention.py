"""Models of transformers have their attention in one kernel each, with a schedule for Hopper's tensor cores."""

import re

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.zoo import ZOO

from inferno.capture import capture
from inferno.runtime.workers import jobs

# Layers with attention, and kernels that there are of it.
MODELS = {"bert": (2, 1), "gpt2": (2, 1), "llama-padded": (2, 1), "gemma2": (2, 2), "t5": (6, 3), "clip": (4, 2)}


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model, args, kwargs = ZOO[name]()
    halves = {key: v.bfloat16() if v.is_floating_point() else v for key, v in kwargs.items() if isinstance(v, torch.Tensor)}
    linalg, _ = jobs.lower_to_linalg(capture(model.bfloat16(), args, {**kwargs, **halves}).text)
    text = jobs.fuse(linalg, "sm_90a", features=["attention"]).stages["scheduled"]
    main, kernels = text.split("func.func private", 1)
    assert (len(re.findall(r"call @attention\w*\(", main)), kernels.count('generator = "attention"')) == MODELS[name]
    assert "reduce_maximumf" not in main
    if name == "bert":
        assert 'generator = "attention"' not in jobs.fuse(linalg, "sm_90a").stages["scheduled"]
