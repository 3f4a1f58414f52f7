"""What a program changes is computed in place where nothing reads the old value later, and is right in any case."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.export import Dim

import inferno
from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.runtime.plan.in_place import write_in_place
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan, read_plan
from inferno.target import find_target


class Cached(nn.Module):
    """A step with a cache: attention reads what was written; a count that grows."""

    def __init__(self, size=8, length=16):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, length, size))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.w = nn.Parameter(torch.randn(size, size))

    def forward(self, x, place):
        k = x @ self.w
        self.keys.index_copy_(1, place, k)
        self.count += 1
        return torch.softmax(x @ self.keys.transpose(1, 2), -1) @ self.keys


def in_place(compiled) -> list[bool]:
    """Of each write whether it is made in place."""
    return made_in_place(compiled._executable.plan, compiled.program.signature)


def made_in_place(plan: Plan, signature) -> list[bool]:
    return [plan.outputs[i].argument == r.target for i, r in enumerate(signature.results) if r.kind == "mutation"]


def plan_for_gpu(model, inputs, dynamic_shapes=None) -> tuple[Plan, object]:
    """The plan that a GPU would run, results in place, and the program's signature."""
    found = capture(model, inputs, dynamic_shapes=dynamic_shapes)
    built = build_from("torch", found.text, find_target("sm_90a"), last="gpu", signature=found.signature)
    plan = read_plan(built.stages["gpu"])
    return write_in_place(plan, [(i, r.target) for i, r in enumerate(found.signature.results) if r.kind == "mutation"]), found.signature


def same_as_eager(model, compiled, *inputs, times=3):
    eager = copy.deepcopy(model)
    for _ in range(times):
        given = [t.clone() for t in inputs]
        with torch.no_grad():
            ours, theirs = compiled(*inputs), eager(*given)
        for a, b in zip((ours, *inputs, *model.buffers()), (theirs, *given, *eager.buffers())):
            torch.testing.assert_close(a, b)


def test_caches_and_counts_are_written_in_place():
    model, inputs = Cached(), (torch.randn(2, 1, 8), torch.tensor([3]))
    compiled = inferno.compile(model, inputs)
    assert in_place(compiled) == [True, True]
    version, address = model.keys._version, model.keys.data_ptr()
    same_as_eager(model, compiled, *inputs)
    assert model.keys._version == version + 3 and model.keys.data_ptr() == address and model.count == 3


def test_caches_are_written_in_place_on_a_gpu():
    """Products of vectors read the new cache: no kernel of theirs takes the write along."""
    assert made_in_place(*plan_for_gpu(Cached(64, 256), (torch.randn(2, 1, 64), torch.tensor([3])))) == [True, True]


def test_statistics_of_batch_norm():
    model, x = nn.Sequential(nn.BatchNorm1d(6), nn.ReLU()).train(), torch.randn(5, 6)
    compiled = inferno.compile(model, (x,))
    assert all(in_place(compiled)) and len(in_place(compiled)) == 3
    same_as_eager(model, compiled, x)


def test_an_old_value_that_is_still_needed_stays():
    def old(x):
        before = x.clone()
        x.mul_(2)
        return before

    def transposed(x):
        x.copy_(x.t() + 1)
        return x.sum()

    def shifted(x):  # a roll is a tensor of its own, from which the argument may be written
        x.copy_(x.roll(1, 0))
        return x[0] * 2

    for function, may in ((old, False), (transposed, False), (shifted, True)):
        x = torch.randn(9, 9)
        compiled = inferno.compile(function, (x,))
        assert may or not any(in_place(compiled))
        given = x.clone()
        ours, theirs = compiled(x), function(given)
        torch.testing.assert_close((ours, x), (theirs, given))


def test_two_that_change_places():
    def f(x, y):
        z = x + 1
        x.copy_(y * 2)
        y.copy_(z)
        return x - y

    x, y = torch.randn(40), torch.randn(40)
    compiled = inferno.compile(f, (x, y))
    a, b = x.clone(), y.clone()
    ours, theirs = compiled(x, y), f(a, b)
    torch.testing.assert_close((ours, x, y), (theirs, a, b))


@pytest.mark.parametrize("make", [
    lambda t: t.t().contiguous().t(), lambda t: torch.empty(4, 9)[:, ::2].copy_(t), lambda t: torch.empty(21)[1:].view(4, 5).copy_(t),
], ids=["transposed", "with gaps", "unaligned"])
def test_inputs_in_any_layout_are_written(make):
    def f(x):
        x.add_(1)
        return x * 2

    example = torch.randn(4, 5)
    compiled = inferno.compile(f, (example,))
    assert in_place(compiled) == [True]
    x = make(torch.randn(4, 5))
    given = x.clone()
    ours, theirs = compiled(x), f(given)
    torch.testing.assert_close((ours, x), (theirs, given))


def test_overlapping_inputs_are_refused_before_anything_is_written():
    compiled = inferno.compile(lambda x, y: x.add_(y), (torch.zeros(4, 3), torch.zeros(4, 3)))
    row, y = torch.ones(3), torch.ones(4, 3)
    with pytest.raises(inferno.InputError, match="x: unsupported operation: more than one element of the written-to tensor"):
        compiled(row.expand(4, 3), y)
    both = torch.ones(5, 3)
    with pytest.raises(inferno.InputError, match="share memory"):
        compiled(both[:4], both[1:])
    assert torch.equal(row, torch.ones(3)) and torch.equal(both, torch.ones(5, 3))


def test_arguments_of_any_size_are_written_in_place():
    def f(x, y):
        x.add_(y)
        return x * 2

    any_size = {0: Dim.AUTO, 1: Dim.AUTO}
    compiled = inferno.compile(f, (torch.randn(4, 5), torch.randn(4, 5)), dynamic_shapes=(any_size, any_size))
    assert in_place(compiled) == [True]
    for rows, columns in ((4, 5), (3, 9), (70, 33)):
        y = torch.randn(rows, columns)
        for x in (torch.randn(rows, columns), torch.randn(columns, rows).t(), torch.zeros(rows * columns + 1)[1:].view(rows, columns)):
            given, address, version = x.clone(), x.data_ptr(), x._version
            for _ in range(2):
                torch.testing.assert_close((compiled(x, y), x), (f(given, y), given))
            assert x.data_ptr() == address and x._version > version
    both = torch.ones(5, 3)
    with pytest.raises(inferno.InputError, match="share memory"):
        compiled(both[:4], both[1:])
    assert torch.equal(both, torch.ones(5, 3))


@pytest.mark.thorough
def test_caches_of_any_size_are_written_in_place_on_a_gpu():
    def step(keys, x, place):
        keys.index_copy_(1, place, x)
        return torch.softmax(x @ keys.transpose(1, 2), -1) @ keys

    inputs = torch.randn(2, 256, 64), torch.randn(2, 1, 64), torch.tensor([3])
    plan, signature = plan_for_gpu(step, inputs, ({0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO}, {}))
    assert made_in_place(plan, signature) == [True] and not any(isinstance(s, Launch) and s.copies for s in plan.steps)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("make", [
    lambda: (Cached(), (torch.randn(2, 1, 8), torch.tensor([3]))), lambda: (nn.BatchNorm1d(6).train(), (torch.randn(5, 6),)),
    lambda: (lambda x, y: {"sum": x.add_(y).sum(), "all": [y * 2, y + x.mean()]}, (torch.randn(8, 4), torch.randn(8, 4))),
], ids=["cache", "batch norm", "nested"])
def test_usual_calls_do_not_take_the_general_way(monkeypatch, make):
    torch.manual_seed(0)
    model, inputs = make()
    compiled = inferno.compile(model, inputs)
    assert all(in_place(compiled))
    with torch.no_grad():
        compiled(*inputs)
        eager, given = copy.deepcopy(model), [t.clone() for t in inputs]
        monkeypatch.setattr(type(compiled), "_call", None)
        for _ in range(2):
            torch.testing.assert_close((compiled(*inputs), list(inputs)), (eager(*given), given))
        if isinstance(model, nn.Module):
            versions = [b._version for b in model.buffers()]
            compiled(*inputs)
            assert all(b._version > v for b, v in zip(model.buffers(), versions))


def test_other_addresses_are_looked_at():
    compiled = inferno.compile(lambda x, y: x.add_(y).sum(), (torch.zeros(4, 4), torch.zeros(4, 4)))
    both = torch.ones(8, 4)
    for _ in range(2):
        assert compiled(both[:4], both[4:]) == both[:4].sum()
        with pytest.raises(inferno.InputError, match="share memory"):
            compiled(both[:4], both[2:6])
        with pytest.raises(inferno.InputError, match="share memory"):
            compiled(both[:4], both[:4])
    for _ in range(200):
        x, y = torch.ones(4, 4), torch.ones(4, 4)
        assert compiled(x, y) == 32 and torch.equal(x, y + 1)


def test_a_tensor_made_in_inference_mode():
    compiled = inferno.compile(lambda x: x.add_(1), (torch.zeros(8),))
    with torch.inference_mode():
        x = torch.zeros(8)
        compiled(x)
        assert torch.equal(x, torch.ones(8))


A, B = (Buffer("argument", i, (4,), "f32") for i in range(2))
R = [Buffer("result", i, (4,), "f32") for i in range(2)]


def plan_of(*outputs: Output) -> Plan:
    launch = Launch("k::k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (A, B, *R))
    return Plan((launch,), (A, B), outputs, 0)


def output(**fields) -> Output:
    return Output((4,), "f32", **fields)


def test_plans_with_results_in_place():
    first, second = output(result=0, overwrites=(0,)), output(result=1, overwrites=(0, 1))
    placed = write_in_place(plan_of(first, second), [(0, 0), (1, 1)])
    assert [o.argument for o in placed.outputs] == [0, 1] and placed.steps[0].parameters == (A, B, A, B)
    assert write_in_place(plan_of(first, second), [(0, 1)]) == plan_of(first, second)
    one = write_in_place(plan_of(first, second), [(0, 0), (1, 0)])
    assert [(o.argument, o.result) for o in one.outputs] == [(0, -1), (-1, 1)] and one.steps[0].parameters == (A, B, A, R[1])
    kept = plan_of(first, second, output(argument=0))
    assert write_in_place(kept, [(0, 0)]) == kept
    whole, rest = Launch("k::copy", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (A, R[0]), copies=True), plan_of(first, second).steps[0]
    other = replace(whole, parameters=(A, R[1]))
    copied = write_in_place(replace(plan_of(first, second), steps=(whole, other, rest)), [(0, 0)])
    assert [s.parameters for s in copied.steps] == [(A, R[1]), (A, B, A, R[1])]
    twice = write_in_place(plan_of(first, second, output(result=0)), [(0, 0)])
    assert [o.argument for o in twice.outputs] == [0, -1, 0]


def test_what_is_written_is_said_and_a_copy_is_one_launch():
    """A part of a copy: all of the new tensor by one kernel.  The same of the argument: the part alone, where it is."""
    def of_a_copy(x, other):
        y = x.clone()
        y[:, :3] = other
        return y

    def of_itself(x, other):
        x[:, :3] = other
        return x + 1

    args = torch.randn(64, 16), torch.randn(64, 3)
    said = [line.count("inferno.written") for f in (of_a_copy, of_itself) for line in capture(f, args).text.splitlines() if "func.func @main" in line]
    assert said == [0, 1]
    plan, _ = plan_for_gpu(of_a_copy, args)
    assert len(plan.steps) == 1
    plan, signature = plan_for_gpu(of_itself, args)
    assert made_in_place(plan, signature) == [True]
    args = tuple(a.clone() for a in args)
    torch.testing.assert_close(inferno.compile(of_a_copy, args)(*args), of_a_copy(*args))


WEIGHT = torch.linspace(-1, 1, 20).view(4, 5)


@pytest.mark.covering
@pytest.mark.parametrize("function", [
    lambda x: x @ WEIGHT, lambda x: (x * 2).permute(2, 0, 1).sinh(), lambda x: nn.functional.group_norm(x, 1).flatten(),
    lambda x: (x @ torch.randn(4, 5)).view(-1),
], ids=["product", "permuted", "flat", "after_eager"])
@pytest.mark.parametrize("compile_", [
    lambda f, x: inferno.compile(f, (x,)), lambda f, x: torch.compile(f, backend="inferno"), lambda f, x: torch.compile(f, backend="inferno", dynamic=True),
], ids=["compile", "backend", "dynamic"])
def test_results_can_be_written_to_where_gradients_are_computed(function, compile_):
    """They are no views that were made where none are, which autograd refuses to write to."""
    torch._dynamo.reset()
    x, p = torch.randn(2, 3, 4), torch.ones((), requires_grad=True)
    fast = compile_(function, x)
    with torch.no_grad():
        result = fast(x)
    result += p
    assert result.requires_grad


@pytest.mark.parametrize("dynamic", [None, True])
def test_results_of_training_can_be_written_to(dynamic):
    torch._dynamo.reset()

    def program(x):
        y = (x @ WEIGHT).transpose(1, 2) * 2
        torch._dynamo.graph_break()
        y[y > 0] = 0.5
        return y

    x = torch.randn(2, 3, 4, requires_grad=True)
    ours = x.detach().clone().requires_grad_()
    torch.compile(program, backend="inferno", dynamic=dynamic)(ours).square().sum().backward()
    program(x).square().sum().backward()
    torch.testing.assert_close(ours.grad, x.grad)


class Running(nn.Module):
    """Statistics in float64, of which the count is one number."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    def forward(self, x, scale=1.0):
        total = self.count + x.shape[0]
        self.mean.add_((x.double().mean(0) - self.mean) * (x.shape[0] / total))
        self.count.copy_(total)
        return (x - self.mean).float() * scale


@pytest.mark.covering
@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 0.5, 2.5)])
def test_writes_to_one_number_in_float64(dynamic, scales):
    """Dynamo takes it for a float, and leaves out the write when it starts again for the sake of that."""
    torch._dynamo.reset()
    eager = Running()
    mine = copy.deepcopy(eager)
    fast = torch.compile(mine, backend="inferno", dynamic=dynamic)
    for size, scale in zip((5, 2, 5), scales):
        x = torch.randn(size, 3)
        with torch.no_grad():
            torch.testing.assert_close(fast(x, scale), eager(x, scale))
        torch.testing.assert_close(mine.count, eager.count)
        torch.testing.assert_close(mine.mean, eager.mean)


def test_one_number_that_is_read_after_it_is_written():
    torch._dynamo.reset()

    def program(count, x):
        count.mul_(2)
        return x * count, count + 1

    count, x = torch.ones((), dtype=torch.float64), torch.ones(2)
    fast = torch.compile(program, backend="inferno")
    for step in range(3):
        with torch.no_grad():
            scaled, more = fast(count, x)
        assert count == 2.0 ** (step + 1) and torch.equal(scaled, x * count) and more == count + 1
