"""Attention whose masks and biases come to shared memory, against float64: schedules, broadcasts, rows without keys, and the same bits each time."""

import sys
from pathlib import Path

import pytest
import torch
from checks import assert_right, compare, poison_memory, reference
from fixed_schedules import TARGET
from on_gpu import on_hopper

from inferno.schedule import assign
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import Attention

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

F = torch.nn.functional
pytestmark = on_hopper


def randn(*shape):
    return torch.randn(shape, device="cuda").bfloat16()


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def biased(q, k, v, mask, bias):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125 + mask + bias, -1) @ v


def hidden(mask):
    """Some keys, and all of some queries: the largest negative number, as models have it."""
    mask[..., 5:40, 30:50] = torch.finfo(mask.dtype).min
    mask[..., 61, :] = torch.finfo(mask.dtype).min
    return mask


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("schedule", [
    Attention(2, 64, masks="2"), Attention(1, 48, 3, turns=False, masks="2"), Attention(3, 32, order="dynamic", masks="2"),
    Attention(2, 64, 2, "static", apart=False, masks="2"),
], ids=["tiles", "blocks", "counter", "in place"])
def test_schedules(schedule, size):
    torch.manual_seed(0)
    args = (*(randn(4, 16, rows, size) for rows in (1000, 776, 776)), hidden(randn(4, 1, 1000, 776)))
    used = []

    def choose(kernel):
        if parse_attention(kernel) is None:
            return assign.choose(kernel, TARGET)
        used.append(schedule)
        return schedule

    compiled = compile_universal(masked, args, torch.device("cuda"), TARGET.name, choose, passes="fuse-attention{target=sm_90a always=1}")
    poison_memory()
    first = compiled(*args)
    assert used and compare(first, masked(*args), reference(masked, args, {})).right
    assert all(torch.equal(first, compiled(*args)) for _ in range(5))


@pytest.mark.parametrize("lengths", [(512, 512), (200, 328), (2048, 2048), (64, 64)])
@pytest.mark.parametrize("of", [(1, 1), (3, 1), (1, 8), (3, 8)], ids=["all", "batch", "heads", "each"])
def test_broadcasts(lengths, of):
    queries, keys = lengths
    compiled = assert_right(masked, (randn(3, 8, queries, 64), randn(3, 8, keys, 64), randn(3, 8, keys, 64), hidden(randn(*of, queries, keys))))
    assert 'masks = "2"' in compiled.ir("scheduled")


def test_a_mask_and_a_bias_by_hand():
    compiled = assert_right(biased, (*(randn(4, 8, 512, 64) for _ in range(3)), hidden(randn(4, 1, 512, 512)), randn(1, 8, 512, 512)))
    assert 'masks = "2 2"' in compiled.ir("scheduled")


def chosen(q, k, v, mask, bias):
    return torch.softmax(torch.where(mask, q @ k.transpose(-1, -2) * 0.125 + bias, float("-inf")), -1).to(v.dtype) @ v


@pytest.mark.parametrize("size", [64, 128])
def test_bools_and_float32(size):
    mask = torch.rand(4, 1, 512, 512, device="cuda") > 0.3
    mask[..., 61, :] = False
    args = *(randn(4, 8, 512, size) for _ in range(3)), mask
    assert "masks = \"1\"" in assert_right(masked, args).ir("scheduled")
    args[3][..., 61, :] = True
    assert "masks = \"4 1\"" in assert_right(chosen, (*args, randn(1, 8, 512, 512).float())).ir("scheduled")
