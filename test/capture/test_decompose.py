"""Decomposing each kind of operation once gives what decomposing the whole program gives, or is not done."""

import importlib
import re

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import inferno
from inferno.capture import capture, decompose, export_model, trace_graph
from inferno.capture.decompose import decompose_kinds
from inferno.capture.decompositions import table


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 4)).transpose(1, 2) for t in self.attention(self.norm(x)).chunk(3, -1))
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def text(captured):
    """The ``torch`` stage, but for the locations of arguments, which have none."""
    return re.sub(r"^(#loc1 = |  func.func @main).*", "", captured.text, flags=re.M)


def is_same(model, *args):
    exported = export_model(model, args)
    whole, first = exported.capture(exact=True), exported.capture()
    again = export_model(model, args).capture()  # of operations that are known now
    assert whole.exact and not first.exact and not again.exact
    for part in ("results", "outputs", "views", "leaves"):
        assert getattr(first.signature, part) == getattr(again.signature, part) == getattr(whole.signature, part)
    modes = {v.fake_mode for n in again.graph.nodes for v in torch.utils._pytree.tree_leaves(n.meta.get("val")) if isinstance(v, FakeTensor)}
    return len(modes) == 1 and text(first) == text(again) == text(whole)


def parts_and_whole(x):
    y = x + 1
    return y[:2], y, y.t()


def test_equal_layers():
    assert is_same(nn.Sequential(*(Block() for _ in range(4))), torch.randn(2, 6, 16))


@pytest.mark.covering
@pytest.mark.parametrize("function", [
    lambda x: (x * 0.0) + (x * -0.0) + (x * 1) + (x + True),
    lambda x: torch.stack([x.max(1).values, *x.split(1, 1)[0].unbind(1)]) + x.topk(4).indices.to(x.dtype)[:2],
    lambda x: {"a": (x.float(), x.to(torch.float32)), "b": x.mean((0, 1)).expand(3), "c": 7, "d": None},
    lambda x: torch.where(x > 0, x.softmax(-1), torch.nn.functional.pad(x, (1, 1))[:, 1:-1].cumsum(0)),
    lambda input, other=None: input + input * input,
    parts_and_whole,
], ids=["numbers", "tuples", "outputs", "mixed", "names", "parts"])
def test_functions(function):
    assert is_same(function, torch.randn(4, 6))


@pytest.fixture
def decomposed(monkeypatch):
    """The graphs that torch decomposes from now on."""
    found, run = [], decompose.trace_graph
    monkeypatch.setattr(decompose, "_remembered", {})
    monkeypatch.setattr(decompose, "trace_graph", lambda graph, *more: found.append(graph) or run(graph, *more))
    return found


def test_as_torch_decomposes_a_program(decomposed, monkeypatch):
    """Where torch lacks what traces a graph once."""
    def function(x, y):
        norm = torch.nn.functional.layer_norm(x, (6,)).matmul(y)
        return norm.softmax(-1), torch.nn.functional.gelu(norm), x.t().std(), torch.nn.functional.pad(y, (1, 2)), y.expand(2, 6, 6), x.to(torch.half)

    args = torch.randn(4, 6), torch.randn(6, 6)
    first = capture(function, args)
    decompose._remembered.clear()
    monkeypatch.setattr(decompose, "has_parts", lambda: False)
    second = capture(function, args)
    assert not first.exact and not second.exact and text(first) == text(second) and len(decomposed) == 1


def test_effects_are_not_lost():
    """A check for errors is made for what it raises."""
    assert decompose_kinds(export_model(torch.linalg.cholesky, (torch.eye(3),)).program, table()) is None


def test_what_torch_patches_is_as_it_was(decomposed):
    ops = [torch.ops.aten.matmul.default, torch.ops.aten.layer_norm.default, torch.ops.aten.softmax.int]
    before = [dict(op.py_kernels) for op in ops]
    rules = dict(torch._subclasses.fake_impls.op_implementations_dict)
    with pytest.raises(ZeroDivisionError), trace_graph._overridden(dict.fromkeys(ops, lambda *_: NotImplemented)):
        assert all(op.py_kernels != kernels for op, kernels in zip(ops, before))
        raise ZeroDivisionError
    assert [op.py_kernels for op in ops] == before and torch._subclasses.fake_impls.op_implementations_dict == rules


def test_operations_of_an_earlier_program(decomposed):
    x = torch.randn(4, 6)
    capture(lambda x: x.relu().softmax(-1), (x,))
    assert len(decomposed) == 1
    again = capture(lambda y: (y.softmax(-1).relu(), y), (x,))
    assert len(decomposed) == 1 and not again.exact
    capture(lambda x: x.relu().softmax(0), (x,))
    assert len(decomposed) == 2
    assert [n.target for n in decomposed[1].nodes if n.op == "call_function"] == [torch.ops.aten.softmax.int]
    capture(lambda x: x.relu(), (x.double(),))
    capture(lambda x: x.relu(), (torch.randn(6, 4).t(),))
    assert len(decomposed) == 4


def test_what_the_process_says_is_remembered_too(decomposed):
    x = torch.arange(6)
    before = capture(lambda x: x.sqrt(), (x,)).signature.results[0].dtype
    torch.set_default_dtype(torch.float64)
    try:
        after = capture(lambda x: x.sqrt(), (x,)).signature.results[0].dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert (before, after) == (torch.float32, torch.float64) and len(decomposed) == 2


def test_custom_operations_are_not_remembered(decomposed):
    @torch.library.custom_op("inferno_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    thrice.register_fake(torch.empty_like)
    for _ in range(2):
        capture(lambda x: thrice(x) + 1, (torch.randn(4),))
    assert len(decomposed) == 2 and [k[1][0].namespace for k in decompose._remembered] == ["aten"]


def test_no_more_are_remembered_than_a_few_models_have(decomposed, monkeypatch):
    monkeypatch.setattr(decompose, "_MOST", 3)
    capture(lambda x: x.relu() + x.exp() * x.sin(), (torch.randn(4),))
    assert len(decompose._remembered) == 3


def test_an_argument_that_is_given_twice():
    assert is_same(lambda x, y: (x @ x) + (x @ y) + (y @ x), torch.randn(4, 4), torch.randn(4, 4))


def test_arguments_that_lie_in_memory_in_other_ways():
    assert is_same(lambda x: (x.reshape(-1) + x.T.reshape(-1)).view(2, -1) + x[:, 1:].reshape(-1)[:2, None], torch.randn(4, 6))


def shared(x):
    y = x + 1
    return y[:2], y[2:]


@pytest.mark.parametrize("function", [
    lambda x: x.relu_(),
    shared,
    lambda x: torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,)),
    lambda x: x[x > 0],
    lambda x: torch.as_strided(x * 2, (2, 2), (1, 2)),
], ids=["written", "shared", "graph", "data", "strides"])
def test_programs_that_are_decomposed_as_a_whole(function):
    assert decompose_kinds(export_model(function, (torch.randn(4, 6),)).program, table()) is None


def test_composite_operations_that_devices_have_kernels_for():
    """As a whole, too: what writes to a tensor in a way that is left to torch lets nothing be decomposed by kinds."""
    def gradient(x):
        y = (x * 1).squeeze_(0)
        return torch.ops.aten.silu_backward(y, y)

    x = torch.randn(1, 7)
    assert decompose_kinds(export_model(gradient, (x,)).program, table()) is None
    assert '"torch.aten.silu_backward"' not in capture(gradient, (x,)).text


def operations(captured):
    """The operations of the ``torch`` stage in the order of their text, without the names of values: sizes may be read in other places."""
    lines = (re.sub(r"%\w+|#loc\d*|loc\(.*\)", "", line) for line in text(captured).splitlines())
    return sorted(line for line in lines if "torch." in line and "size.int" not in line and "constant.int" not in line)


def halves_written(x):
    y = x.clone()
    y[1:].add_(1)
    return torch.nn.functional.relu(y, inplace=True), x.shape[1] * y.flatten()


@pytest.mark.covering
@pytest.mark.parametrize("function", [
    lambda x: torch.softmax(x * 2, -1) + x.mean(1, keepdim=True) * x.shape[0] ** -0.5,
    lambda x: torch.cat([x.flatten(0, 1) @ torch.ones(6, 5), x[1:].reshape(-1, 6)[:, :5]]),
    lambda x: torch.nn.functional.interpolate(x[None], scale_factor=1.5, mode="nearest").sum((0, 1)),
    lambda x: torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 4)).unflatten(1, (-1, 4)).sum(2),
    lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    lambda x: (x.sum(0) + torch.arange(x.shape[1])[:, None], x.repeat(2, 1, 1).var((0, 1)), torch.nn.functional.group_norm(x.mT, 2)),
    halves_written,
], ids=["rows", "flat", "resized", "windows", "attention", "several", "written"])
def test_sizes_that_vary(function):
    sizes = ({0: torch.export.Dim("n", min=2, max=64), 1: torch.export.Dim("m", min=2, max=64)},)
    exported = [export_model(function, (torch.randn(8, 12, 6),), dynamic_shapes=sizes) for _ in range(2)]  # what is assumed while one is traced, it knows
    first, whole = exported[0].capture(), exported[1].capture(exact=True)
    assert whole.exact and not first.exact and operations(first) == operations(whole)
    for part in ("arguments", "results", "outputs", "views", "leaves", "guards"):
        assert str(getattr(first.signature, part)) == str(getattr(whole.signature, part))


def test_sizes_that_vary_are_not_those_of_another_program(decomposed):
    for most in (64, 128):
        sizes = {"x": {0: torch.export.Dim("n", min=2, max=most)}}
        assert not capture(lambda x: x.softmax(-1), (torch.randn(4, 6),), dynamic_shapes=sizes).exact
    assert len(decomposed) == 2


def test_sizes_of_the_data_are_decomposed_as_a_whole():
    assert decompose_kinds(export_model(lambda x, i: x * i.max().item(), (torch.randn(4, 6), torch.arange(3))).program, table()) is None


def test_sizes_of_which_no_input_tells_all_symbols():
    """The sizes of what is read are multiples of a symbol, which is none of them."""
    sizes = ({0: 2 * torch.export.Dim("n", min=2, max=64)},)
    captured = capture(lambda x: x.relu().flatten().sum(), (torch.randn(8, 6),), dynamic_shapes=sizes)
    assert "torch.aten.sum" in captured.text


def test_written_buffers_are_decomposed_as_a_whole():
    exported = export_model(nn.BatchNorm1d(6), (torch.randn(4, 6),))
    assert decompose_kinds(exported.program, table()) is None
    assert sum(r.kind == "mutation" for r in exported.capture().signature.results) == 3


def _as_float64(x):
    return x.double().relu()


def test_an_operation_of_which_another_dtype_would_be_made(monkeypatch, caplog):
    known = {**table(), torch.ops.aten.tanh.default: _as_float64}
    monkeypatch.setattr(importlib.import_module("inferno.capture.capture"), "table", lambda: known)
    monkeypatch.setattr(decompose, "_remembered", {})
    reason = r"it would become float64\[4, 6\] on cpu, where it is float32\[4, 6\] on cpu"
    for model in (lambda x: (x.relu() * 2).tanh() + 1, lambda x: (x.relu() * 2).tanh().exp()):  # what was made of the first one's is remembered
        x = torch.randn(4, 6)
        compiled = inferno.compile(model, (x,))
        torch.testing.assert_close(compiled(x), model(x))
        fallback, = compiled.fallbacks
        assert fallback.target == "aten.tanh.default" and re.fullmatch(reason, fallback.reason)
        with pytest.raises(inferno.UnsupportedOperation, match=f"aten.tanh.default .* is not supported: {reason}"):
            inferno.compile(model, (x,), fallback=False)
    assert f"aten.tanh.default stays whole: {fallback.reason}" in caplog.messages


def test_a_program_of_which_another_dtype_would_be_made(monkeypatch):
    known = {**table(), torch.ops.aten.tanh.default: _as_float64}
    monkeypatch.setattr(importlib.import_module("inferno.capture.capture"), "table", lambda: known)
    with pytest.raises(inferno.CaptureError, match=r"getitem would become float64\[\?, 3\] on cpu, where it is float32\[\?, 3\] on cpu"):
        capture(lambda x: x.tanh().split(3, 1), (torch.randn(4, 6),), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=64)}})


def test_results_that_nobody_reads_may_be_others():
    model, x = nn.EmbeddingBag(10, 4, mode="sum").eval(), (torch.randint(0, 10, (5,)), torch.tensor([0, 3]))
    assert decompose_kinds(export_model(model, x).program, table()).refused == {}
