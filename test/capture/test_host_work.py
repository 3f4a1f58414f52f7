"""What a program makes on the host, of no input, for the GPU to read: it is made there; what the host needs stays on the host."""

import torch
from host_cases import CUDA, traced
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import inferno
from inferno.capture import capture
from inferno.capture.host_numbers import place_numbers
from inferno.capture.refusal import refusals

aten = torch.ops.aten


def on_the_host(module):
    return {str(n.target) for n in module.graph.nodes if n.op == "call_function" and n.meta["val"].device.type == "cpu"}


def test_a_mask_that_is_made_and_taken_there():
    def f(x):
        mask = aten.logical_not(aten._to_copy.default(torch.zeros(4, 5), device=x.device, dtype=torch.bool))
        return x + mask.cumsum(1) + (torch.arange(5) * 2 + 1).to(x.device)

    module, refused = traced(f, (4, 5))
    assert not on_the_host(module) and not refused
    assert [n.kwargs["device"] for n in module.graph.nodes if n.target is aten.arange.start_step or n.target is aten.arange.default] == [CUDA]


def test_places_and_a_literal_with_what_is_made_of_it():
    def f(x):
        return aten.index.Tensor(x, [torch.arange(2) + torch.tensor([1, 0])]), x * (torch.tensor([1.0, 2.0, 3.0]).exp() + 1).to(x.device)

    module, refused = traced(f, (4, 3))
    assert not on_the_host(module) and not refused
    assert {n.meta["val"].device for n in module.graph.nodes if n.op == "get_attr"} == {CUDA}


def test_what_the_host_needs_stays():
    def f(x):
        both, drawn = torch.arange(3), torch.rand(3)
        return x + both.to(x.device), both + 1, x * drawn.to(x.device)

    module, refused = traced(f, (3,))
    assert {"aten.arange.default", "aten.add.Tensor", "aten.rand.default"} <= on_the_host(module) and refused


def copies(module):
    return sum(n.target is aten._to_copy.default for n in module.graph.nodes)


def test_a_copy_that_is_written_to_stays_a_copy():
    def f(x):
        table = torch.zeros(3)
        there = table.to(x.device)
        there.add_(x)
        return there * 2 + table.to(x.device)

    module, _ = traced(f, (3,))
    assert not on_the_host(module) and copies(module) == 2


def test_what_is_written_to_after_it_was_taken_there_is_copied():
    def f(x):
        table = torch.zeros(3)
        before = aten.to.device(table, x.device, x.dtype)
        table.add_(1)
        return x + before, x * aten.to.device(table, x.device, x.dtype)

    module, _ = traced(f, (3,))
    assert not on_the_host(module) and copies(module) == 2


def test_a_number_that_is_written_to_there_is_a_copy_of_the_graphs():
    graph, number = Graph(), torch.tensor(0.5)
    with FakeTensorMode() as mode:
        held = graph.get_attr("number")
        literal = graph.call_function(aten.lift_fresh_copy.default, (held,))
        there = graph.call_function(aten.to.device, (literal, CUDA, torch.float32))
        written = graph.call_function(aten.add_.Tensor, (there, 1))
        held.meta["val"], literal.meta["val"] = mode.from_tensor(number), torch.empty(())
        there.meta["val"] = written.meta["val"] = torch.empty((), device=CUDA)
        place_numbers(graph, {held: number})
    made = graph.find_nodes(op="call_function", target=aten.full.default)
    assert [n.kwargs["device"] for n in made] == [CUDA] and there.target is aten._to_copy.default and there.args == (made[0],)


def test_an_exported_program_runs_whole_where_a_copy_is_written_to():
    def f(x):
        total = torch.zeros(3).to(x.device)
        total += x
        return total

    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        graph = capture(f, (torch.empty(3, device="cuda"),)).graph
    assert not refusals(graph, CUDA)


def test_on_the_host_nothing_changes():
    def f(x):
        return x + (~torch.zeros(3, 4).bool()).cumsum(1), torch.arange(4)

    x = torch.randn(3, 4)
    assert all(torch.equal(a, b) for a, b in zip(inferno.compile(f, (x,))(x), f(x)))
    assert all(torch.equal(a, b) for a, b in zip(torch.compile(f, backend="inferno")(x), f(x)))
