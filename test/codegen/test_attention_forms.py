"""Attention of other forms than softmax of scores: numbers on the simulator beside float64, and that ptxas takes the kernels without spills."""

import itertools

import pytest
import torch
from attention_cases import WEIGHTS, chunked, gated, sam, softmax1, softmax1_below_the_largest, weighted
from attention_program import share_two_multiprocessors, simulate
from checks import assert_close_to_float64
from kernels import build
from test_attention import chosen, heads, kernel_of
from test_wgmma import assembled

import inferno
from inferno.mlir import ir, idle_context
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.short_attention import ShortAttention

F = torch.nn.functional
ALONE, DIVIDED = ("sigmoid", "sigmoid, causal", "linear, causal", "decayed"), ("divided by sizes, causal", "divided by sums, causal")


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, schedule", [
    *((f, Attention(1, 16, turns=False, **shares)) for f in (softmax1, softmax1_below_the_largest) for shares in ({}, {"parts": 3}, {"splits": 3})),
    (softmax1_below_the_largest, Attention(1, 16, 3, "even", False)), (softmax1, Attention(1, 16, 2, turns=False, overlap=False, pieces=3)),
])
@pytest.mark.parametrize("scale", [1, 30])
def test_softmax1(function, schedule, scale, monkeypatch):
    torch.manual_seed(0)
    dtype = torch.float32 if schedule.pieces > 1 else torch.bfloat16
    if schedule.order == "even":
        share_two_multiprocessors(monkeypatch)
    args = tuple((torch.randn(3, 2, 40, 16) * scale**0.5).to(dtype) for _ in range(3))
    assert_close_to_float64(simulate(function, args, schedule), function, args)


def heads_of(name, queries, keys):
    torch.manual_seed(0)
    return (*(torch.randn(3, 2, n, 16).bfloat16() for n in (queries, keys, keys)), *([torch.rand(2)] if name == "decayed" else []))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name, schedule", [
    *itertools.product(ALONE + DIVIDED, (
        Attention(1, 16, turns=False), Attention(1, 48, turns=False), Attention(2, 32, overlap=False), Attention(1, 16, turns=False, splits=3),
        Attention(1, 16, turns=False, parts=3),
    )), *((name, ShortAttention()) for name in ALONE),
])
def test_weights_of_scores_alone(name, schedule):
    """Keys are no multiple of a block's: the sigmoid of nothing is none."""
    args = heads_of(name, 40, 44)
    assert_close_to_float64(simulate(WEIGHTS[name], args, schedule), WEIGHTS[name], args)


@pytest.mark.parametrize("queries", [4, 150])
@pytest.mark.parametrize("name", ["sigmoid", "sigmoid, divided"])
def test_equal_shares(name, queries, monkeypatch):
    share_two_multiprocessors(monkeypatch)
    function = WEIGHTS["sigmoid"] if name == "sigmoid" else weighted(lambda s: (w := s.sigmoid()) / w.sum(-1, keepdim=True))
    args = heads_of(name, queries, 90)
    assert_close_to_float64(simulate(function, args, Attention(1, 16, 3, "even", False)), function, args)


def test_chunks():
    torch.manual_seed(0)
    c, b, x = torch.randn(3, 40, 16).bfloat16(), torch.randn(3, 40, 16).bfloat16(), torch.randn(3, 4, 40, 16).bfloat16()
    args = (c, b, x, -torch.rand(3, 4, 40))
    assert_close_to_float64(simulate(chunked, args, Attention(1, 16, turns=False)), chunked, args)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", [Attention(1, 16, turns=False), Attention(1, 16, turns=False, parts=3), Attention(2, 32, overlap=False)])
def test_gates(schedule):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 40, 16).bfloat16() for _ in range(3))
    args = (q, k, v, torch.randn(2, 40, 3, 32).bfloat16())
    assert_close_to_float64(simulate(gated, args, schedule), gated, args)


@pytest.mark.parametrize("gate, kernels", [
    (lambda q, k, v, x: F.scaled_dot_product_attention(q, k, v) * torch.sigmoid(x.unflatten(2, (4, -1)).transpose(1, 2)), 1),
    (lambda q, k, v, x: F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) * torch.sigmoid(x), 1),
    (lambda q, k, v, x: F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) + x, 1),
    (lambda q, k, v, x: ((o := F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)) * torch.sigmoid(x), o), 2),
    (lambda q, k, v, x: (F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) * (g := torch.sigmoid(x)), g), 2),
])
def test_what_is_made_of_results_is_part_of_the_kernel(gate, kernels):
    """Unless something else reads them, or the gate."""
    args = (*heads(512, 512, 64), torch.zeros(2, 512, 256).bfloat16())
    assert len(inferno.compile(gate, args, target="sm_90a").explain().rows) == kernels


def image(height, width, batch=2, heads=3, size=16):
    q, k, v = (torch.randn(batch, heads, height * width, size).bfloat16() for _ in range(3))
    return q, k, v, torch.randn(2 * height - 1, size).bfloat16(), torch.randn(2 * width - 1, size).bfloat16()


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("height, width, schedule", [
    (6, 6, Attention(1, 16, turns=False)), (5, 7, Attention(1, 16, turns=False)), (4, 8, Attention(1, 16, turns=False)),
    (6, 8, Attention(1, 32, turns=False)), (3, 24, Attention(2, 32)), (5, 16, Attention(1, 48, turns=False)), (3, 16, Attention(1, 32, turns=False)),
    (5, 8, Attention(1, 32, turns=False, splits=2)), (5, 8, Attention(1, 32, turns=False, parts=2)),
])
def test_biases_of_rows_and_of_columns(height, width, schedule):
    """Rows of whole blocks and of parts, of multiples of 8 and others, and a last block with fewer rows."""
    torch.manual_seed(0)
    args = image(height, width)
    assert_close_to_float64(simulate(sam, args, schedule), sam, args)


def test_biases_of_columns_stay_in_registers():
    """Those of 64 columns are the same for each block of 64 keys, with 2 rows of a thread; that of a row of the image is one for all of them."""
    text = kernel_of(sam, image(64, 64, 1, 12, 64))
    built = build(text, "attention", chosen(text))
    assert built.schedule.keys % 64 == 0 and built.count(r"ld\.global") <= 2 * (8 + 3 * built.schedule.keys // 64)
    assembled(built)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["sigmoid", "sigmoid, causal", "relu, squared, causal", "linear, causal"])
@pytest.mark.parametrize("size", [64, 128])
def test_the_loop(name, size):
    """Nothing is known of rows: there are no maxima, no sums, and nothing that was added up is multiplied."""
    text = kernel_of(WEIGHTS[name], heads(2048, 2048, size))
    built = build(text, "attention", chosen(text))
    powers, exchanged = built.count(r"ex2\.approx"), built.count(r"shfl\.sync\.bfly")
    assert exchanged == 0 and (powers > 0) == ("sigmoid" in name)
    if "linear" in name:
        assert built.count(r"(?:add|fma)\.(?:rn\.)?f32") == built.count(r"max\.f32") == 0
    assembled(built)


def test_causal_ones_skip_blocks():
    """As many tiles are begun by a counter, the longest first."""
    for name in ("sigmoid, causal", "sigmoid, causal by a finite number", "relu, squared, causal", "linear, causal", "linear, causal by a product"):
        assert chosen(kernel_of(WEIGHTS[name], heads(2048, 2048, 64, of=16, shared=16))).order == "dynamic"
    assert chosen(kernel_of(WEIGHTS["sigmoid"], heads(2048, 2048, 64, of=16, shared=16))).order != "dynamic"


def test_one_after_the_other_where_matrices_are_shared():
    """Two layers' products stay two."""
    with idle_context(), ir.Location.unknown(), pytest.raises(ValueError):
        kernel_of(lambda x, v, w: torch.relu(x @ v) @ w, tuple(torch.zeros(n).bfloat16() for n in ((2, 512, 64), (64, 256), (256, 64))))
