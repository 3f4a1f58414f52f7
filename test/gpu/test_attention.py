"""Attention as one kernel against float64: head sizes, any numbers of queries and keys, layouts, masks, rows without keys, schedules."""

import pytest
import torch
from checks import assert_right

from inferno.schedule.attention import Attention
from inferno.tools.check import compare, reference

F = torch.nn.functional
HALVES = [torch.bfloat16, torch.float16]

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU")


@pytest.fixture(autouse=True)
def switched_on(monkeypatch):
    monkeypatch.setenv("INFERNO_ATTENTION", "1")


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def heads(queries, keys, size, width=0, batch=2, of=4, shared=4, dtype=torch.bfloat16):
    """q, k and v."""
    return (
        randn(batch, of, queries, size, dtype=dtype), randn(batch, shared, keys, size, dtype=dtype), randn(batch, shared, keys, width or size, dtype=dtype),
    )


def right(function, args):
    """Right, as one kernel."""
    compiled = assert_right(function, args)
    text = compiled.ir("scheduled")
    assert text.count('generator = "attention"') == 1 and text.count("call @") == 1
    return compiled


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def with_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size, width", [(8, 8), (32, 32), (40, 40), (64, 64), (80, 80), (96, 96), (128, 128), (192, 128), (256, 256), (64, 120)])
def test_head_sizes(dtype, size, width):
    args = heads(333, 777, size, width, dtype=dtype)
    right(F.scaled_dot_product_attention, args)
    right(causal, args)


@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 1000), (5, 3), (64, 64), (65, 129), (128, 128), (1000, 1), (1025, 1500), (1500, 1025)])
def test_lengths(queries, keys):
    for size in (64, 128):
        args = heads(queries, keys, size)
        right(F.scaled_dot_product_attention, args)
        right(causal, args)


@pytest.mark.parametrize("queries, keys, size", [(1, 4096, 128), (16, 1000, 64), (7, 5000, 256), (64, 20000, 80)])
def test_few_queries(queries, keys, size):
    compiled = right(F.scaled_dot_product_attention, heads(queries, keys, size))
    assert "parts = 1 " not in compiled.ir("scheduled")


@pytest.mark.parametrize("batch, of, shared", [(1, 1, 1), (3, 5, 5), (2, 8, 2), (5, 32, 8), (1, 6, 1)])
def test_heads_share_keys(batch, of, shared):
    args = heads(600, 600, 128, batch=batch, of=of, shared=shared)
    right(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), args)
    right(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), args)


def test_heads_lie_side_by_side():
    def model(x, w):
        q, k, v = F.linear(x, w).view(2, 300, 3, 6, 64).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 300, 384)

    compiled = assert_right(model, (randn(2, 300, 384), randn(1152, 384) / 20))
    assert 'generator = "attention"' in compiled.ir("scheduled")


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("shape", [(300, 400), (300, 399), (2, 1, 300, 400), (4, 300, 400), (2, 1, 1, 400), (300, 1)])
def test_masks(size, shape):
    q, k, v = heads(300, shape[-1] if shape[-1] > 1 else 333, size)
    right(with_mask, (q, k, v, randn(*shape)))
    right(with_mask, (q, k, v, torch.rand(shape, device="cuda") > 0.3))


def test_rows_without_keys():
    q, k, v = heads(300, 400, 64)
    mask = torch.rand(300, 400, device="cuda") > 0.5
    mask[7], mask[100:200] = False, False
    right(with_mask, (q, k, v, mask))


@pytest.mark.parametrize("hidden", [-1e9, torch.finfo(torch.bfloat16).min])
def test_rows_whose_keys_are_all_as_little_seen(hidden):
    q, k, v = heads(300, 399, 64)
    mask = torch.where(torch.rand(300, 399, device="cuda") > 0.5, 0.0, hidden)
    mask[7], mask[100:200] = hidden, hidden
    right(with_mask, (q, k, v, mask.bfloat16()))


def test_rows_without_keys_are_no_numbers_where_softmax_says_so():
    def by_hand(q, k, v, mask):
        return torch.softmax((q @ k.transpose(-1, -2)).float() * 0.125 + mask, -1).to(q.dtype) @ v

    q, k, v = heads(300, 400, 64)
    mask = torch.zeros(300, 400, device="cuda")
    mask[7], mask[100:200, :390] = -float("inf"), -float("inf")
    compiled = assert_right(by_hand, (q, k, v, mask))
    assert compiled(q, k, v, mask)[:, :, 7].isnan().all()


@pytest.mark.parametrize("low, high", [(-63, 0), (-300, 0), (-100, 100), (None, 200), (-10, None), (None, -100)])
def test_bands(low, high):
    def model(q, k, v):
        i, j = torch.arange(700, device=q.device)[:, None], torch.arange(900, device=q.device)[None]
        mask = torch.ones(700, 900, dtype=torch.bool, device=q.device)
        mask = mask & (j <= i + high) if high is not None else mask
        mask = mask & (j >= i + low) if low is not None else mask
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    compiled = assert_right(model, heads(700, 900, 64))
    assert 'generator = "attention"' in compiled.ir("scheduled")


@pytest.mark.parametrize("scale", [0.01, 1.0, -0.2])
def test_scales(scale):
    right(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), heads(200, 300, 64))


def test_what_is_no_number():
    q, k, v = heads(300, 400, 64)
    q[0, 0, 3], k[1, 1, 5] = float("nan"), float("inf")
    v[0, 1, 7, 3] = float("inf")
    right(F.scaled_dot_product_attention, (q, k, v))


@pytest.mark.parametrize("schedule", [
    Attention(order="single"), Attention(order="static"), Attention(order="dynamic"), Attention(turns=False), Attention(split=False),
    Attention(overlap=False), Attention(apart=False, order="dynamic"), Attention(1, 64, 3, turns=False), Attention(3, 64, 2, "dynamic"),
    Attention(2, 176, 2, apart=False), Attention(2, 80, 2, "static"), Attention(1, 64, 2, turns=False, parts=3),
], ids=str)
def test_schedules(schedule, monkeypatch):
    from fixed_schedules import TARGET
    from inferno.schedule import assign
    from inferno.schedule.attention_kernel import parse_attention
    from universal_program import compile_universal

    args = heads(1000, 1000, 64 if schedule.consumers == 3 else 128, of=40, shared=8)

    def model(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def choose(kernel):
        return schedule if parse_attention(kernel) is not None else assign.choose(kernel, TARGET)

    compiled = compile_universal(model, args, torch.device("cuda"), TARGET.name, choose, passes="fuse-attention{target=sm_90a always=1}")
    first = compiled(*args)
    assert compare(first, model(*args), reference(model, args, {})).right
    assert all(torch.equal(first, compiled(*args)) for _ in range(5))


def test_streams_share_no_counter():
    def model(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    compiled, args = right(model, args := heads(2048, 2048, 128, of=16, shared=16)), args
    expected, streams = compiled(*args), [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    found = []
    for _ in range(5):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(compiled(*args))
    torch.cuda.synchronize()
    assert all(torch.equal(expected, f) for f in found)
