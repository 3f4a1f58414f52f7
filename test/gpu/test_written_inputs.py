"""Arguments that a program changes under torch.compile, on a GPU: written where they lie, also those that begin where no vector does."""

import copy

import pytest
import torch

import inferno
from checks import check
from inferno.runtime.plan.plan import Launch
from inferno.runtime.region.graphs import graphs_of

F = torch.nn.functional


def compiled(function, *arguments):
    """The results, and what copies of the arguments are then, held against float64; the region."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend="inferno")

    def on_copies(call):
        def run(*given):
            given = [t.clone() for t in given]
            return [*call(*given), *given]
        return run

    found = check(on_copies(fast), on_copies(function), arguments)
    assert found.right, found
    (made,) = graphs_of(fast)
    return made.regions[0][1], fast


def step(keys, values, query, key, value, place):
    keys.index_copy_(2, place, key)
    values.index_copy_(2, place, value)
    mask = (torch.arange(keys.shape[2], device=keys.device) <= place)[None, None, None]
    return (F.scaled_dot_product_attention(query, keys, values, attn_mask=mask),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 8])
def test_caches(dtype, batch):
    caches = [torch.randn(batch, 8, 1024, 64, device="cuda", dtype=dtype) for _ in range(2)]
    tokens = [torch.randn(batch, 8, 1, 64, device="cuda", dtype=dtype) for _ in range(3)]
    with torch.no_grad():
        region, _ = compiled(step, *caches, *tokens, torch.tensor([700], device="cuda"))
    assert [len(s.written) for s in region.segments] == [2] and "write_values" not in region.text


def last(x, y):
    x[:, -1] = y
    return (y * 2,)


def shifted(x, y):
    x[:, 1:] += y[:, None]
    return (y.sum(),)


def viewed(x, y):
    x[:, 1] = y
    return x[:, :2], y + 1, x[0].t()


def several(x, y):
    x[:, 1:] += y[:, None]
    x[3, 5:9] = y[3]
    x[::2, 0] *= 2
    return (y.sum(),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("write", [last, shifted, viewed, several])
def test_parts_alone_are_written(write, dtype):
    x, y = torch.randn(64, 1024, 64, device="cuda", dtype=dtype), torch.randn(64, 64, device="cuda", dtype=dtype)
    with torch.no_grad():
        region, _ = compiled(write, x, y)
    assert [len(s.written) for s in region.segments] == [1] and "write_values" not in region.text and not region.fallbacks


def change(x, y, n):
    x.add_(y).mul_(0.5)
    n.add_(1)
    return (y.sum() + n,)


@pytest.mark.parametrize("begin", [0, 1, 4])
def test_where_no_vector_begins(begin):
    memory, y = torch.randn(5000, device="cuda"), torch.randn(4096, device="cuda")
    _, fast = compiled(change, memory[begin:begin + 4096], y, torch.zeros((), dtype=torch.int64, device="cuda"))
    part, before = memory[begin:begin + 4096], memory.clone()
    fast(part, y, torch.zeros((), dtype=torch.int64, device="cuda"))
    before[begin:begin + 4096].add_(y).mul_(0.5)
    assert torch.equal(memory, before)


def test_many_values_of_several_types_are_written_together():
    model = torch.nn.Sequential(*[torch.nn.BatchNorm2d(6) for _ in range(4)]).cuda().train()
    own, x = copy.deepcopy(model), torch.randn(4, 6, 5, 7, device="cuda")
    torch._dynamo.reset()
    fast = torch.compile(own, backend="inferno")
    for _ in range(3):
        fast(x), model(x)
    for ours, theirs in zip(own.buffers(), model.buffers()):
        torch.testing.assert_close(ours, theirs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fast(x)
    graph.replay(), model(x)
    for ours, theirs in zip(own.buffers(), model.buffers()):
        torch.testing.assert_close(ours, theirs)


def test_captured_launches_write_to_the_tensors_of_each_call():
    torch._dynamo.reset()
    fast = torch.compile(change, backend="inferno", mode="reduce-overhead")
    for _ in range(6):
        x, y, n = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda"), torch.zeros((), dtype=torch.int64, device="cuda")
        expected = (x + y) * 0.5
        fast(x, y, n)
        assert torch.equal(x, expected) and n == 1


def any_size(function, make, sizes, **options):
    """The region of a function that is compiled once for all sizes; its results, and what it makes of its arguments, are eager's."""
    torch._dynamo.reset()
    inferno.stats(reset=True)
    fast = torch.compile(lambda *given: function(*given), backend="inferno", **options)  # (graphs are known by their function)
    for size in sizes:
        given = make(*size)
        others = [t.clone() for t in given]
        with torch.no_grad():
            torch.testing.assert_close(fast(*given), function(*others), rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(given, others)
    assert inferno.stats().recompiles == 0
    (made,) = graphs_of(fast)
    (segment,) = made.regions[0][1].segments
    assert not any(isinstance(s, Launch) and s.copies for s in segment._executable.plan.steps)
    return segment


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("varying", ["batch", "length", "all"])
def test_caches_of_any_size(dtype, varying):
    def make(batch, length):
        caches = [torch.randn(batch, 8, length, 64, device="cuda", dtype=dtype) for _ in range(2)]
        tokens = [torch.randn(batch, 8, 1, 64, device="cuda", dtype=dtype) for _ in range(3)]
        for tensor, dim in {"batch": [(t, 0) for t in (*caches, *tokens)], "length": [(t, 2) for t in caches]}.get(varying, ()):
            torch._dynamo.mark_dynamic(tensor, dim)
        return [*caches, *tokens, torch.tensor([length - 3], device="cuda")]

    drawn = (6, 1024), (3, 600), (40, 4096)  # 8 heads and 8 batches would be one size for Dynamo
    sizes = [(8 if varying == "length" else b, 1024 if varying == "batch" else t) for b, t in drawn]
    segment = any_size(step, make, sizes, dynamic=True if varying == "all" else None)
    assert len(segment.written) == 2 and sum("scatter" in s.kernel for s in segment._executable.plan.steps) == 1


def part_added(x, y):
    x[:, 1:] += y[:, 1:]
    return (y * 2,)


def last_set(x, y):
    x[:, -1] = y[:, 0]
    return (y * 2,)


def rows_put(x, y):
    x[torch.arange(y.shape[0], device=y.device)] = y
    return (y * 2,)


def rows_added(x, y):
    x.index_add_(0, torch.arange(y.shape[0], device=y.device), y)
    return (y * 2,)


def slots_set(x, y):
    x[:, torch.tensor([1], device=y.device)] = y[:, :1]
    return (y * 2,)


def added(x, y):
    x.add_(y).mul_(0.5)
    return (y * 2,)


@pytest.mark.parametrize("function", [part_added, last_set, rows_put, rows_added, slots_set, added])
def test_what_is_changed_of_any_size(function):
    segment = any_size(function, lambda n, m: [torch.randn(n, m, device="cuda") for _ in range(2)], [(1000, 512), (37, 91), (5000, 2048)], dynamic=True)
    assert len(segment.written) == 1


def test_statistics_of_batches_of_any_size():
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU()).cuda().train()
    own = copy.deepcopy(model)
    fast = torch.compile(own, backend="inferno", dynamic=True)
    with torch.backends.cudnn.flags(allow_tf32=False):
        for batch, size in ((8, 20), (3, 33), (32, 17)):
            x = torch.randn(batch, 3, size, size, device="cuda")
            torch.testing.assert_close(fast(x), model(x), atol=1e-4, rtol=1e-4)
    for ours, theirs in zip(own.buffers(), model.buffers()):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
