"""Tiles as wide as fill rounds of them: numbers on the simulator where the last part of a tile has columns of the one before, what is emitted, where
they are chosen."""

import dataclasses

import pytest
import torch
from kernels import TARGET, build
from test_tile_copies import kernel
from test_wgmma import GELU, assembled, products
from universal_program import SimulatedModel

from inferno.mlir import ir, new_context
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.result_parts import tile_parts
from inferno.target import TARGETS


def layer(x, w, bias, added):
    return torch.relu(torch.nn.functional.linear(x, w, bias) + added)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, n, schedule", [
    (70, 168, Wgmma(64, 80, 2, 1)), (130, 96, Wgmma(128, 80, 2, 2, inside=True)), (150, 152, Wgmma(64, 112, 2, 2, pingpong=True)),
    (70, 312, Wgmma(128, 80, 2, 2, cluster=4, across=True)), (250, 160, Wgmma(64, 96, 2, 1, cluster=4)),
], ids=["parts", "inside", "pingpong", "four across", "four"])
def test_numbers(monkeypatch, m, n, schedule):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=2 if schedule.cluster == 1 else 6))
    torch.manual_seed(5)
    args = [torch.randn(m, 72).bfloat16(), torch.randn(n, 72).bfloat16() / 8, torch.randn(n).bfloat16(), torch.randn(m, n).bfloat16()]
    run = SimulatedModel(layer, tuple(args), choose=lambda kernel: schedule)
    assert "box = [64, 64]" in run.program.gpu and "llvm.store" not in run.program.gpu
    result, expected = run(*args), layer(*(a.double() for a in args))
    assert ((result.double() - expected).abs() / (expected.abs() + 1)).max() < 2 ** -7


def test_the_last_part_ends_with_the_tile():
    assert [begin for begin, _ in tile_parts(144, 64, 1, whole=True)] == [0, 64, 80]


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", [Wgmma(256, 144, 3, 2), Wgmma(256, 160, 3, 2, swapped=True)], ids=["cut", "transposed"])
def test_nothing_spills(schedule):
    built = build(kernel(640, 512, 1152, "nk", results=("bf16",), body=GELU), "wgmma", schedule)
    assembled(built)
    assert set(products(built)) == {f"m64n{schedule.tile_n}k16.f32.bf16"} and "st.global" not in built.ptx


@pytest.mark.parametrize("m, k, n, layout, tile", [
    (256, 3584, 18944, "nk", (256, 144, False)), (1024, 4096, 11008, "nk", (256, 112, False)), (640, 3584, 8192, "kn", (256, 160, True)),
])
def test_what_fills_a_round(m, k, n, layout, tile):
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(m, k, n, layout))
        own = kernels(module)[0]
        found = [s for _, s in wgmma.candidates(own, parse_contraction(own), TARGET)]
    assert tile in [(s.tile_m, s.tile_n, s.swapped) for s in found]
