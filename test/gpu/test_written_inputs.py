"""Arguments that a program changes under torch.compile, on a GPU: written where they lie, also those that begin where no vector does."""

import copy

import pytest
import torch

from checks import check
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
