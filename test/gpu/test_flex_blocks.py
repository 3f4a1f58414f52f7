"""flex_attention by the lists of its block mask against float64, where lists and mask say the same and where they do not."""

import re

import pytest
import torch
from flex_block_cases import cases
from on_gpu import on_hopper

import inferno
from inferno.runtime.region.graphs import graphs_of

pytestmark = on_hopper


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("name, width, dtype", [
    *((name, *of) for name in cases() for of in ((128, torch.bfloat16), (64, torch.float16))),
    *(("by hand, ragged", width, torch.bfloat16) for width in (80, 96, 192, 256)),
])
def test_lists(name, width, dtype):
    case = cases(width, dtype, "cuda")[name]()
    compiled = inferno.compile(case, case.args, fallback=False)
    found, exact = compiled(*case.args), case.exact()
    found = found if isinstance(found, tuple) else (found,)
    assert (found[0].double() - exact[0]).norm() <= 4 * torch.finfo(dtype).eps * exact[0].norm()
    if len(found) > 1:
        assert torch.allclose(found[1].double(), exact[1], rtol=1e-5, atol=1e-5)
    for _ in range(3):
        again = compiled(*case.args)
        assert torch.equal(again[0] if isinstance(again, tuple) else again, found[0])
    assert "_lists" in compiled.ir("ptx")


def test_float32(monkeypatch):
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    case = cases(64, torch.float32, "cuda")["by hand, ragged"]()
    compiled = inferno.compile(case, case.args, fallback=False)
    found, exact = compiled(*case.args), case.exact()[0]
    assert (found.double() - exact).norm() <= 1e-6 * exact.norm() and "_lists" in compiled.ir("ptx")


def test_torch_compile():
    case = cases(device="cuda")["by hand"]()
    compiled = torch.compile(case, backend="inferno", fullgraph=True, options={"fallback": False})
    with torch.no_grad():
        found, exact = compiled(*case.args), case.exact()[0]
    assert (found.double() - exact).norm() <= 4 * torch.finfo(torch.bfloat16).eps * exact.norm()


@pytest.mark.parametrize("name, width", [("by hand", 128), ("by hand, ragged", 64), ("by hand, smaller", 128), ("causal documents", 64), ("window", 128)])
def test_training(name, width, monkeypatch):
    """The backward sees what the forward sees; its kernels walk lists where asked for."""
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    case = cases(width, device="cuda")[name]()
    given, gradient = case.args, torch.randn_like(case.args[0])
    case.args = wide = [t.double().requires_grad_() for t in given]
    exact = case.exact()[0]
    exact.backward(gradient.double())
    own = [t.clone().requires_grad_() for t in given]
    compiled = torch.compile(case, backend="inferno", fullgraph=True)
    found = compiled(*own)
    found.backward(gradient)
    for ours, one in zip((found, *(t.grad for t in own)), (exact, *(t.grad.nan_to_num() for t in wide))):
        assert (ours.double() - one).norm() <= 5e-3 * one.norm()
    regions = [region for graph in graphs_of(compiled) for _, region in graph.regions]
    texts = [p.ir("ptx") for region in regions for p in region.programs]
    if name != "by hand, ragged":  # of which the gradients' description does not hold the last, smaller block
        assert any(re.search(r"attention_gradient\w*_lists", text) for text in texts) and not any(region.fallbacks for region in regions)
