"""Graphs on which the compiler fails: torch's own operations run in their place, forward and backward."""

import copy
import logging

import pytest
import torch
import torch.nn.functional as F
from checks import assert_close_to_float64
from training_checks import assert_trains_right, network, step

import inferno
from inferno.errors import CompileError, InputError, PackageError
from inferno.runtime import build
from inferno.runtime.region.eager import EagerModule
from inferno.runtime.region.region import GraphFailed
from inferno.runtime.workers.pool import Pool, Worker, WorkerDied

DECOMPOSED = {"aten::rsqrt", "aten::mul", "aten::sub", "aten::le"}


@pytest.fixture(autouse=True)
def anew():
    torch._dynamo.reset()
    inferno.stats(reset=True)


def _is_large(name, arguments, operations):
    return name == "fuse" and arguments["text"].count("linalg.generic") > operations


@pytest.fixture
def killed(monkeypatch):
    """The process that fuses a program of more than four operations at the ``linalg`` stage is killed."""
    plain = Worker.run

    def run(self, label, name, arguments):
        if _is_large(name, arguments, 4):
            self._process.kill()
        return plain(self, label, name, arguments)

    monkeypatch.setattr(Worker, "run", run)


@pytest.fixture
def doomed(monkeypatch):
    """What is added to this list says of which programs, by their number of operations, the process that fuses them ends.  It is only said to: the next
    takes longer to start than all else."""
    limits, plain = [4], Pool._run

    def run(self, label, name, arguments):
        if not _is_large(name, arguments, limits[-1]):
            return plain(self, label, name, arguments)
        died = WorkerDied(f"{label}: the compiler process died (signal 9). Its last words: none")
        died.lasting = False
        raise died

    monkeypatch.setattr(Pool, "_run", run)
    return limits


def operators(call):
    """What of torch runs in a call."""
    with torch.profiler.profile() as profile:
        call()
    return {e.name for e in profile.events() if e.name.startswith("aten::")}


def test_a_training_step_whose_forward_fails(killed, caplog):
    model, x = network(), torch.randn(2, 3, 8, 8)
    compiled = torch.compile(model, backend="inferno")
    with caplog.at_level(logging.WARNING, logger="inferno"):
        assert_trains_right(compiled, model, x)
    said = [r.getMessage() for r in caplog.records if "a graph of" in r.getMessage()]
    assert len(said) == 1 and "the compiler process died (signal 9)" in said[0] and "torch's own" in said[0]
    assert_trains_right(compiled, model, x)
    ran = operators(lambda: compiled(x.clone().requires_grad_()).sum().backward())
    assert {"aten::native_batch_norm", "aten::native_batch_norm_backward", "aten::convolution_backward"} <= ran and not DECOMPOSED & ran
    (fallback,) = inferno.explain(compiled).fallbacks
    assert "a graph of" in fallback and "the compiler process died" in fallback
    assert inferno.stats().fallbacks == 1 and inferno.stats().kernels == 0
    report = inferno.explain(compiled, x)
    assert [p.name.startswith("a graph of") for p in report.pieces if p.reason] == [True] and report.call > 0


@pytest.mark.thorough
def test_a_training_step_whose_backward_fails(doomed):
    """The step under way is computed from what a compiled forward has kept; those that follow are torch's."""
    model, x = network(), torch.randn(2, 3, 8, 8)
    compiled = torch.compile(model, backend="inferno")
    doomed.append(10**6)
    y = compiled(x.clone().requires_grad_())
    assert inferno.stats().kernels
    doomed.append(1)
    y.sum().backward()
    assert_trains_right(compiled, model, x)
    ran = operators(lambda: compiled(x.clone().requires_grad_()).sum().backward())
    assert {"aten::native_batch_norm", "aten::native_batch_norm_backward"} <= ran and not DECOMPOSED & ran
    (fallback,) = inferno.explain(compiled).fallbacks
    assert "a graph of" in fallback


def test_the_step_under_way_when_a_backward_fails(doomed):
    model, x = network(), torch.randn(2, 3, 8, 8)
    compiled = torch.compile(model, backend="inferno")
    doomed.append(10**6)

    def call(given):
        y = compiled(given)
        doomed.append(1)
        return y

    assert_trains_right(call, model, x)
    assert "the compiler process died" in inferno.explain(compiled).fallbacks[0]


@pytest.mark.thorough
def test_what_a_function_writes_and_draws(doomed):
    def function(x, y):
        part = x[1:]
        part.mul_(2).add_(y)
        dropped = F.dropout(F.layer_norm(x, (6,)).softmax(-1), 0.5)
        return part, dropped * F.gelu(y), x.t()

    found = []
    for call in (torch.compile(function, backend="inferno"), function):
        torch.manual_seed(3)
        x, y = torch.linspace(-1, 1, 30).view(5, 6), torch.linspace(0, 3, 6)
        for _ in range(2):
            results = call(x, y)
        assert results[0]._base is x or results[0].data_ptr() == x[1:].data_ptr()
        found.append([x, *results])
    for ours, eager in zip(*found):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0, check_stride=True)
    assert "a graph of" in inferno.explain(torch.compile(function, backend="inferno")).fallbacks[0]


def test_what_was_put_in_the_place_of_functions_is_not_what_runs(doomed):
    """In graphs that an operation calls, too."""
    def attend(x):
        q = F.layer_norm(x, (8,)).unsqueeze(1)
        return F.gelu(F.scaled_dot_product_attention(q, q, q) * 2).softmax(-1).squeeze(1).clone()

    def function(x):
        return torch.cond(x.sum() > 0, attend, lambda v: (v * 2).clone(), (x,)) + attend(x)

    compiled, x = torch.compile(function, backend="inferno"), torch.rand(2, 6, 8)
    assert_close_to_float64(compiled(x), function, (x,))
    assert_close_to_float64(compiled(-x), function, (-x,))
    assert "aten::scaled_dot_product_attention" in operators(lambda: compiled(x))
    (fallback,) = inferno.explain(compiled).fallbacks
    assert "a graph of" in fallback


@pytest.mark.thorough
def test_sizes_that_vary(doomed):
    """Compiled for no size, so eager's for all that come."""
    model = network()
    compiled = torch.compile(model, backend="inferno", dynamic=True)
    x = torch.randn(2, 3, 8, 8)
    for ours, eager in zip(step(compiled, model, x), step(same := network(), same, x)):  # each operation by itself
        torch.testing.assert_close(ours, eager)
    for size in (9, 10):
        assert_trains_right(compiled, model, torch.randn(2, 3, size, size))
    ran = operators(lambda: compiled(torch.randn(2, 3, 9, 9, requires_grad=True)).sum().backward())
    assert {"aten::native_batch_norm", "aten::native_batch_norm_backward"} <= ran and not DECOMPOSED & ran


def test_a_small_part_that_fails_leaves_the_rest_compiled(monkeypatch):
    """Of eighty operations two."""
    plain = build.build_from

    def build_from(stage, text, *args, **kwargs):
        if "torch.aten.erf" in text and "torch.aten.sin " in text:
            raise CompileError("kernel @x for cpu: it broke")
        return plain(stage, text, *args, **kwargs)

    monkeypatch.setattr(build, "build_from", build_from)

    def function(x):
        y = x
        for _ in range(25):
            y = torch.tanh(y * x) + x
        return torch.fft.fft(torch.erf(torch.sin(torch.fft.fft(y).real))).real + y

    compiled, x = torch.compile(function, backend="inferno"), torch.randn(6, 6)
    assert_close_to_float64(compiled(x), function, (x,))
    report = inferno.explain(compiled)
    assert report.rows and sum("it broke" in f for f in report.fallbacks) == 2


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("training", [False, True])
def test_a_compiled_model(doomed, training, caplog):
    model, x = network().train(training), torch.randn(2, 3, 8, 8)
    doomed.append(3)
    compiled, same = inferno.compile(model, (x,)), copy.deepcopy(model)
    assert isinstance(compiled, EagerModule)
    assert_close_to_float64(compiled(x), copy.deepcopy(model) if training else model, (x,))
    assert not compiled(x).requires_grad
    same(x), same(x)
    for ours, eager in zip(model.buffers(), same.buffers()):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    ran = operators(lambda: compiled(x))
    assert "aten::native_batch_norm" in ran and not DECOMPOSED & ran
    assert "a graph of" in str(compiled.explain()) and "the compiler process died" in compiled.explain().fallbacks[0]
    assert compiled.explain(x).call > 0 and inferno.stats().fallbacks == 1
    with pytest.raises(InputError, match=r"argument \w+: expected \(2, 3, 8, 8\) torch.float32 on cpu, got \(2, 3, 9, 9\)"):
        compiled(torch.randn(2, 3, 9, 9))
    with pytest.raises(InputError, match="needs no gradient"):
        compiled(x.clone().requires_grad_())
    with pytest.raises(PackageError, match="the compiler process died"):
        compiled.save("unwritten.inferno")
    twin = copy.deepcopy(compiled)
    with torch.no_grad():
        twin.get_parameter("1.weight").fill_(0)
    assert not twin(x).any() and compiled(x).any()
    with pytest.raises(CompileError, match="the compiler process died") as caught:
        inferno.compile(model, (x,), fallback=False)
    assert not isinstance(caught.value, GraphFailed)


@pytest.mark.thorough
def test_an_exported_program(doomed):
    model, x = network().eval(), torch.randn(2, 3, 8, 8)
    doomed.append(3)
    compiled = inferno.compile(torch.export.export(model, (x,)), (x,))
    assert isinstance(compiled, EagerModule)
    assert_close_to_float64(compiled(x), model, (x,))


@pytest.mark.thorough
def test_a_model_within_autocast(doomed):
    """As the caller has it: the model is not compiled again."""
    model, x = network().eval(), torch.randn(2, 3, 8, 8)
    doomed.append(3)
    compiled = inferno.compile(model, (x,))
    with torch.autocast("cpu", torch.bfloat16):
        ours, eager = compiled(x), model(x)
    torch.testing.assert_close(ours, eager, rtol=0, atol=0)
