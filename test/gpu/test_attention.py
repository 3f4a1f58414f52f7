"""Attention as one kernel against float64: head sizes, any numbers of queries and keys, layouts, masks, rows without keys, schedules."""

import re

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper
from torch.nn.attention import SDPBackend, sdpa_kernel

import inferno
from inferno.runtime.check.comparison import compare
from inferno.schedule.attention.schedule import Attention
from inferno.tools.check import reference

F = torch.nn.functional

pytestmark = on_hopper


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
    assert len(re.findall(r'generator = "(?:short_)?attention"', text)) == 1 and text.count("call @") == 1
    return compiled


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def with_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("dtype, size, width", [
    (torch.bfloat16, 64, 64), (torch.float16, 128, 128), (torch.float16, 72, 40), (torch.bfloat16, 256, 256),
])
def test_head_sizes(dtype, size, width):
    right(causal, heads(333, 777, size, width, dtype=dtype))


@pytest.mark.parametrize("queries, keys", [(5, 3), (1025, 1500)])
def test_lengths(queries, keys):
    right(F.scaled_dot_product_attention, heads(queries, keys, 64))


def test_few_queries():
    compiled = right(F.scaled_dot_product_attention, heads(7, 4096, 128))
    text = compiled.ir("scheduled")
    assert "parts = 1 " not in text or "splits = 1 " not in text


def test_heads_share_keys():
    right(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), heads(600, 600, 128, of=32, shared=8))


def test_heads_lie_side_by_side():
    def model(x, w):
        q, k, v = F.linear(x, w).view(2, 300, 3, 6, 64).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 300, 384)

    compiled = assert_right(model, (randn(2, 300, 384), randn(1152, 384) / 20))
    assert 'generator = "attention"' in compiled.ir("scheduled")


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("batch, length, of, size", [(32, 128, 25, 192), (32, 50, 32, 192), (3, 200, 4, 96)])
def test_one_tensor_of_all(batch, length, of, size, is_causal):
    """Queries, keys and values are read where they lie, in a large tensor too; tiles of a causal head that has one are walked."""
    def function(x):
        q, k, v = x.view(batch, length, 3, of, size).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2).flatten(2)

    right(function, (randn(batch, length, 3 * of * size),))


@pytest.mark.parametrize("queries, of, keys, size", [(4, 128, 3000, 64), (8, 4, 500, 128), (1, 800, 500, 128), (9, 32, 300, 64)])
def test_few_queries_whose_scores_are_computed(queries, of, keys, size):
    """Of up to 8 queries half of a thread's rows are none: by one block of threads, shares of the keys and equal shares."""
    right(lambda q, k, v: torch.softmax(30 * torch.tanh(q @ k.mT / size**0.5 / 30), -1) @ v, heads(queries, keys, size, batch=1, of=of, shared=of))


def hidden_again(q, k, v, hidden, least):
    return torch.softmax((q @ k.mT / 8).masked_fill(hidden, least), -1).masked_fill(hidden, 0) @ v


@pytest.mark.parametrize("least", [-1e4, -torch.inf, torch.finfo(torch.bfloat16).min])
@pytest.mark.parametrize("queries, keys, size", [(300, 400, 64), (1000, 1000, 128), (4, 2000, 64), (130, 130, 192)])
def test_weights_that_are_masked_again(queries, keys, size, least):
    """Rows of which all is hidden give 0, as with a mask of keys."""
    each = torch.rand(2, 1, queries, keys, device="cuda") < 0.4
    each[:, :, 3] = True
    some = torch.arange(keys, device="cuda") >= torch.tensor([keys, keys // 3], device="cuda").view(2, 1, 1, 1)
    for mask in (each, some, each.expand(2, 4, -1, -1).contiguous()):
        right(lambda q, k, v, m: hidden_again(q, k, v, m, least), (*heads(queries, keys, size), mask))


def test_weights_that_are_multiplied():
    of_queries, of_each = randn(2, 1, 300, 1), randn(4, 300, 400)
    right(lambda q, k, v, a, b: torch.softmax(q @ k.mT / 8, -1) * a * b @ v, (*heads(300, 400, 64), of_queries, of_each))


def test_masks():
    right(with_mask, (*heads(300, 399, 64), randn(4, 300, 399)))
    right(with_mask, (*heads(300, 400, 128), torch.rand(2, 1, 1, 400, device="cuda") > 0.3))


def test_rows_without_keys():
    q, k, v = heads(300, 400, 64)
    mask = torch.rand(300, 400, device="cuda") > 0.5
    mask[7], mask[100:200] = False, False
    right(with_mask, (q, k, v, mask))


def test_rows_whose_keys_are_all_as_little_seen():
    (q, k, v), hidden = heads(300, 399, 64), torch.finfo(torch.bfloat16).min
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


@pytest.mark.parametrize("low, high", [(-63, 0), (-300, 50)])
def test_bands(low, high):
    def model(q, k, v):
        i, j = torch.arange(700, device=q.device)[:, None], torch.arange(900, device=q.device)[None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i + high) & (j >= i + low))

    compiled = assert_right(model, heads(700, 900, 64))
    assert 'generator = "attention"' in compiled.ir("scheduled")


def test_what_is_no_number():
    q, k, v = heads(300, 400, 64)
    q[0, 0, 3], k[1, 1, 5] = float("nan"), float("inf")
    v[0, 1, 7, 3] = float("inf")
    right(F.scaled_dot_product_attention, (q, k, v))


@pytest.mark.parametrize("queries", [300, 1])
def test_large_scores(queries):
    q, k, v = heads(queries, 400, 64, dtype=torch.float32)
    right(F.scaled_dot_product_attention, (q * 1e5, torch.cat((k[:, :, :200],) * 2, 2) * 1e5, v))


@pytest.mark.parametrize("schedule", [
    Attention(order="dynamic"), Attention(2, 80, 2, "static", apart=False), Attention(1, 64, 3, turns=False, parts=3),
], ids=str)
def test_schedules(schedule):
    args = heads(1000, 1000, 64 if schedule.consumers == 3 else 128, of=40, shared=8)
    compiled = scheduled(schedule, args, is_causal=True)
    first = compiled(*args)
    assert all(torch.equal(first, compiled(*args)) for _ in range(5))


def scheduled(schedule, args, is_causal=False):
    """Attention with a schedule, found right."""
    def model(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)

    compiled = compiled_as(schedule, model, args)
    assert compare(compiled(*args), model(*args), reference(model, args, {})).right
    return compiled


def compiled_as(schedule, model, args):
    """Attention with a schedule."""
    from fixed_schedules import TARGET
    from inferno.schedule import assign
    from inferno.schedule.attention.parser import parse_attention
    from universal_program import compile_universal

    def choose(kernel):
        return schedule if parse_attention(kernel) is not None else assign.choose(kernel, TARGET)

    return compile_universal(model, args, torch.device("cuda"), TARGET.name, choose, passes="fuse-attention{target=sm_90a always=1}")


def assert_same_on_streams(compiled, args, calls):
    """So many calls on each of three streams at the same time give the same bits as one alone."""
    expected, streams = compiled(*args), [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    found = []
    for stream in calls * streams:
        with torch.cuda.stream(stream):
            found.append(compiled(*args))
    torch.cuda.synchronize()
    assert all(torch.equal(expected, f) for f in found)


@pytest.mark.parametrize("schedule", [Attention(3, 128, order="even"), Attention(2, 48, order="even"), Attention(1, 64, 3, "even", False)], ids=str)
def test_equal_shares(schedule):
    """On several streams at the same time, whichever of two neighbours is last."""
    args = heads(1000, 1100, 64, batch=3, of=25, shared=25)
    assert_same_on_streams(scheduled(schedule, args), args, 10)


@pytest.mark.parametrize("schedule, of, queries, keys", [
    (Attention(1, 32, order="even", turns=False), 300, 40, 72), (Attention(2, 32, order="even"), 200, 100, 90),
], ids=str)
def test_equal_shares_alone(schedule, of, queries, keys):
    """Little, and no other kernel beside, for compute-sanitizer's racecheck: the exact numbers are the host's."""
    given = [torch.randn(1, of, rows, 64).bfloat16() for rows in (queries, keys, keys)]
    args = [x.cuda() for x in given]
    found, exact = compiled_as(schedule, F.scaled_dot_product_attention, args)(*args).cpu(), F.scaled_dot_product_attention(*(x.double() for x in given))
    assert (found.double() - exact).norm() <= torch.finfo(torch.bfloat16).eps * exact.norm()


@pytest.mark.parametrize("queries, parts, splits", [(1, 8, 1), (1, 1, 14), (1, 2, 7), (1, 4, 4), (60, 3, 1), (60, 2, 2)])
def test_blocks_share_keys(queries, parts, splits):
    """On several streams at the same time, whichever block is last."""
    args = heads(queries, 7000, 128, batch=1, of=8, shared=2)
    schedule = Attention(1, 64, 3, turns=False, parts=parts, splits=splits, staged=queries > 1)
    assert_same_on_streams(scheduled(schedule, args), args, 20)


def test_streams_share_no_counter():
    args = heads(2048, 2048, 128, of=16, shared=16)
    assert_same_on_streams(right(causal, args), args, 5)


@pytest.mark.parametrize("batch, of, length, size, cut", [(8, 12, 32, 64, True), (16, 12, 64, 64, True), (4, 16, 128, 128, True), (2, 16, 1024, 64, False)])
def test_short_float32(batch, of, length, size, cut):
    """Short sequences are cut by the blocks that multiply them."""
    args = [torch.randn(batch, of, length, size, device="cuda") for _ in range(3)]
    assert f"cut = {str(cut).lower()}" in right(F.scaled_dot_product_attention, args).ir("scheduled")


@pytest.mark.parametrize("batch, of, shared, queries, keys", [(4, 32, 8, 1, 4096), (1, 8, 8, 8, 16384), (1, 2, 2, 500, 8192)])
def test_long_float32(batch, of, shared, queries, keys):
    """Errors do not grow with the blocks of keys."""
    q, k, v = (torch.randn(batch, h, n, 128, device="cuda") for h, n in ((of, queries), (shared, keys), (shared, keys)))
    right(grouped, (q, k, v))


# What no GPU has run yet.

@pytest.mark.parametrize("queries, keys, size, width", [(32, 32, 64, 64), (333, 777, 128, 128), (1000, 1000, 40, 72)])
def test_float32(unmeasured, queries, keys, size, width):
    compiled = right(causal, heads(queries, keys, size, width, of=32, shared=32, dtype=torch.float32))
    assert "pieces = 3" in compiled.ir("scheduled")


def test_float32_few_queries(unmeasured):
    text = right(F.scaled_dot_product_attention, heads(1, 6000, 64, dtype=torch.float32)).ir("scheduled")
    assert "warp_rows = 8" in text and ("parts = 1 " not in text or "splits = 1 " not in text)


def test_float32_of_any_strides(unmeasured):
    def model(q, k, v):
        return F.scaled_dot_product_attention(q, k.transpose(-1, -2), v.transpose(1, 2), enable_gqa=True)

    q, k, v = heads(500, 600, 64, of=8, shared=2, dtype=torch.float32)
    right(model, (q, k.transpose(-1, -2).contiguous(), v.transpose(1, 2).contiguous()))


def test_what_is_no_number_in_float32(unmeasured):
    """As products of float32 have it.  (torch's own kernel multiplies TF32 parts of numbers, and an infinite number's second part is NaN.)"""
    q, k, v = args = heads(300, 400, 64, dtype=torch.float32)
    q[0, 0, 3], k[1, 1, 5] = float("nan"), float("inf")
    v[0, 1, 7, 3] = -float("inf")
    compiled = inferno.compile(F.scaled_dot_product_attention, args, fallback=False)
    assert "pieces = 3" in compiled.ir("scheduled")
    with sdpa_kernel(SDPBackend.MATH):
        products = F.scaled_dot_product_attention(*args)
    assert products[0, 1, :, 3].isneginf().all() and products[0, 0, 3].isnan().all() and products[1, 0].isfinite().all()
    found = compare(compiled(*args), products, reference(F.scaled_dot_product_attention, args, {}))
    assert found.right, str(found)


@pytest.mark.parametrize("size, width", [(128, 128), (72, 40)])
def test_rows_innermost(unmeasured, size, width):
    def model(q, k, v):
        return F.scaled_dot_product_attention(*(x.transpose(-1, -2) for x in (q, k, v))).transpose(-1, -2).contiguous()

    right(model, (randn(2, 3, size, 520), randn(2, 3, size, 776), randn(2, 3, width, 776)))


@pytest.mark.parametrize("keys", [777, 40])
def test_sinks(unmeasured, keys):
    def model(q, k, v, sinks):
        scores = torch.cat([q @ k.transpose(-1, -2) / 8, sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)], -1)
        scores = scores - scores.amax(-1, keepdim=True)
        return torch.softmax(scores, -1)[..., :-1] @ v

    right(model, (*heads(333, keys, 64), 3 * randn(4)))


@pytest.mark.parametrize("tokens, position, shared", [(1, 0, 2), (1, 5000, 2), (4, 4000, 8), (1, 8191, 1)])
def test_a_cache(unmeasured, tokens, position, shared):
    """Few queries at a position of a cache, which is read that far; what is behind it is of no consequence, be it no number."""
    def model(q, k, v, position):
        mask = torch.arange(k.shape[2], device=q.device) <= torch.arange(q.shape[2], device=q.device)[:, None] + position
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    args = (*heads(tokens, 8192, 128, batch=1, of=8, shared=shared), torch.tensor(position, device="cuda"))
    compiled = right(model, args)
    text = compiled.ir("scheduled")
    assert "bounded = true" in text and ("splits = 1 " not in text or shared == 8)
    expected = compiled(*args)
    args[1][:, :, position + tokens:] = float("nan")
    assert torch.equal(compiled(*args), expected)
    assert all(torch.equal(compiled(*args), expected) for _ in range(20))  # whichever block is last
