"""Masks and biases that come to shared memory: numbers by the simulator, which kernels have such, and what is emitted."""

import pytest
import torch
from attention_program import simulate
from checks import assert_close_to_float64
from kernels import TARGET, build, check_arrivals
from test_attention import empty, heads, kernel_of
from test_wgmma import assembled

from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.attention.masks import brought_masks, widths
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.support import read

F = torch.nn.functional


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def masked_and_biased(q, k, v, mask, bias):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.3 + mask + bias, -1) @ v


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule, early", [
    (Attention(2, 64, masks="2"), False), (Attention(1, 48, 3, turns=False, masks="2"), True),
], ids=["tiles", "blocks"])
@pytest.mark.parametrize("of", [(1, 1), (1, 2), (2, 1)], ids=["all", "heads", "batch"])
def test_numbers(schedule, early, of):
    """Of a number of keys that no line and no block divides: what is behind the last one is none of it."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, rows, 16).bfloat16() for rows in (150, 136, 136))
    mask = torch.randn(*of, 150, 136).bfloat16()
    mask[..., 3:90, 7:50] = float("-inf")
    assert_close_to_float64(simulate(masked, (q, k, v, mask), schedule, early), masked, (q, k, v, mask))


def chosen_and_biased(q, k, v, mask, bias):
    return torch.softmax(torch.where(mask, q @ k.transpose(-1, -2) * 0.3 + bias, float("-inf")), -1).to(v.dtype) @ v


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [Attention(2, 48, masks="4 1"), Attention(1, 112, 2, turns=False, masks="4 1")], ids=["tiles", "blocks"])
def test_bools_and_float32(schedule):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, rows, 16).bfloat16() for rows in (100, 176, 176))
    args = q, k, v, torch.rand(1, 1, 100, 176) > 0.3, torch.randn(1, 2, 100, 176)
    assert_close_to_float64(simulate(chosen_and_biased, args, schedule), chosen_and_biased, args)


def test_more_bytes_than_a_line():
    torch.manual_seed(0)
    args = *(torch.randn(1, 1, rows, 16).bfloat16() for rows in (64, 288, 288)), torch.rand(64, 288) > 0.3
    assert_close_to_float64(simulate(masked, args, Attention(1, 144, 2, turns=False, masks="1")), masked, args)


@pytest.mark.thorough
def test_two_and_one_that_is_read():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 70, 16).bfloat16() for _ in range(3))
    wide = torch.randn(1, 2, 70, 72).bfloat16()
    for bias, masks in ((torch.randn(2, 1, 70, 72).bfloat16()[..., :70], "2 2"), (torch.randn(2, 1, 1, 70).bfloat16(), "2")):
        args = q, k, v, wide[..., :70], bias
        assert_close_to_float64(simulate(masked_and_biased, args, Attention(2, 32, masks=masks)), masked_and_biased, args)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("mask, brought", [
    (empty(500, 768), "2"), (empty(2, 4, 500, 768), "2"), (empty(500, 772), ""), (empty(4, 1, 768), ""), (empty(500, 768, dtype=torch.bool), "1"),
    (empty(500, 776, dtype=torch.bool), ""), (empty(768, 500).t(), ""), (empty(500, 768, dtype=torch.float32), "4"),
], ids=["all", "heads", "lines of other lengths", "keys", "bool", "lines of other lengths of bools", "transposed", "float32"])
def test_which(mask, brought):
    def function(q, k, v, mask):
        return masked(q, k, v, mask if mask.dtype == torch.bool else mask.to(q.dtype))

    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel_of(function, (*heads(500, mask.shape[-1], 64), mask)))
        a, tiling = read(kernels(module)[0], TARGET)
        assert widths(brought_masks(a, tiling)) == brought
        assert [fits(Attention(keys=64, masks=each), a, TARGET) for each in ("", "2", "2 2")] == [True, brought == "2", False]


def test_nothing_is_read_of_memory():
    built = build(kernel_of(masked, (*heads(1024, 1024, 64), empty(1024, 1024))), "attention", Attention(masks="2"))
    assert not built.accesses("global") and built.count("ldmatrix") == 2 * 8  # of the first block, and of the loop
    assembled(built)


def test_slots_are_given_back_when_they_were_read():
    built = build(kernel_of(masked, (*heads(1024, 1024, 64), empty(1024, 1024, dtype=torch.bool))), "attention", Attention(masks="1"))
    loads, arrivals = check_arrivals(built.ptx)
    assert loads == 2 * 2 * 128 // 8 and arrivals  # of the first block, and of the loop
