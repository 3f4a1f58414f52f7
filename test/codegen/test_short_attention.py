"""Attention of many short rows from registers: numbers on the simulator beside float64, which kernels it takes, and that ptxas takes them without spills."""

import pytest
import torch
from attention_program import simulated
from checks import assert_close_to_float64
from test_attention import kernel_of
from kernels import build

from inferno.errors import CompileError
from inferno.schedule.attention.short_attention import ShortAttention

F = torch.nn.functional
bf16, f16 = torch.bfloat16, torch.float16
attend = F.scaled_dot_product_attention


def heads(batch, queries, keys, depth, width=None, shared=None, dtype=bf16):
    """q, k and v of ``batch``, a pair; ``shared`` heads of keys."""
    b, h = batch
    sizes = (b, h, queries, depth), (b, shared or h, keys, depth), (b, shared or h, keys, width or depth)
    return tuple(torch.randn(size).to(dtype) for size in sizes)


USUAL = ShortAttention()


def right(function, args, schedule=USUAL):
    assert_close_to_float64(simulated(function, args, schedule)(*args), function, args)


@pytest.mark.covering(most=10)
@pytest.mark.parametrize("dtype", [bf16, f16])
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("queries, keys, depth, width", [
    (9, 9, 32, 32), (16, 16, 16, 16), (49, 49, 32, 32), (8, 8, 64, 64), (4, 4, 32, 32), (1, 50, 32, 32), (21, 21, 24, 24), (20, 37, 40, 24), (3, 64, 8, 64),
    (17, 2, 128, 8), (33, 30, 80, 48), (5, 7, 6, 10), (5, 7, 3, 5),
])
def test_sizes(queries, keys, depth, width, warps, dtype):
    right(attend, heads((3, 3), queries, keys, depth, width, dtype=dtype), ShortAttention(warps))


def causal(q, k, v):
    return attend(q, k, v, is_causal=True)


def by_hand(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def negative_scale(q, k, v):
    return attend(q, k, v, scale=-0.3)


def window(q, k, v):
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    return attend(q, k, v, (j <= i) & (j > i - 4))


def capped(q, k, v):
    return torch.softmax(torch.tanh(q @ k.transpose(-1, -2) * 0.05) * 20, -1) @ v


def gated(q, k, v):
    return torch.sigmoid(q) * attend(q, k, v) + 0.5


def transposed(q, k, v):
    """As a layer of a network has them, rows of all heads."""
    return attend(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("function", [causal, by_hand, negative_scale, window, capped, gated, transposed])
@pytest.mark.parametrize("queries, keys, depth", [(9, 9, 32), (18, 18, 24), (33, 33, 64), (7, 7, 12)])
def test_what_is_made_of_scores_and_results(function, queries, keys, depth):
    right(function, heads((2, 3), queries, keys, depth))


@pytest.mark.parametrize("keys", [16, 17])
def test_masks(keys):
    q, k, v = heads((2, 3), 18, keys, 32)
    bias = torch.randn(3, 18, keys).to(bf16)
    right(lambda q, k, v, m: attend(q, k, v, m), (q, k, v, bias))
    right(lambda q, k, v, m: attend(q, k, v, m), (q, k, v, torch.rand(2, 1, 18, keys) > 0.4))
    right(lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2) + m.float(), -1).to(q.dtype) @ v, (q, k, v, bias))


def test_rows_without_a_key():
    q, k, v = heads((2, 2), 9, 12, 16)
    seen = torch.ones(2, 1, 9, 12, dtype=torch.bool)
    seen[0, 0, 3] = False
    right(lambda q, k, v, m: attend(q, k, v, m), (q, k, v, seen))
    nothing = torch.zeros(2, 1, 9, 12).masked_fill(~seen, -torch.inf)
    found = simulated(lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2) + m, -1).to(q.dtype) @ v, (q, k, v, nothing), ShortAttention())(q, k, v, nothing)
    assert found[0, :, 3].isnan().all() and found.isnan().sum() == 2 * 16


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("order", ["ldk,ld,ld", "dl,ld,ld", "ld,dl,ld", "ld,ld,dl", "dl,dl,dl", "ld,dl,dl"])
@pytest.mark.parametrize("keys, depth", [(16, 16), (24, 32), (9, 24)])
def test_orders_in_memory(order, keys, depth):
    """Whichever of a factor's sides is innermost."""
    q, k, v = heads((2, 2), 16, keys, depth)
    turn = ["dl" == x for x in order.split(",")]
    args = [x.transpose(2, 3).contiguous() if t else x for x, t in zip((q, k, v), turn)]
    right(lambda *args: attend(*(x.transpose(2, 3) if t else x for x, t in zip(args, turn))), tuple(args))


def test_shared_keys():
    right(lambda q, k, v: attend(q, k, v, enable_gqa=True), heads((2, 6), 10, 14, 32, shared=2))


@pytest.mark.parametrize("large", [torch.inf, -torch.inf, torch.nan, 3e4])
def test_numbers_that_are_not_finite(large):
    q, k, v = heads((2, 2), 9, 9, 16)
    v[1, 0, 2, 3] = q[0, 1, 4, 5] = large
    right(by_hand, (q, k, v))


CHOSEN = [  # batch, heads, queries, keys, depth, width
    ((4096, 4), 9, 9, 32, 32), ((2048, 3), 49, 49, 32, 32), ((12544, 12), 8, 8, 64, 64), ((1024, 8), 21, 21, 24, 24), ((4096, 8), 1, 50, 32, 32),
    ((4096, 2), 7, 7, 10, 6),
]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("batch, queries, keys, depth, width", CHOSEN)
def test_what_is_chosen(batch, queries, keys, depth, width):
    q, k, v = (torch.empty((*batch, *sizes), dtype=bf16, device="meta") for sizes in ((queries, depth), (keys, depth), (keys, width)))
    built = build(kernel_of(attend, (q, k, v)), "short_attention")
    assert built.count(r"mma\.sync") > 0 and built.count("bar.sync") == 0


def test_what_is_not_chosen():
    """More keys, and few tiles of 64 queries, are for the tensor cores of Hopper; a kernel that is given the schedule nevertheless is refused."""
    text = kernel_of(attend, heads((2, 8), 512, 512, 64))
    build(text, "attention")
    with pytest.raises(CompileError, match="is not attention that"):
        simulated(attend, heads((1, 1), 80, 80, 16), ShortAttention())


def test_a_batch_that_varies():
    batch = torch.export.Dim("batch", min=1, max=100)
    q, k, v = heads((5, 3), 9, 9, 32)
    model = simulated(transposed, (q, k, v), USUAL, dynamic_shapes=({0: batch},) * 3)
    for n in (5, 1, 3, 7):
        args = heads((n, 3), 9, 9, 32)
        assert_close_to_float64(model(*args), transposed, args)
