"""Parts of the compiler that raise what is no error of ours: torch's own operations run in place of a graph, which is said once, or an error names the part."""

import importlib
import logging

import pytest
import torch
from checks import assert_close_to_float64
from training_checks import assert_trains_right, network

import inferno
from inferno.errors import CompileError
from inferno.faults import Fault
from inferno.runtime.region import backend, region

capture = importlib.import_module("inferno.capture.capture")  # the package has a function of this name

PASSES = {
    "functions": (backend, "join_attention"), "partition": (backend, "partition_training"), "graph": (backend, "join_products"),
    "pieces": (region, "partition"), "lowering": (capture, "normalise"), "build": (backend, "build_text"),
}


def fail(*args, **kwargs):
    return {}["nothing of this name"]


@pytest.fixture(autouse=True)
def anew():
    torch._dynamo.reset()
    inferno.stats(reset=True)


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.name.startswith("inferno") and r.levelno >= logging.WARNING]


@pytest.mark.covering
@pytest.mark.parametrize("name", PASSES)
def test_a_training_step(name, monkeypatch, caplog):
    monkeypatch.setattr(*PASSES[name], fail)
    model, x = network(), torch.randn(2, 3, 8, 8)
    compiled = torch.compile(model, backend="inferno")
    with caplog.at_level(logging.WARNING, logger="inferno"):
        assert_trains_right(compiled, model, x)
        assert_trains_right(compiled, model, x)
    (said,) = warnings_of(caplog)
    assert "KeyError: 'nothing of this name'" in said and ("(inferno/" in said or name == "build") and "torch's own" in said
    (fallback,) = inferno.explain(compiled).fallbacks
    assert "a graph of" in fallback and inferno.stats().kernels == 0


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", ["graph", "lowering"])
def test_a_step_under_way(name, monkeypatch, caplog):
    """The backward fails, of which a compiled forward has kept what it reads."""
    model, x = network(), torch.randn(2, 3, 8, 8)
    compiled = torch.compile(model, backend="inferno")

    def call(given):
        y = compiled(given)
        monkeypatch.setattr(*PASSES[name], fail)
        return y

    with caplog.at_level(logging.WARNING, logger="inferno"):
        assert_trains_right(call, model, x)
        assert_trains_right(compiled, model, x)
    assert len([s for s in warnings_of(caplog) if "a graph of" in s]) == 1
    (fallback,) = inferno.explain(compiled).fallbacks
    assert "KeyError: 'nothing of this name'" in fallback


def test_the_sizes_of_a_call(monkeypatch):
    """A graph that does not compile for every size, and on which a pass fails for those of a call."""
    def build_text(text, **kwargs):
        raise CompileError("kernel @x for cpu: it broke") if "?" in text else AssertionError("reached")

    monkeypatch.setattr(backend, "build_text", build_text)
    monkeypatch.setattr(backend, "specialise", fail)
    function = lambda x: (x * 2).softmax(-1)  # noqa: E731
    compiled = torch.compile(function, backend="inferno", dynamic=True)
    for size in (5, 6):
        x = torch.randn(3, size)
        assert_close_to_float64(compiled(x), function, (x,))
    assert any("KeyError" in f for f in inferno.explain(compiled).fallbacks)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", ["graph", "pieces", "lowering"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_without_fallback(name, dynamic, monkeypatch):
    monkeypatch.setattr(*PASSES[name], fail)
    compiled = torch.compile(network().eval(), backend="inferno", dynamic=dynamic, options={"fallback": False})
    with pytest.raises(Exception, match=r"failed in .*\(inferno/.*: KeyError: 'nothing of this name'") as caught:
        compiled(torch.randn(2, 3, 8, 8))
    assert isinstance(caught.value.__cause__ or caught.value.inner_exception, Fault)


OF_A_MODEL = {
    "capture": (capture, "join_products"), "results": (capture, "outputs_as_eager"), "lowering": (capture, "normalise"), "arguments": (capture, "as_module"),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", OF_A_MODEL)
def test_a_compiled_model(name, monkeypatch):
    """Where nothing may run in eager the error names the part, and the exception."""
    model, x = network().eval(), torch.randn(2, 3, 8, 8)
    monkeypatch.setattr(*OF_A_MODEL[name], fail)
    with pytest.raises(CompileError, match=r"failed in \w+ \(inferno/capture/capture.py:\d+\): KeyError: 'nothing of this name'"):
        inferno.compile(model, (x,), fallback=False)
    if name != "arguments":
        assert_close_to_float64(inferno.compile(model, (x,))(x), model, (x,))


def test_pieces_of_a_compiled_model(monkeypatch, caplog):
    monkeypatch.setattr(region, "partition", fail)
    function, x = lambda x: torch.fft.fft(x.softmax(-1)).abs().exp(), torch.randn(3, 6)
    with caplog.at_level(logging.WARNING, logger="inferno"):
        compiled = inferno.compile(function, (x,))
    assert_close_to_float64(compiled(x), function, (x,))
    (said,) = warnings_of(caplog)
    assert "KeyError" in said and "the model itself runs in its place" in said


def test_an_operation_that_a_pass_fails_on_is_left_out(monkeypatch, caplog):
    """Of a graph's many, the rest is compiled."""
    plain = capture.normalise

    def normalise(graph):
        return fail() if any(n.target is torch.ops.aten.erf.default for n in graph.nodes) else plain(graph)

    monkeypatch.setattr(capture, "normalise", normalise)

    def function(x):
        y = x
        for _ in range(25):
            y = torch.tanh(y * x) + x
        return torch.erf(y)

    x = torch.randn(6, 6)
    with caplog.at_level(logging.WARNING, logger="inferno"):
        compiled = torch.compile(function, backend="inferno")
        assert_close_to_float64(compiled(x), function, (x,))
    (said,) = warnings_of(caplog)
    assert "lowering a graph failed in fail" not in said and "lowering a graph failed" in said
    report = inferno.explain(compiled)
    assert report.rows and ["KeyError" in f for f in report.fallbacks] == [True]
