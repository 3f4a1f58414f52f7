"""What a program makes on the host, of no input, for the GPU to read: it is made there; what the host needs stays on the host."""

import torch
from host_cases import CUDA, traced

import inferno

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


def test_a_copy_that_is_written_to_stays_a_copy():
    def f(x):
        table = torch.zeros(3)
        there = table.to(x.device)
        there.add_(x)
        return there * 2 + table.to(x.device)

    module, _ = traced(f, (3,))
    assert "aten.zeros.default" in on_the_host(module)


def test_on_the_host_nothing_changes():
    def f(x):
        return x + (~torch.zeros(3, 4).bool()).cumsum(1), torch.arange(4)

    x = torch.randn(3, 4)
    assert all(torch.equal(a, b) for a, b in zip(inferno.compile(f, (x,))(x), f(x)))
    assert all(torch.equal(a, b) for a, b in zip(torch.compile(f, backend="inferno")(x), f(x)))
