"""Kernels whose blocks have a part of each row, on a GPU: numbers, the same bits each time, in graphs, beside each other and behind other work."""

import pytest
import torch
from checks import check, poison_memory
from row_kernel_cases import PASSES, choose_grid, layer_norm, residual_norm, softmax
from universal_program import compile_universal

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0)
    or torch.cuda.get_device_properties(0).multi_processor_count < 132, reason="needs a GPU with 132 multiprocessors")

WHOLE = {"threads": 512, "share": 132, "ahead": 2}
PARTS = {"threads": 512, "share": 33, "groups": 4, "ahead": 3, "lag": 3}


def log_softmax(x):
    return torch.log_softmax(x, -1)


def compiled(model, args, change):
    return compile_universal(model, args, args[0].device, "sm_90a", choose_grid(change), passes=PASSES)


def arguments(model, rows, columns, dtype):
    x, w = (torch.randn(shape, device="cuda").to(dtype) for shape in ((rows, columns), (columns,)))
    return {layer_norm: (x, w, w.flip(0)), residual_norm: (x, x.flip(0), w)}.get(model, (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", [softmax, log_softmax, layer_norm, residual_norm])
@pytest.mark.parametrize("rows, columns, change", [
    (1, 1 << 20, WHOLE), (8, 1 << 19, WHOLE), (33, 300008, WHOLE), (70, 1 << 16, {**PARTS, "threads": 256}), (30, 1 << 17, PARTS),
    (5, 2056, {"threads": 32, "share": 3, "ahead": 1}),
])
def test_right_and_the_same(model, rows, columns, change, dtype):
    torch.manual_seed(0)
    args = arguments(model, rows, columns, dtype)
    own = compiled(model, args, {**change, "ahead": 1} if model is residual_norm else change)
    poison_memory()
    found = check(own, model, args)
    assert found.right, str(found)
    first, *others = (own(*args) for _ in range(10))
    for other in others:
        torch.testing.assert_close(first, other, rtol=0, atol=0)


def test_in_a_graph_and_beside_each_other():
    """Two streams' launches, each of all multiprocessors, and other work on a third."""
    torch.manual_seed(0)
    x = torch.randn(20, 1 << 19, device="cuda")
    own, wanted = compiled(softmax, (x,), WHOLE), torch.softmax(x, -1)
    graph = torch.cuda.CUDAGraph()
    own(x)
    with torch.cuda.graph(graph):
        captured = own(own(x))
    streams = [torch.cuda.Stream() for _ in range(2)] + [torch.cuda.Stream(priority=-1)]
    a = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream in streams[::2]:
            with torch.cuda.stream(stream):
                results.append(own(x))
        with torch.cuda.stream(streams[1]):
            a @ a
        graph.replay()
    torch.cuda.synchronize()
    for found in results:
        torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(captured, torch.softmax(wanted, -1))
