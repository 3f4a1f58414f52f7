"""What a program writes to its arguments under torch.compile: given back as results by a graph without effects, or made where it belongs."""

import copy

import pytest
import torch
from torch.fx import Graph

import inferno
from inferno.capture.written_inputs import give_writes, take_writes
from inferno.runtime.region.graphs import graphs_of

aten = torch.ops.aten


def graph(*sizes: int, dtype: torch.dtype = torch.float32) -> tuple[Graph, list]:
    """A graph of a placeholder of each size, its ``output`` not made yet."""
    made = Graph()
    inputs = [made.placeholder(f"x{i}") for i in range(len(sizes))]
    for node, n in zip(inputs, sizes):
        node.meta["val"] = torch.empty(n, dtype=dtype)
    return made, inputs


def call(made: Graph, target, *args):
    node = made.call_function(target, args)
    node.meta["val"] = target(*(a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args))
    return node


def calls(made: Graph) -> list[tuple]:
    return [(n.target, n.args) for n in made.nodes]


def names(made: Graph) -> list[str]:
    return [n.name for n in made.output_node().args[0]]


def test_writes_become_results_and_results_writes():
    made, (x, y) = graph(4, 4)
    total, less = call(made, aten.add.Tensor, x, y), call(made, aten.sub.Tensor, x, y)
    call(made, aten.copy_.default, y, less), call(made, aten.copy_.default, x, total)
    made.output((total,))
    before = calls(made)
    assert take_writes(made) == [y, x] and names(made) == ["add_tensor", "sub_tensor", "add_tensor"]
    assert not [n for n in made.nodes if n.target is aten.copy_.default]
    give_writes(made, [y, x], 1)
    assert calls(made) == before


def test_results_in_the_middle():
    made, (x, y) = graph(4, 4)
    total = call(made, aten.add.Tensor, x, y)
    gradient = call(made, aten.mul.Tensor, y, y)
    call(made, aten.copy_.default, x, total)
    made.output((y, gradient)).meta["desc"] = ("first", "second")
    assert take_writes(made, 1) == [x] and names(made) == ["x1", "add_tensor", "mul_tensor"]
    assert made.output_node().meta["desc"] == ["first", None, "second"]


def other_write(made, x, y, total):
    call(made, aten.add_.Tensor, y, x), call(made, aten.copy_.default, x, total)


def read_behind(made, x, y, total):
    call(made, aten.copy_.default, x, total), call(made, aten.neg.default, x)


def twice(made, x, y, total):
    call(made, aten.copy_.default, x, total), call(made, aten.copy_.default, x, y)


def to_no_input(made, x, y, total):
    call(made, aten.copy_.default, total, y)


def of_another_shape(made, x, y, total):
    call(made, aten.copy_.default, x, call(made, aten.sum.default, y))


def of_a_write(made, x, y, total):
    call(made, aten.copy_.default, y, call(made, aten.copy_.default, x, total))


@pytest.mark.parametrize("write", [other_write, read_behind, twice, to_no_input, of_another_shape, of_a_write])
def test_other_writes_stay(write):
    made, (x, y) = graph(4, 4)
    total = call(made, aten.add.Tensor, x, y)
    write(made, x, y, total)
    made.output((total,))
    before = str(made)
    assert take_writes(made) == [] and str(made) == before


def test_an_input_that_is_a_result_is_the_new_one():
    made, (x, y) = graph(4, 4)
    write = call(made, aten.copy_.default, x, call(made, aten.add.Tensor, x, y))
    made.output((write, x))
    assert take_writes(made) == [x] and names(made) == ["x0", "x0", "add_tensor"]


def test_views_of_a_new_value_are_the_inputs():
    """Where whoever calls makes them so, and both lie alike: of a value that nothing is said of the results are its own."""
    made, (x, y) = graph(4, 4)
    total = call(made, aten.add.Tensor, x, y)
    call(made, aten.copy_.default, x, total)
    part, other = (call(made, aten.slice.Tensor, call(made, aten.view.default, total, [2, 2]), 0, 0, 1) for _ in range(2))
    made.output((part, other))
    assert take_writes(made, views={0: 0}) == [x]
    ours, theirs, value = made.output_node().args[0]
    assert (ours.target, ours.args[1:], ours.args[0].args) == (theirs.target, theirs.args[1:], (x, [2, 2])) and value is total and theirs is other


def compiled(function, *arguments):
    """Both ways: results, and what the arguments are then.  And the regions."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend="inferno")
    others = copy.deepcopy(arguments)
    for ours, theirs in zip([*fast(*arguments), *arguments], [*function(*others), *others]):
        torch.testing.assert_close(ours, theirs)
    (made,) = graphs_of(fast)
    return [region for _, region in made.regions]


def test_an_update_is_made_in_its_place():
    def count(x, n):
        n.add_(1)
        return (x * 2,)

    (region,) = compiled(count, torch.randn(5), torch.zeros((), dtype=torch.int64))
    assert [list(s.written) for s in region.segments] == [[1]] and "write_values" not in region.text and not region.fallbacks


def test_tokens_are_written_into_caches():
    def step(keys, values, query, key, value, place):
        keys.index_copy_(2, place, key)
        values.index_copy_(2, place, value)
        mask = (torch.arange(keys.shape[2]) <= place)[None, None, None]
        return (torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask),)

    caches, tokens = [torch.zeros(2, 4, 64, 16) for _ in range(2)], [torch.randn(2, 4, 1, 16) for _ in range(3)]
    with torch.no_grad():
        (region,) = compiled(step, *caches, *tokens, torch.tensor([9]))
    assert [len(s.written) for s in region.segments] == [2] and "write_values" not in region.text


def test_a_result_of_its_own_beside_what_is_written():
    def step(x):
        x.mul_(2)
        return x + 0, x.view(2, 4).clone()

    compiled(step, torch.randn(8))


def test_arguments_change_places():
    def swap(x, y):
        t = x.clone()
        x.copy_(y)
        y.copy_(t)
        return (x - y,)

    compiled(swap, torch.randn(6), torch.randn(6))


def test_slices_whose_steps_vary():
    """Dynamo lets the steps of a tensor vary whose size does not, and what is copied to it has them as well."""
    torch._dynamo.reset()

    def swap(x, y):
        t = y.clone()
        y.copy_(x)
        x.copy_(t)
        return y + 0

    fast = torch.compile(swap, backend="inferno")
    with torch.no_grad():
        for width in (6, 7, 9):
            x, y = torch.randn(4, width)[:, -6:], torch.randn(4, 6)
            expected = x.clone(), y.clone()
            torch.testing.assert_close(fast(x, y), expected[0])
            torch.testing.assert_close((x, y), expected[::-1])


def test_one_value_for_two():
    def both(x, y, z):
        x.copy_(z * 2)
        y.copy_(z * 2)
        return (z + 1,)

    compiled(both, torch.randn(6), torch.randn(6), torch.randn(6))


def test_what_is_not_read_and_what_lies_otherwise():
    def keep(x, y, z):
        x.copy_(z)
        y.copy_((z + y).t().contiguous().t())
        return (z * 3,)

    compiled(keep, torch.randn(6, 6), torch.randn(6, 6), torch.randn(6, 6))


@pytest.mark.parametrize("begin", [0, 1])
def test_where_no_vector_begins(begin):
    """Kernels read whole vectors: of a tensor that does not begin with one a copy is taken, and what was written there copied back."""
    def add(x, y):
        x.add_(y)
        return (y * 2,)

    memory, y = torch.zeros(9), torch.randn(8)
    regions = compiled(add, memory[begin:begin + 8], y)
    assert [list(s.written) for s in regions[0].segments] == [[1]]


def test_a_write_between_pieces():
    """The old value is read by eager after the piece that has the new one."""
    def step(x, y):
        new = x * 2 + y
        values = torch.linalg.eigvalsh(x @ x.t() + y)
        x.copy_(new)
        return (values + new.sum(),)

    regions = compiled(step, torch.eye(4), torch.eye(4))
    assert regions[0].fallbacks


def test_versions_are_counted():
    torch._dynamo.reset()
    state, x = torch.zeros(4), torch.randn(4, requires_grad=True)
    fast = torch.compile(lambda s, x: (s.add_(1), x * 2)[1], backend="inferno")
    kept = (x * state).sum()
    fast(state, x.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


def test_tensors_of_inference_mode():
    """Of their changes there is no count."""
    torch._dynamo.reset()
    fast = torch.compile(lambda s, x: (s.add_(x), x * 2)[1], backend="inferno")
    with torch.inference_mode():
        state, x = torch.zeros(8), torch.ones(8)
        for _ in range(3):
            fast(state, x)
    assert state.is_inference() and state.tolist() == [3.0] * 8


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("half", [False, True])
def test_batch_norm_in_training(half):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3), torch.nn.BatchNorm2d(4))
    own = torch.bfloat16 if half else torch.float32
    model, exact = model.to(own), copy.deepcopy(model).double()
    fast = torch.compile(model, backend="inferno")
    for _ in range(3):
        x = torch.randn(2, 3, 12, 12)
        for run, dtype in ((fast, own), (exact, torch.float64)):
            run(x.to(dtype)).square().mean().backward()
    (made,) = graphs_of(fast)
    assert not dict(made.regions)["forward"].fallbacks
    for ours, theirs in zip(model.buffers(), exact.buffers()):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=5e-2 if half else 1e-5, atol=2e-2 if half else 1e-6)
    assert model[1].num_batches_tracked == 3


class Doubled(torch.nn.Module):
    """Its backward may compute again what the forward made of a buffer that is another one by then."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, x):
        result = (self.weight * (self.scale + 1) * x).sin()
        with torch.no_grad():
            self.scale.mul_(2)
        return result


def test_the_backward_reads_the_old_value():
    torch._dynamo.reset()
    model, x = Doubled(), torch.randn(4)
    weight = model.weight.detach().clone().requires_grad_(True)
    torch.compile(model, backend="inferno")(x).sum().backward()
    (weight * 2 * x).sin().sum().backward()
    torch.testing.assert_close(model.weight.grad, weight.grad)
    assert model.scale.tolist() == [2.0] * 4


def test_checked_programs_write_once():
    torch._dynamo.reset()
    state = torch.zeros(4)
    fast = torch.compile(lambda s, x: (s.add_(x), x * 2)[1], backend="inferno", options={"check": True})
    for _ in range(2):
        fast(state, torch.ones(4))
    assert state.tolist() == [2.0] * 4


def regions_of_any_size(function, make, sizes, **options):
    """The regions of a function, compiled once for all sizes: its results, and what it makes of its arguments, are eager's."""
    torch._dynamo.reset()
    inferno.stats(reset=True)
    fast = torch.compile(function, backend="inferno", **options)
    for size in sizes:
        ours = make(*size)
        theirs = [t.clone(memory_format=torch.preserve_format) for t in ours]
        with torch.no_grad():
            torch.testing.assert_close(fast(*ours), function(*theirs), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours, theirs)
    assert inferno.stats().recompiles == 0
    (made,) = graphs_of(fast)
    return [region for _, region in made.regions]


def sum_added(x, y):
    x.add_(y)
    return (x * 2).sum()


def both_added(x, y):
    x.add_(y)
    y.add_(x)
    return x * y


@pytest.mark.covering
@pytest.mark.parametrize(("function", "make", "count"), [
    (sum_added, lambda n, m: [torch.randn(n, m), torch.randn(n, m)], 1), (both_added, lambda n, m: [torch.randn(n, m), torch.randn(n, m)], 2),
    (sum_added, lambda n, m: [torch.randn(m, n).t(), torch.randn(m, n).t()], 1),  # both lie so
    (sum_added, lambda n, m: [torch.zeros(n * m + 1)[1:].view(n, m), torch.randn(n, m)], 1),  # where no vector begins
    (sum_added, lambda n, m: [torch.randn(n, 2 * m)[:, ::2], torch.randn(n, m)], 0),
    (lambda x, y: (x.clone(), x.mul_(2))[0], lambda n, m: [torch.randn(n, m), torch.randn(n, m)], 0),
], ids=["one", "two", "transposed", "unaligned", "with gaps", "still needed"])
def test_sizes_that_vary(function, make, count):
    (region,) = regions_of_any_size(function, make, [(5, 9), (64, 33), (2, 17)], dynamic=True)
    assert [len(s.written) for s in region.segments] == [count] and ("write_values" in region.text) == (count == 0)


def token(keys, values, query, key, value, place):
    keys.index_copy_(2, place, key)
    values.index_copy_(2, place, value)
    mask = (torch.arange(keys.shape[2]) <= place)[None, None, None]
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("varying", ["all", "batch", "length"])
def test_tokens_are_written_into_caches_of_any_size(varying):
    def make(batch, length):
        caches, tokens = [torch.zeros(batch, 4, length, 16) for _ in range(2)], [torch.randn(batch, 4, 1, 16) for _ in range(3)]
        for tensor, dim in {"batch": [(t, 0) for t in (*caches, *tokens)], "length": [(t, 2) for t in caches]}.get(varying, ()):
            torch._dynamo.mark_dynamic(tensor, dim)
        return [*caches, *tokens, torch.tensor([9])]

    sizes = [(2 if varying == "length" else b, 64 if varying == "batch" else t) for b, t in ((2, 64), (5, 80), (7, 33))]
    (region,) = regions_of_any_size(token, make, sizes, dynamic=True if varying == "all" else None)
    assert [len(s.written) for s in region.segments] == [2] and "write_values" not in region.text


def test_statistics_of_batches_of_any_size():
    torch._dynamo.reset()
    inferno.stats(reset=True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.BatchNorm2d(8))
    other, fast = copy.deepcopy(model), torch.compile(model, backend="inferno", dynamic=True)
    for batch, size in ((2, 12), (5, 9), (3, 20)):
        x = torch.randn(batch, 3, size, size + 1)
        for run in (fast, other):
            run(x).square().mean().backward()
    for ours, theirs in zip(model.buffers(), other.buffers()):
        torch.testing.assert_close(ours, theirs)
    (made,) = graphs_of(fast)
    forward = dict(made.regions)["forward"]
    assert [len(s.written) for s in forward.segments] == [6] and inferno.stats().recompiles == 0


@pytest.mark.covering
@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False),  # of which Dynamo writes products and sums as one operation of Inductor's
], ids=["sgd", "adamw", "adam"])
def test_an_optimizer_changes_parameters_where_they_are(make):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 8))
    other = copy.deepcopy(model)
    own, theirs = make(list(model.parameters())), make(list(other.parameters()))
    step = torch.compile(lambda: own.step(), backend="inferno")
    places = [p.data_ptr() for p in model.parameters()]
    for _ in range(3):
        x = torch.randn(4, 16)
        for net, update in ((model, step), (other, theirs.step)):
            net.zero_grad()
            net(x).square().mean().backward()
            update()
    for ours, eager in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(ours, eager)
    assert places == [p.data_ptr() for p in model.parameters()]
    regions = [region for made in graphs_of(step) for _, region in made.regions]
    assert regions and not any(r.fallbacks for r in regions)
    assert sum(len(s.written) for r in regions for s in r.segments) >= 4
