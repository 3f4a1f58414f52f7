"""flex_attention as one kernel against float64, for score and mask functions of many kinds, captured both ways."""

import pytest
import torch
from checks import assert_close_to_float64, assert_right
from flex_cases import CASES, operands

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU")


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    torch._dynamo.reset()


@pytest.mark.parametrize("length, size, dtype", [(300, 64, torch.bfloat16), (512, 128, torch.float16)])
@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name, length, size, dtype):
    function, args = operands(name, length, size, dtype, device="cuda")
    compiled = assert_right(function, args)
    text = compiled.ir("scheduled")
    assert text.count('generator = "attention"') == 1 and text.count("call @") == 1


@pytest.mark.parametrize("name", ["relative", "documents"])
def test_torch_compile(name):
    function, args = operands(name, 200, 64, torch.float32 if name == "relative" else torch.bfloat16, device="cuda")
    compiled = torch.compile(function, backend="inferno", fullgraph=True, options={"fallback": False})
    with torch.no_grad():
        assert_close_to_float64(compiled(*args), function, args)
