"""Attention of any number of sequences, queries and keys, against float64: one compile, one kernel, right for every size."""

import pytest
import torch
from checks import check
from on_gpu import on_hopper
from torch.export import Dim

import inferno
from inferno.runtime.module import CompiledModule

F = torch.nn.functional

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]

B, S, T = Dim("b", min=1, max=64), Dim("s", min=1, max=8192), Dim("t", min=1, max=8192)
HEADS = ({0: B, 2: S},) * 3
SIZES = [(2, 100), (1, 1), (3, 7), (2, 64), (1, 65), (5, 129), (2, 1000), (1, 4097), (2, 100)]


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def heads(batch, queries, keys=0, size=128, of=4, shared=2, dtype=torch.bfloat16):
    return randn(batch, of, queries, size, dtype=dtype), *(randn(batch, shared, keys or queries, size, dtype=dtype) for _ in range(2))


def right(function, inputs, dims, sizes, beside=0):
    """One kernel, with so many ``beside``, that is right for all sizes."""
    torch.manual_seed(0)
    made = inferno.compile(function, inputs(*sizes[0]), dynamic_shapes=dims, fallback=False)
    text = made.ir("scheduled")
    assert 'generator = "attention"' in text and text.count("call @") == 1 + beside
    for each in sizes:
        found = check(made, function, inputs(*each))
        assert found.right, f"{each}: {found}"
    return made


def grouped(q, k, v, causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def causal(q, k, v):
    return grouped(q, k, v, True)


@pytest.mark.parametrize("size, dtype", [(128, torch.bfloat16), (64, torch.float16), (72, torch.bfloat16), (64, torch.float32), (128, torch.float32)])
@pytest.mark.parametrize("function", [grouped, causal])
def test_lengths(function, size, dtype):
    sizes = SIZES if dtype is not torch.float32 else [s for s in SIZES if s[1] < 4000]
    right(function, lambda b, s: heads(b, s, size=size, dtype=dtype), HEADS, sizes)


def test_queries_and_keys_apart():
    sizes = [(2, 300, 500), (1, 1, 4000), (1, 4000, 1), (3, 65, 129), (2, 7, 1000), (2, 1000, 7)]
    right(grouped, heads, ({0: B, 2: S}, {0: B, 2: T}, {0: B, 2: T}), sizes)


def test_windows_at_the_end():
    def model(q, k, v):
        i, j = torch.arange(q.shape[2], device=q.device)[:, None] + (k.shape[2] - q.shape[2]), torch.arange(k.shape[2], device=q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (i - j < 300), enable_gqa=True)

    right(model, heads, ({0: B, 2: S}, {0: B, 2: T}, {0: B, 2: T}), [(2, 300, 500), (1, 1, 4000), (3, 65, 129), (2, 1000, 1000), (1, 1, 1)])


@pytest.mark.parametrize("kind", ["keys", "pairs"])
def test_masks(kind):
    def model(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    if kind == "keys":
        inputs, dims = lambda b, s: (*heads(b, s), torch.rand(b, 1, 1, s, device="cuda") > 0.3), (*HEADS, {0: B, 3: S})
    else:
        inputs, dims = lambda b, s: (*heads(b, s), randn(b, 1, s, s)), (*HEADS, {0: B, 2: S, 3: S})
    right(model, inputs, dims, SIZES)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_heads_lie_side_by_side(dtype):
    def model(x):
        q, k, v = (y.view(x.shape[0], x.shape[1], 6, 64).transpose(1, 2) for y in x.chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape[0], x.shape[1], 384)

    right(model, lambda b, s: (randn(b, s, 1152, dtype=dtype),), ({0: B, 1: S},), [s for s in SIZES if s[1] <= 1000])


def test_one_query_and_a_cache_that_grows():
    def model(q, past_k, past_v, k, v):
        return grouped(q, torch.cat([past_k, k], 2), torch.cat([past_v, v], 2))

    def inputs(batch, past):
        q, k, v = heads(batch, 1, past, of=8)
        return q, k, v, randn(batch, 2, 1, 128), randn(batch, 2, 1, 128)

    dims = ({0: B}, {0: B, 2: T}, {0: B, 2: T}, {0: B}, {0: B})
    right(model, inputs, dims, [(2, 1000), (1, 1), (3, 63), (1, 64), (1, 8191), (16, 4096), (64, 100)], beside=1)


def test_under_torch_compile():
    """One graph for all sizes but 0 and 1."""
    torch._dynamo.reset()
    fast = torch.compile(causal, backend="inferno")
    inferno.stats(reset=True)
    for each in [s for s in SIZES if min(s) > 1]:
        args = heads(*each)
        for x in args:
            torch._dynamo.mark_dynamic(x, 0)
            torch._dynamo.mark_dynamic(x, 2)
        found = check(fast, causal, args)
        assert found.right, f"{each}: {found}"
    assert inferno.stats().recompiles == 0 and inferno.stats().graphs == 1


def test_calls_are_captured_in_a_graph():
    made = inferno.compile(causal, heads(2, 300), dynamic_shapes=HEADS, fallback=False)
    args = heads(3, 1111)
    with torch.no_grad():
        expected, graph = made(*args), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = made(*args)
        for _ in range(3):
            graph.replay()
    assert torch.equal(result, expected)


NO_BATCH, NO_QUERIES, NO_KEYS = Dim("b", min=0, max=64), Dim("s", min=0, max=2048), Dim("t", min=0, max=2048)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("dims, queries, sizes, dtype", [
    (({0: NO_BATCH, 2: NO_QUERIES},) * 3, 100, [(2, 0), (0, 100), (0, 2000), (0, 0), (3, 1500)], torch.bfloat16),
    (({0: NO_BATCH, 2: NO_QUERIES},) * 3, 100, [(0, 100), (3, 150)], torch.float32),
    (({0: NO_BATCH}, {0: NO_BATCH, 2: T}, {0: NO_BATCH, 2: T}), 1, [(0, 100), (0, 5000), (1, 5000)], torch.bfloat16),
    (({0: B, 2: NO_QUERIES}, {0: B, 2: NO_KEYS}, {0: B, 2: NO_KEYS}), 100, [(2, 100, 0), (2, 0, 100), (1, 0, 0), (1, 100, 50)], torch.bfloat16),
])
def test_without_queries_or_keys(dims, queries, sizes, dtype, interpret):
    """Results are empty, or zeros as eager has them."""
    torch.manual_seed(0)
    made = inferno.compile(grouped, heads(2, queries, 100, dtype=dtype), dynamic_shapes=dims, fallback=False)
    made = CompiledModule(made.program, torch.device("cuda"), 0.0, interpret=interpret)
    for batch, *counts in sizes:
        args = heads(batch, 1 if queries == 1 else counts[0], counts[-1], dtype=dtype)
        found, expected = made(*args), grouped(*args) if args[0].numel() else torch.empty_like(args[0])  # torch's is None
        torch.cuda.synchronize()
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
