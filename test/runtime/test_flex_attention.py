"""flex_attention is compiled: on the CPU, through both ways of capture, and as one kernel for Hopper."""

import re

import pytest
import torch
from checks import assert_close_to_float64
from flex_block_cases import by_hand, causal, tensors
from flex_cases import CASES, operands
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention

import inferno
from inferno.capture import capture
from inferno.capture import flex_attention as flex
from inferno.capture.replace_operation import place_numbers
from inferno.capture.refusal import refusals
from inferno.errors import CompileError
from inferno.runtime.region import backend
from inferno.runtime.workers import jobs


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", ["documents", "alibi"])
def test_one_kernel(name):
    text = scheduled(*operands(name, 128, 64))
    main, rest = text.split("func.func private", 1)
    assert re.findall(r"call @(\w+)", main) == ["attention"] and 'generator = "attention"' in rest


def scheduled(function, args) -> str:
    linalg, _ = jobs.lower_to_linalg(capture(function, args).text)
    return jobs.fuse(linalg, "sm_90a", features=["attention", "unmeasured"]).stages["scheduled"]


@pytest.mark.thorough
def test_a_bias_that_is_read_by_numbers_is_made_first():
    """What is not known to be a sum of numbers of query and key is an element of a tensor that another kernel makes."""
    def bucketed(q, k, v, table, buckets):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + table[buckets[i, j], h])

    _, args = operands("plain", 64, 64)
    made = re.findall(r"call @(\w+)", scheduled(bucketed, (*args, torch.randn(8, 4), torch.randint(0, 8, (64, 64)))).split("func.func private")[0])
    assert len(made) == 2 and "attention" in made


@pytest.mark.thorough
def test_torch_compile():
    """Of lengths that vary, for each."""
    compiled = torch.compile(CASES["documents"], backend="inferno", fullgraph=True, options={"fallback": False})
    for length in (24, 40):
        function, args = operands("documents", length, 16, torch.float32)
        assert_close_to_float64(compiled(*args), function, args)


def test_training(monkeypatch):
    """Through the gradients of results and logarithms, with a row that sees nothing; torch has its own on the CPU, too, though it does not say so."""
    monkeypatch.setattr(torch.nn.attention.flex_attention, "_validate_device", lambda *_: None)
    function, args = operands("documents", 24, 16, torch.float32)
    built = []
    monkeypatch.setattr(backend, "build_region", lambda *a, build=backend.build_region, **more: built.append(build(*a, **more)) or built[-1])

    def step(function, dtype):
        q, k, v = (a.detach().to(dtype).requires_grad_() for a in args[:3])
        result, logarithms = function(q, k, v, *args[3:])
        weights = torch.linspace(-1, 1, result.numel(), dtype=dtype).view(result.shape)
        ((result * weights).sum() + (logarithms[:, :, 1:] * weights[:, :, 1:, 0]).sum()).backward()
        return q.grad, k.grad, v.grad

    for ours, exact in zip(step(torch.compile(function, backend="inferno", fullgraph=True), torch.float32), step(function, torch.float64)):
        assert (ours.double() - exact).norm() <= 1e-6 * exact.norm()
    assert len(built) == 2, built
    assert [str(f) for region in built for f in region.fallbacks] == []


@pytest.mark.thorough
def test_what_is_not_understood_runs_in_eager(monkeypatch):
    def refuse(*_):
        raise CompileError("it is not understood")

    monkeypatch.setitem(flex.OPERATIONS, torch.ops.higher_order.flex_attention, refuse)
    function, args = operands("relative", 24, 16)
    compiled = torch.compile(function, backend="inferno")
    assert_close_to_float64(compiled(*args), function, args)


def test_numbers_that_vmap_makes_on_the_host():
    """As torch 2.11 does: they, and what is computed of them alone, are where all else is."""
    def function(x):
        return torch.where(x > 0, x, torch.ops.prims.convert_element_type(torch.ops.aten.scalar_tensor(-1, dtype=torch.float64), torch.float32))

    with FakeTensorMode():
        graph = make_fx(function)(torch.empty(3, device="cuda")).graph
        place_numbers(graph, torch.device("cuda", 0))
    assert {n.meta["val"].device for n in graph.nodes if n.op == "call_function"} == {torch.device("cuda", 0)}
    assert not refusals(graph, torch.device("cuda", 0))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("size", [64, 192])
def test_blocks_that_are_not_listed_are_not_seen(size):
    """Nor is anything hidden in those that are listed as full; of a single block only the mask's function counts, as in eager."""
    case = by_hand(causal, tensors(1, 2, 1, 130, 140, 16), 1, 2, (size, size))
    found = inferno.compile(case, case.args, fallback=False)(*case.args)
    if size == 64:
        exact = case.exact()[0]
        assert (found.double() - exact).norm() <= 4e-3 * exact.norm() < (case(*case.args).double() - exact).norm()
    else:
        assert_close_to_float64(found, case, case.args)
