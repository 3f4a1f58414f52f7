"""Small models of every kind on the cpu target, right against float64."""

import pytest
import torch
from checks import assert_right

from benchmarks.models import MODELS


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", MODELS)
def test_small_models(name):
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]("small", torch.float32, torch.device("cpu"))
    assert_right(model, args, kwargs)
