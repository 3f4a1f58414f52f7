"""Attention in float32 by products of bf16 pieces: as exact as eager by the simulator, which cuts sums off as the tensor core does."""

import pytest
import torch
from attention_program import share_two_multiprocessors, simulate
from checks import assert_close_to_float64
from kernels import build
from test_attention import TARGET, causal, heads, kernel_of

from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.attention.attention import choose
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.support import read
from inferno.schedule.spaces import attention as spaces

F = torch.nn.functional


def exact(consumers=2, keys=64, stages=1, pieces=3, **more):
    return Attention(consumers, keys, stages, turns=False, overlap=False, pieces=pieces, **more)


def normal(queries, keys, size, of=2, shared=2):
    torch.manual_seed(0)
    return torch.randn(1, of, queries, size), torch.randn(1, shared, keys, size), torch.randn(1, shared, keys, size)


@pytest.mark.thorough
def test_as_exact_as_eager():
    args = normal(150, 150, 24, of=1, shared=1)
    for schedule in (exact(keys=48), exact(keys=32, stages=2, order="static", apart=False)):
        assert_close_to_float64(simulate(F.scaled_dot_product_attention, args, schedule), F.scaled_dot_product_attention, args)


def test_any_strides():
    """Keys innermost, heads side by side and shared, results transposed; copies as early as they may be."""
    def model(q, k, v):
        made = F.scaled_dot_product_attention(q, k.transpose(-1, -2), v.transpose(1, 2), is_causal=True, enable_gqa=True)
        return made.transpose(1, 2)

    q, k, v = normal(90, 90, 16, shared=1)
    args = q, k.transpose(-1, -2).contiguous(), v.transpose(1, 2).contiguous()
    assert_close_to_float64(simulate(model, args, exact(1, 48, order="dynamic"), early=True), model, args)


CUTS = [  # queries, keys, columns, heads of keys, schedule
    (32, 32, 64, 2, exact(1, 32, 2, cut=True)),  # one block of keys, of which all is read first
    (20, 40, 24, 1, exact(1, 48, 1, cut=True, resident=2)),  # fewer keys than a block has, and terms
    (130, 100, 24, 2, exact(2, 48, 2, cut=True, order="static", apart=False)),
    (40, 300, 40, 1, exact(1, 128, 1, cut=True)),  # several turns of reads for a slot
    (3, 120, 72, 2, exact(1, 16, 2, cut=True, parts=2, splits=2)),
]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("queries, keys, size, shared, schedule", CUTS)
def test_cut_by_the_kernel(queries, keys, size, shared, schedule):
    def model(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    args = normal(queries, keys, size, shared=shared)
    assert_close_to_float64(simulate(model, args, schedule), model, args)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("queries, keys, size, heads_, schedule", [
    (32, 32, 64, 6, exact(1, 32, 1, cut=True, order="static", resident=2)), (140, 100, 24, 2, exact(2, 32, 2, cut=True, order="static", apart=False)),
])
def test_several_tiles_of_what_cuts(monkeypatch, queries, keys, size, heads_, schedule):
    """By as many blocks as two multiprocessors have."""
    share_two_multiprocessors(monkeypatch)
    args = normal(queries, keys, size, of=heads_, shared=heads_)
    assert_close_to_float64(simulate(F.scaled_dot_product_attention, args, schedule), F.scaled_dot_product_attention, args)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shares", [{}, {"splits": 2}, {"parts": 2}], ids=["", "splits", "parts"])
def test_errors_do_not_grow_with_the_blocks(shares):
    """Earlier weights are multiplied by exactly 1 while the largest score stays: where that rounds, errors of 64 blocks are 3 times eager's."""
    args = normal(3, 1024, 16, of=1, shared=1)
    assert_close_to_float64(simulate(F.scaled_dot_product_attention, args, exact(1, 16, 2, **shares)), F.scaled_dot_product_attention, args)


@pytest.mark.thorough
def test_cut_of_any_strides():
    """Keys innermost, heads side by side; what is read for scores; causal."""
    def model(q, k, v, bias):
        return F.scaled_dot_product_attention(q, k.transpose(-1, -2), v.transpose(1, 2), bias, enable_gqa=True).transpose(1, 2)

    q, k, v = normal(90, 90, 16, shared=1)
    args = q, k.transpose(-1, -2).contiguous(), v.transpose(1, 2).contiguous(), torch.randn(90, 90)
    assert_close_to_float64(simulate(model, args, exact(1, 48, 2, cut=True, order="static")), model, args)
    args = normal(100, 100, 24, of=1, shared=1)
    assert_close_to_float64(simulate(causal, args, exact(2, 32, 2, cut=True)), causal, args)


def test_pieces_for_tf32():
    args = normal(40, 90, 32)
    found = simulate(F.scaled_dot_product_attention, args, exact(1, 48, pieces=2)).double()
    wanted = F.scaled_dot_product_attention(*(x.double() for x in args))
    assert 1e-6 < (found - wanted).norm() / wanted.norm() < 1e-4


def test_what_is_no_number():
    """Infinities and NaN come out where eager has them: no piece makes one of the other."""
    q, k, v = normal(20, 40, 24)
    inf = float("inf")
    q[0, 0, 3, 1], q[0, 1, 8, 0] = float("nan"), inf
    q[0, 0, 4, 2], q[0, 0, 5, 2] = 0, 2  # (one piece, of a number that is not 0)
    k[0, 0, 5, 2], k[0, 1, 9, 0] = inf, -inf
    v[0, 1, 7, 3], v[0, 1, 11, 4] = inf, -inf
    found, wanted = simulate(F.scaled_dot_product_attention, (q, k, v), exact(1, 48)), F.scaled_dot_product_attention(q, k, v)
    assert wanted.isinf().any() and wanted.isfinite().any() and wanted.isnan().any()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.thorough
def test_registers():
    size, schedule = 128, exact(2, 64)
    built = build(kernel_of(causal, heads(1024, 1024, size, dtype=torch.float32)), "attention", schedule)
    assert built.gpu.count('"inferno.launch"') == 2 and built.gpu.count('element = "bf16"') == 3
    # The first scores and the last values, and both of each loop over blocks, with a mask and without.
    each = 6 * (-(-size // 16) + schedule.keys // 16 * -(-size // 64))
    assert built.count(r"wgmma\.mma_async") == (2 if schedule.keys % schedule.queries == 0 else 3) * each
    assert built.resources is None or built.resources.spills <= 128  # (some addresses wait in memory for the end of a tile)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("size, schedule", [(128, exact(1, 32, 2, cut=True)), (64, exact(2, 80, 2, cut=True)), (64, exact(1, 32, 2, cut=True, resident=2))])
def test_registers_of_what_cuts(size, schedule):
    built = build(kernel_of(causal, heads(1024, 1024, size, dtype=torch.float32)), "attention", schedule)
    assert built.gpu.count('"inferno.launch"') == 1 and 'element = "bf16"' not in built.gpu
    assert built.resources is None or built.resources.spills == 0


def chosen(function, args, check):
    """``check`` what is chosen, with the kernel."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel_of(function, args))
        kernel = kernels(module)[0]
        check(choose(kernel, TARGET), kernel)


def test_what_is_chosen():
    def check(found, kernel):
        a, _ = read(kernel, TARGET)
        assert found.pieces == 3 and not found.overlap and fits(found, a, TARGET) and not fits(Attention(), a, TARGET)
        assert found in [s for _, s in spaces.space(kernel, TARGET)]

    chosen(causal, heads(1000, 1000, 64, dtype=torch.float32), check)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("batch, of, length, size, consumers, cut, resident", [
    (8, 12, 32, 64, 1, True, 1), (16, 12, 64, 64, 1, True, 2), (128, 12, 32, 64, 1, True, 2), (32, 12, 32, 64, 1, True, 1), (1, 12, 16, 64, 1, True, 1),
    (8, 12, 128, 64, 2, True, 1), (32, 12, 128, 64, 2, True, 1), (4, 16, 128, 128, 1, True, 1), (4, 8, 300, 64, 2, False, 1), (2, 16, 2048, 64, 2, False, 1),
])
def test_who_cuts(batch, of, length, size, consumers, cut, resident):
    """Blocks that multiply where sequences are short, or a launch in front: what an H100 was fastest with, or took up to 1.03 times as long."""
    def check(found, kernel):
        assert (found.consumers, found.cut, found.resident) == (consumers, cut, resident)

    chosen(F.scaled_dot_product_attention, [torch.empty(batch, of, length, size)] * 3, check)
