"""Literals of a program: numbers of the graph, on the device of what reads them; never where something writes to one."""

import math

import pytest
import torch
from host_cases import CUDA, traced

import inferno
from inferno.capture import capture

aten = torch.ops.aten


def numbers(graph):
    return [(n.args[1], n.kwargs["dtype"], n.kwargs["device"]) for n in graph.nodes if n.target is aten.full.default]


def test_a_number_of_the_host_is_one_of_the_graph_on_the_readers_device():
    def f(x):
        scale = torch.sqrt(torch.tensor(64, dtype=torch.float) * 3)
        return torch.where(x > 0, torch.tensor(-math.inf), x / scale.to(torch.float64))

    module, refused = traced(f, (3, 4))
    found = sorted(numbers(module.graph), key=lambda n: n[0])
    assert found == [(-math.inf, torch.float32, CUDA), (torch.tensor(192.0).sqrt().item(), torch.float64, CUDA)]
    assert not refused and not any(n.op == "get_attr" for n in module.graph.nodes)


def test_what_is_assigned_by_python_stays_on_the_gpu():
    def f(x):
        mask = x.new_zeros(8, 8)
        aten.fill_.Tensor(mask.narrow(0, 0, 4), torch.tensor(2))
        return x + mask

    module, refused = traced(torch.func.functionalize(f), (8, 8))
    assert [(v, d) for v, _, d in numbers(module.graph)] == [(2, CUDA)] and not refused


def test_a_longer_literal_lies_where_it_is_read():
    module, refused = traced(lambda x: x * torch.tensor([1.0, 2.0, 3.0]).to(x.device), (5, 3))
    literal = next(n for n in module.graph.nodes if n.op == "get_attr")
    assert literal.meta["val"].device == CUDA and not refused


def test_a_literal_that_the_host_reads_stays_there():
    module, _ = traced(lambda x: (x * torch.tensor(2.0), torch.tensor([3.0, 4.0]) + 1), (5, 2))
    assert [n.meta["val"].device.type for n in module.graph.nodes if n.op == "get_attr"] == ["cpu"]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_numbers_keep_their_value_and_type(dtype):
    def f(x):
        return torch.tensor(1.2345678901234567).to(dtype) + torch.zeros_like(x, dtype=dtype), torch.tensor(3, dtype=dtype)

    x = torch.randn(4)
    captured = capture(f, (x,))
    assert not [a for a in captured.signature.arguments if a.kind == "constant"]
    for ours, eager in zip(inferno.compile(f, (x,))(x), f(x)):
        assert ours.dtype == eager.dtype and torch.equal(ours, eager)


def test_a_literal_that_is_written_to_is_made_anew_at_each_call():
    def f(x):
        total, seen = torch.tensor(1.0), torch.tensor([2.0])
        total += x.sum()
        seen.view(()).mul_(3)
        twice = total * 2
        total.fill_(7)
        return x * total, twice, seen

    for x in (torch.ones(3), torch.ones(3) * 4):
        fast = inferno.compile(f, (x,))
        for _ in range(2):
            assert all(torch.equal(a, b) for a, b in zip(fast(x), f(x)))


def test_a_result_that_is_a_literal_is_a_new_tensor():
    fast = inferno.compile(lambda x: (x + 1, torch.tensor(5.0)), (torch.ones(2),))
    first = fast(torch.ones(2))[1]
    first.add_(1)
    assert fast(torch.ones(2))[1].item() == 5.0


def test_tensors_that_the_user_holds_are_read_at_each_call():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.tensor(2.0)

        def forward(self, x):
            return x * self.scale * torch.tensor(3.0)

    model, x = Scaled(), torch.ones(3)
    fast = inferno.compile(model, (x,))
    assert torch.equal(fast(x), x * 6)
    model.scale.fill_(5)
    assert torch.equal(fast(x), x * 15)


def test_programs_that_differ_in_a_literal_alone_are_two(cache_folder):
    x = torch.ones(3)
    made = [inferno.compile(lambda x, v=v: x * torch.tensor(v), (x,))(x) for v in (2.0, 3.0)]
    assert [m[0].item() for m in made] == [2.0, 3.0]


def test_the_same_under_torch_compile():
    def f(x):
        y = x.clone()
        y[:, 0] = 2
        return torch.where(x > 0, torch.tensor(-1e4, dtype=x.dtype), y / torch.sqrt(torch.tensor(8.0))), x[:, torch.tensor([2, 0])]

    x = torch.randn(4, 3)
    assert all(torch.equal(a, b) for a, b in zip(torch.compile(f, backend="inferno")(x), f(x)))
