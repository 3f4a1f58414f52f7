"""Results whose lines begin at any element are written by warps, line by line: numbers on the simulator, and what is emitted."""

import dataclasses

import pytest
import torch
from contractions import contraction
from kernels import build
from test_wgmma import ROUND, assembled
from universal_program import SimulatedModel

from inferno.schedule.matmul.dual import Dual
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.target import TARGETS


def layer(x, w, bias, added):
    return torch.nn.functional.linear(x, w, bias) + added


# Tiles of one part, of two of which the last has half as many columns, and of two rows of 64; the tensor's last column is the first or the last of a
# word, of a part, of a tile.
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, n, schedule", [
    (70, 65, Wgmma(64, 32, 2, 1)), (201, 95, Wgmma(128, 96, 2, 2, inside=True)), (64, 63, Wgmma(64, 64, 2, 1)), (150, 97, Wgmma(64, 96, 2, 2, pingpong=True)),
    (256, 65, Wgmma(256, 64, 2, 2)), (3, 34, Wgmma(64, 32, 2, 1)), (5, 97, Wgmma(64, 64, 2, 1, lhs_rows=8)), (5, 128, Wgmma(64, 64, 2, 1, lhs_rows=8)),
    (5, 97, Wgmma(64, 32, 4, 2, pingpong=True, lhs_rows=8)), (9, 136, Wgmma(64, 64, 8, 1, persistent=False, split=2, spread=True)),
], ids=["parts", "inside", "less", "pingpong", "rows", "even", "few", "few by maps", "few in turns", "few of shared columns"])
def test_numbers(monkeypatch, m, n, schedule):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=2))
    torch.manual_seed(5)
    args = [torch.randn(m, 72).bfloat16(), torch.randn(n, 72).bfloat16() / 8, torch.randn(n).bfloat16(), torch.randn(m, n).bfloat16()]
    run = SimulatedModel(layer, tuple(args), choose=lambda kernel: schedule)
    result, expected = run(*args), layer(*(a.double() for a in args))
    assert "nvvm.stmatrix" in run.program.gpu
    assert ((result.double() - expected).abs() / (expected.abs() + 1)).max() < 2 ** -7


def test_numbers_of_two_products(monkeypatch):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=16))
    torch.manual_seed(5)

    def swiglu(x, w, v):
        return torch.nn.functional.silu(torch.nn.functional.linear(x, w)) * torch.nn.functional.linear(x, v)

    args = [torch.randn(134, 72).bfloat16(), torch.randn(97, 72).bfloat16() / 8, torch.randn(97, 72).bfloat16() / 8]
    run = SimulatedModel(swiglu, tuple(args), choose=lambda kernel: Dual(128, 96, 2, 2), passes="fuse-duals{target=sm_90a always=1}")
    result, expected = run(*args), swiglu(*(a.double() for a in args))
    assert run.program.gpu.count('"inferno.launch"') == 1 and "nvvm.stmatrix" in run.program.gpu
    assert ((result.double() - expected).abs() / (expected.abs() + 1)).max() < 2 ** -7


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [Wgmma(128, 128, 6, 2), Wgmma(256, 160, 3, 2)], ids=lambda s: f"{s.tile_m}x{s.tile_n}")
def test_words_are_written_whole(schedule):
    built = build(contraction({"m": 512, "n": 50257, "k": 264}, "mk", "nk", "mn", **ROUND), "wgmma", schedule)
    assembled(built)
    lines = schedule.rows // 64 * (16 * (schedule.tile_n // 64) + 8 * (schedule.tile_n % 64 // 32))
    # Every other line begins inside of a word: its words are of two lanes' halves.  (No tile begins there.)
    assert built.count(r"st\.global\.b32") == lines and built.count(r"shfl\.sync\.up") == lines // 2
