"""What a captured program's arguments, results and locations are."""

import logging
import operator
import sys
from collections import namedtuple

import pytest
import sympy
import torch
from checks import assert_right
from processes import of_its_own
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy.functions import OpaqueUnaryFn_sqrt, ToFloat

import inferno
from inferno.capture import capture
from inferno.capture.capture import export_model
from inferno.capture.symbols import SymbolTable
from inferno.errors import CaptureError, InputError, UnsupportedOperation
from inferno.mlir import ir, idle_context, walk
from inferno.passes.locations import describe
from inferno.passes.manager import run_pipeline


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.plain = torch.randn(4)
        self.register_buffer("kept", torch.randn(4))
        self.register_buffer("dropped", torch.randn(4), persistent=False)

    def forward(self, x, *, scale=None):
        y = torch.relu(self.linear(x)) + self.kept + self.dropped + self.plain
        return y if scale is None else y * scale


def named(captured):
    return {a.name: a for a in captured.signature.arguments}


def linalg(captured):
    module = ir.Module.parse(captured.text, idle_context())
    run_pipeline(module, "inferno-import")
    return module


def test_every_tensor_that_a_model_holds_is_an_argument():
    arguments = named(capture(Net(), (torch.randn(3, 4),)))
    assert {name: a.kind for name, a in arguments.items()} == {
        "linear.weight": "parameter", "linear.bias": "parameter", "kept": "buffer", "dropped": "buffer", "plain": "constant", "x": "input",
    }
    assert arguments["x"].shape == (3, 4) and arguments["x"].dtype == torch.float32


def test_what_is_assigned_to_the_model_is_seen():
    net = Net()
    arguments = named(capture(net, (torch.randn(3, 4),)))
    net.linear.weight = nn.Parameter(torch.zeros(4, 4))
    net.kept, net.dropped, net.plain = torch.ones(4), torch.ones(4), torch.ones(4)
    for name, expected in {"linear.weight": net.linear.weight, "kept": net.kept, "dropped": net.dropped, "plain": net.plain}.items():
        assert arguments[name].table[arguments[name].key] is expected


def test_tensors_that_a_function_closes_over_are_named():
    w, p = torch.randn(4, 4), nn.Parameter(torch.randn(4))
    arguments = named(capture(lambda x: x @ w + p, (torch.randn(3, 4),)))
    assert set(arguments) == {"w", "p", "x"}
    assert arguments["w"].table["w"] is w and arguments["p"].table["p"] is p


def test_literals_are_arguments():
    captured = capture(lambda x: x + torch.tensor([1.0, 2.0]), (torch.randn(2),))
    constant, = (a for a in captured.signature.arguments if a.kind == "constant")
    assert constant.table[constant.key].tolist() == [1, 2]
    assert "dense<" not in captured.text


def test_names_of_inputs():
    def f(x, batch, *rest, **named):
        return x + batch["ids"] + batch["more"][0] + rest[0] + rest[1][0] + named["z"]

    t = torch.randn(2)
    signature = capture(f, (t, {"ids": t, "more": [t]}, t, (t,)), {"z": t}).signature
    assert [a.name for a in signature.arguments] == ["x", "batch['ids']", "batch['more'][0]", "rest[0]", "rest[1][0]", "z"]


def test_text_holds_names_and_lines_and_parses_back():
    captured = capture(Net(), (torch.randn(3, 4),))
    module = ir.Module.parse(captured.text, idle_context())
    assert 'inferno.kind = "parameter", inferno.name = "linear.weight"' in captured.text
    relu, = walk(module.operation, "torch.aten.relu")
    assert describe(relu.location)[0].startswith("relu (test_capture.py:")


def test_locations_reach_linalg():
    captured = capture(lambda x: nn.functional.layer_norm(x, (8,)) @ x.t(), (torch.randn(4, 8),))
    module = linalg(captured)
    said = {text for op in walk(module.operation) if op.name.startswith("linalg.") for text in describe(op.location)}
    line = test_locations_reach_linalg.__code__.co_firstlineno + 1
    assert f"layer_norm (test_capture.py:{line})" in said and f"matmul (test_capture.py:{line})" in said


def test_mutations_are_results():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("store", torch.zeros(8, 4))

        def forward(self, x, at):
            self.store.index_copy_(0, at, x)
            x.mul_(2)
            return self.store.sum()

    signature = capture(Cache(), (torch.randn(2, 4), torch.tensor([1, 3]))).signature
    kinds = {(r.kind, signature.arguments[r.target].name if r.kind == "mutation" else "") for r in signature.results}
    assert kinds == {("mutation", "store"), ("mutation", "x"), ("output", "")}


Pair = namedtuple("Pair", "first second")


def test_outputs_of_any_nesting_are_built():
    signature = capture(lambda x: {"a": Pair(x * 2, None), "b": [1, "s", (x + 1,)]}, (torch.ones(2),)).signature
    two, one = torch.tensor(2.0), torch.tensor(1.0)
    assert signature.build_output([two, one]) == {"a": Pair(two, None), "b": [1, "s", (one,)]}


def test_values_that_are_no_tensors_are_fixed():
    signature = capture(lambda x, n, flag: x * n if flag else x, (torch.ones(2), 3, True)).signature
    x = torch.ones(2)
    assert signature.arguments_of((x, 3, True), {})[0] is x
    with pytest.raises(InputError, match="argument n: expected 3, .* got 4"):
        signature.arguments_of((x, 4, True), {})
    with pytest.raises(InputError, match="argument flag: expected True, .* got 1"):
        signature.arguments_of((x, 3, 1), {})
    with pytest.raises(InputError, match=r"nested differently from the example's: expected x, n, flag, got x\[0\], n, flag; pass them"):
        signature.arguments_of(([x], 3, True), {})


def test_other_keys_and_containers_are_named():
    x = torch.ones(2)
    of_keys = capture(lambda batch: batch["a"] + 1, ({"a": x},)).signature
    with pytest.raises(InputError, match=r"expected batch\['a'\], got batch\['b'\]; pass"):
        of_keys.arguments_of(({"b": x},), {})
    of_lists = capture(lambda pair: pair[0] + pair[1], ((x, x.clone()),)).signature
    with pytest.raises(InputError, match=r"expected pair\[0\], pair\[1\], got pair\[0\], pair\[1\] in containers of other types"):
        of_lists.arguments_of(([x, x],), {})


def test_capturing_changes_nothing():
    net, calls = Net().train(), []
    net.linear.register_forward_hook(lambda *a: None)
    state, seed = {k: v.clone() for k, v in net.state_dict().items()}, torch.get_rng_state()
    objects = dict(net.named_parameters())
    capture(net, (torch.randn(3, 4, generator=torch.Generator()),))
    assert torch.equal(torch.get_rng_state(), seed) and net.training
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert all(p is objects[n] and p.requires_grad and p.grad is None for n, p in net.named_parameters())
    net.linear.register_forward_hook(lambda *a: calls.append(1))
    with pytest.raises(CaptureError, match="forward changes what is no tensor of its graph: calls"):
        capture(net, (torch.randn(3, 4),))
    assert not calls


def test_a_big_model_is_not_copied():
    net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8)))  # 134 MB
    captured = capture(net, (torch.randn(1, 2048),))
    assert len(captured.text) < 50_000
    for a in captured.signature.arguments:
        assert a.kind == "input" or a.table[a.key].untyped_storage().data_ptr() == net.get_parameter(a.name).untyped_storage().data_ptr()


def test_random_numbers_are_refused_by_name():
    with pytest.raises(UnsupportedOperation, match=r"dropout.* at .*test_capture.py:\d+ on \(float32\[3, 4\]\).*random numbers.*eval"):
        _ = capture(lambda x: nn.functional.dropout(x), (torch.randn(3, 4),)).text
    with pytest.raises(UnsupportedOperation, match="aten.rand.*random numbers"):
        _ = capture(lambda x: x + torch.rand(4), (torch.randn(3, 4),)).text


def test_shapes_that_depend_on_data_are_refused():
    for f in (torch.nonzero, lambda x: x[x > 0], torch.unique):
        with pytest.raises(UnsupportedOperation, match="depends on the data"):
            _ = capture(f, (torch.tensor([1.0, -1.0, 2.0]),)).text


def test_an_operation_that_raises_is_left_out():
    """A model that tries one way and goes another: torch.export keeps what raised in its graph."""
    def tries(x):
        try:
            return x.view(7)
        except RuntimeError:
            return x.sum()

    assert_right(tries, (torch.randn(6),), target="cpu")


def test_what_cannot_be_traced_names_the_line():
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError, match=rf"f could not be captured as one graph \(at .*test_capture.py:{f.__code__.co_firstlineno + 1}\)"):
        capture(f, (torch.randn(3),))


def test_strides_of_ones_are_no_views_by_memory():
    def targets(model, *args):
        return [str(n.target) for n in capture(model, args).graph.nodes]

    pooled = torch.nn.AdaptiveAvgPool1d(1)
    assert not any("as_strided" in t for t in targets(pooled, torch.randn(2, 5, 7).transpose(1, 2)))
    assert not any("as_strided" in t for t in targets(torch.nn.GroupNorm(1, 8), torch.randn(1, 8, 3, 3)))
    for model in (lambda x: x.as_strided((6,), (1,)) + 1, lambda x: (x + 1).as_strided((6,), (1,)), lambda x: (x + 1).as_strided((2, 2), (3, 1))):
        assert any("as_strided" in t for t in targets(model, torch.randn(2, 3)))


def test_a_capture_that_fails_leaves_no_mode_behind():
    with pytest.raises(CaptureError):
        capture(lambda x: x * 2 if x.sum() > 0 else x, (torch.ones(3),))
    assert torch.overrides._len_torch_function_stack() == 0


def test_what_a_program_asserts_of_its_sizes_is_asked_of_a_call():
    """torch takes some conditions for assertions in the program; they are conditions of the call, and the program has none."""
    x = torch.fx.Graph().placeholder("x")
    tensor = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(
        torch.ones(40), symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC]),
    )
    size, graph = tensor.shape[0], x.graph
    x.meta["val"] = tensor
    table = SymbolTable()
    assert str(table.size(size)) == "s0"
    for target, args, value in (
        (torch.ops.aten.sym_size.int, lambda made: (x, 0), size), (torch.sym_min, lambda made: (made[0], 64), torch.sym_min(size, 64)),
        (operator.lt, lambda made: (made[0], 100), size < 100),
        (torch.ops.aten._assert_scalar.default, lambda made: (made[2], "too large"), None),
    ):
        made = [n for n in graph.nodes if n.op == "call_function"]
        graph.call_function(target, args(made)).meta["val"] = value
    graph.output((x,))
    asserted = table.take_assertions(graph)
    assert [n.op for n in graph.nodes] == ["placeholder", "output"]
    assert table.guards(asserted) == ("s0 < 100",)
    with pytest.raises(UnsupportedOperation, match="no arithmetic"):  # no call could check it
        table.guards([sympy.Gt(OpaqueUnaryFn_sqrt(ToFloat(size.node.expr)), 3)])


@pytest.mark.thorough
def test_vmap():
    """Operations of one sample become those of all, also with a product in it and of two sizes."""
    weight = torch.randn(3, 5)
    inner = torch.func.vmap(lambda row, scale: (row @ weight).softmax(0) * scale.sum())
    outer = torch.func.vmap(inner, in_dims=(1, None))
    x, scale = torch.randn(4, 2, 3), torch.randn(4, 6)
    torch.testing.assert_close(inferno.compile(outer, (x, scale), target="cpu", fallback=False)(x, scale), outer(x, scale))


def test_a_failure_prints_no_graph(capsys, caplog):
    """torch.export prints to stderr what it had so far; what the model prints there is printed."""
    def branches(x):
        print("the model's own", file=sys.stderr)
        return x.sin() if x.sum() > 0 else x

    caplog.set_level(logging.DEBUG, "inferno")
    with pytest.raises(CaptureError, match="could not be captured"):
        export_model(branches, (torch.ones(3),))
    assert "aten.sin" not in capsys.readouterr().err and any("aten.sum" in r.getMessage() for r in caplog.records)
    export_model(lambda x: print("the model's own", file=sys.stderr) or x.sin(), (torch.ones(3),))
    assert "the model's own" in capsys.readouterr().err


_FIRST = """
import torch
from inferno.capture import capture


class Statistics(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("var", torch.ones(3, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    def forward(self, x):
        self.var.copy_(x.double().var(0, unbiased=False))
        return x


print(*(a.name for a in capture(Statistics(), (torch.randn(5, 3),)).signature.arguments))
"""


@pytest.mark.thorough
def test_a_buffer_that_is_called_like_an_operation_is_captured_whole():
    """Torch notes inside of which of its functions it is traced, and took the operation's note for the buffer's; in the first graph of a process alone."""
    assert of_its_own(_FIRST) == "var count x"
