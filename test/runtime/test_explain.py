"""``explain()``: what runs in eager, why, on which line, and which share of a call each piece takes; measured without a trace."""

import time

import pytest
import torch
from torch import nn

import inferno
from inferno.runtime.region.dynamo import DynamoModule


@torch.library.custom_op("inferno_test::slow", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.02)
    return x + 1


@slow.register_fake
def _(x):
    return torch.empty_like(x)


def double(x):
    return torch.relu(x @ x.t()) * 2 + 1


class Counts(nn.Module):
    """Writes to buffers and to an argument, draws random numbers, and has slow eager operations between segments."""

    def __init__(self, breaks: bool):
        super().__init__()
        self.breaks, self.norm = breaks, nn.BatchNorm1d(6)

    def forward(self, x, cache):
        y = double(self.norm(x))
        cache.add_(y)
        for _ in range(2):
            y = double(torch.ops.inferno_test.slow(y) / 100)
        if self.breaks and y.sum() > -1:
            y = y * 3
        return double(y) + torch.rand(6, 6)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("way", ["pieces", "dynamo", "torch.compile"])
def test_shares_of_a_call_that_leaves_no_trace(way):
    module, x, cache = Counts(way == "dynamo"), torch.randn(6, 6), torch.zeros(6, 6)
    compiled = torch.compile(module, backend="inferno") if way == "torch.compile" else inferno.compile(module, (x, cache))
    assert isinstance(compiled, DynamoModule) == (way == "dynamo")
    random, versions = torch.get_rng_state(), [t._version for t in (cache, *module.buffers())]
    with torch.no_grad():
        report = inferno.explain(compiled, x, cache)
    assert not cache.any() and module.norm.num_batches_tracked == 0 and not module.norm.running_mean.any()
    assert torch.equal(torch.get_rng_state(), random) and [t._version for t in (cache, *module.buffers())] == versions

    pieces = {p.name: p for p in report.pieces}
    waits = pieces["inferno_test.slow.default"]
    assert waits.calls == 2 and waits.line.startswith("test_explain.py:") and waits.reason == "it is a custom operation"
    assert 0.04 <= waits.seconds <= report.call and waits.seconds > 0.5 * report.call
    assert "aten.rand.default" in pieces and sum(p.calls for p in report.pieces if p.name.startswith("segment")) == report.segments >= 2
    assert all(p.seconds > 0 for p in report.pieces) and sum(p.seconds for p in report.pieces) == pytest.approx(report.call)
    text = str(report)
    assert f"{waits.seconds / report.call:.1%}" in text and "of it in eager operations" in text

    # What was timed is what runs otherwise, without the marks.
    torch.manual_seed(1)
    with torch.no_grad():
        ours = compiled(x, cache)
        torch.manual_seed(1)
        torch.testing.assert_close(ours, Counts(way == "dynamo")(x, torch.zeros(6, 6)), rtol=1e-5, atol=1e-5)
    assert module.norm.num_batches_tracked == 1 and cache.any()


def test_a_call_that_fails_leaves_no_marks():
    @torch.library.custom_op("inferno_test::refuses", mutates_args=())
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 100:
            raise ValueError("too much")
        return x + 1

    refuses.register_fake(lambda x: torch.empty_like(x))
    compiled = inferno.compile(lambda x: double(torch.ops.inferno_test.refuses(double(x))), (torch.zeros(3, 3),))
    before = compiled.region.run.__code__
    assert compiled.explain(torch.zeros(3, 3)).call > 0
    with pytest.raises(ValueError, match="too much"):
        compiled.explain(torch.full((3, 3), 9.0))
    assert compiled.region.run.__code__ is before and "mark" not in compiled.region.run.__globals__


def test_a_whole_program_is_one_piece():
    x = torch.randn(4, 4)
    compiled = inferno.compile(double, (x,))
    assert compiled.explain().call is None and "a call takes" not in str(compiled.explain())
    report = compiled.explain(x)
    assert report.call > 0 and not report.pieces and "a call takes" in str(report)


def helper(layer, x):
    y = torch.relu(layer(x))
    torch._dynamo.graph_break()
    return y * 2


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.sigmoid(helper(self.layer, x))


def operations(report) -> set[str]:
    return {source.split(" ")[0] for row in report.rows for source in row.fuses}


def test_what_lies_between_kernels():
    def function(x, w):
        return torch.softmax(x @ w, -1).cumsum(0)

    compiled = inferno.compile(function, (torch.randn(1024, 64), torch.randn(64, 512)), target="sm_90a")
    report = compiled.explain()
    (product, _), (rows, _), *_ = [(r.kernel, r.calls) for r in report.rows]
    between = {(b.made_by, b.calls, b.bytes): b.reason for b in report.boundaries}
    assert between[product, 1, 1024 * 512 * 4] == "a row of it is in several tiles"
    assert between[rows, 1, 1024 * 512 * 4].endswith("reads its operands from memory")
    assert "why they are not one kernel" in str(report)
    one = inferno.compile(lambda x, w: torch.relu(x @ w), (torch.randn(64, 64), torch.randn(64, 64)), target="sm_90a").explain()
    assert one.boundaries == () and "why they are not one kernel" not in str(one)


def test_graphs_of_functions_behind_a_graph_break():
    x = torch.randn(3, 4)
    first, other = torch.compile(Broken(), backend="inferno"), torch.compile(lambda x: torch.tanh(x) + 1, backend="inferno")
    with torch.no_grad():
        first(x), other(x)
        assert {"relu", "sigmoid"} <= operations(inferno.explain(first)) and "tanh" not in operations(inferno.explain(first))
        assert "sigmoid" not in operations(inferno.explain(other))
        # A second model runs what was compiled for the first.
        second = torch.compile(Broken(), backend="inferno")
        assert {"relu", "sigmoid"} <= operations(inferno.explain(second, x))


def test_modules_of_which_parts_are_compiled():
    x = torch.randn(3, 4)
    model = nn.Sequential(Broken(), nn.Linear(4, 4), nn.Tanh())
    model[0].compile(backend="inferno")
    model[2] = torch.compile(model[2], backend="inferno")
    with pytest.raises(inferno.InputError, match="compiled nothing"):
        inferno.explain(model)
    with torch.no_grad():
        model(x)
        assert len(inferno.explain(model).notes) == 4 and len(inferno.explain(model[0]).notes) == 3
        assert inferno.explain(model, x).call > 0


def test_layers_that_share_a_graph():
    model, x = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))), torch.randn(3, 4)
    layer = torch.compile(lambda layer, x: layer(x), backend="inferno")

    def call(x):
        for part in model:
            x = layer(part, x)
        return x

    with torch.no_grad():
        call(x)
        report = inferno.explain(call, x)
    assert sum(p.calls for p in report.pieces) == 3 and all(p.seconds > 0 for p in report.pieces)


def test_a_model_in_several_graphs_compiles_its_example_when_it_is_asked_for():
    def f(x, seen):
        seen.add_(1)
        y = torch.relu(x) + 1
        return torch.sigmoid(y) if y.sum() > 0 else y

    x, seen = torch.randn(4, 4), torch.zeros(())
    compiled = inferno.compile(f, (x, seen))
    assert "math.exp" in compiled.ir("fused") and seen == 0
    assert len(compiled.regions) == 2 and compiled.explain().segments == 2
    assert len(inferno.explain(torch.compile(lambda x: torch.tanh(x), backend="inferno"), x).notes) == 1  # and none of its graphs
    elsewhere = inferno.compile(f, (x, seen), target="sm_90a")
    assert ".visible .entry" in elsewhere.ir("ptx") and elsewhere.explain().target == "sm_90a" and seen == 0
    with pytest.raises(inferno.LaunchError):
        elsewhere.explain(x, seen)


def test_the_grid_is_that_of_the_kernel_whose_flags_are_lowered():
    args = torch.empty(2048, 11008, dtype=torch.bfloat16), torch.empty(512, 11008, dtype=torch.bfloat16)
    report = inferno.compile(nn.functional.linear, args, target="sm_90a").explain()
    (row,) = report.rows
    assert "parts=2" in row.schedule and row.grid == (128, 1, 1) and row.shared > 2**17 and "2 launches" in str(report)
