"""The largest of a column and the exponentials below it as one reduction, on a GPU."""

import pytest
import torch
from checks import check, poison_memory
from exponential_cases import MODELS, PASSES, columns
from on_gpu import on_hopper
from universal_program import compile_universal

from inferno.schedule import assign
from inferno.target import find_target

TARGET = find_target("sm_90a")
pytestmark = on_hopper


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(600, 24), (1030, 33), (300000, 9), (4000, 4096)])
def test_right(name, dtype, shape):
    torch.manual_seed(0)
    model, x = MODELS[name], columns(*shape, dtype, "cuda")
    compiled = compile_universal(model, (x,), x.device, "sm_90a", lambda k: assign.choose(k, TARGET), passes=PASSES)
    poison_memory()
    found = check(compiled, model, (x,))
    assert found.right, str(found)
