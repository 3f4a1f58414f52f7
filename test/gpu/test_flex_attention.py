"""flex_attention as one kernel against float64, for score and mask functions of many kinds, captured both ways."""

import re

import pytest
import torch
from checks import assert_close_to_float64, assert_right
from flex_cases import CASES, operands
from on_gpu import on_hopper

from inferno.runtime.region.graphs import graphs_of

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]


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


@pytest.mark.parametrize("name, kernels", [("alibi", True), ("documents", False), ("windowed", True)])
def test_training(name, kernels):
    """Where gradients of scores are those of what is made of them, the backward is attention's gradient."""
    function, args = operands(name, 300, 64, device="cuda")

    def step(function, dtype):
        q, k, v = (a.detach().to(dtype).requires_grad_() for a in args[:3])
        found = function(q, k, v, *args[3:])
        result = found[0] if isinstance(found, tuple) else found
        (result * torch.linspace(-1, 1, result.numel(), dtype=dtype, device="cuda").view(result.shape)).sum().backward()
        return [result.detach(), q.grad, k.grad, v.grad]

    compiled = torch.compile(function, backend="inferno", fullgraph=True)
    for ours, plain, exact in zip(step(compiled, torch.bfloat16), step(function, torch.bfloat16), step(function, torch.float64)):
        assert (ours.double() - exact).norm() <= max(1.5 * (plain.double() - exact).norm(), torch.finfo(torch.bfloat16).eps * exact.norm())
    regions = [region for graph in graphs_of(compiled) for _, region in graph.regions]
    generators = [s for region in regions for p in region.programs for s in re.findall(r'generator = "(\w+)"', p.ir("scheduled"))]
    assert not any(region.fallbacks for region in regions) and "attention" in generators
    assert ("attention_gradients" in generators) == kernels
