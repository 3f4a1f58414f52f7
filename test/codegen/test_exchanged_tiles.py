"""Tiles with the sides exchanged, and two blocks a multiprocessor: what is emitted, and where they are tried."""

import re

import pytest
from kernels import TARGET, build
from test_tile_copies import boxes, kernel
from test_wgmma import GELU, assembled, products

from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.spaces import wgmma as space


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("m, tile_n, lines, stores", [(150, 160, 64, 3), (300, 160, 32, 5), (200, 112, 16, 7)])
def test_results_are_transposed_on_their_way(m, tile_n, lines, stores, layout):
    built = build(kernel(m, 512, 1000, layout), "wgmma", Wgmma(128, tile_n, 4, 2, swapped=True))
    assembled(built)
    assert set(products(built)) == {f"m64n{tile_n}k16.f32.bf16"} and boxes(built)[2] == (64, lines)
    assert built.count(r"stmatrix\.sync\.aligned\.m8n8\.x4\.trans") == tile_n // 16 == built.count("stmatrix")
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.global") == stores


def test_results_of_float32_are_written_by_threads():
    text = kernel(150, 512, 1000, "nk", results=("f32",), body="%y0 = arith.addf %s, %s : f32")
    built = build(text, "wgmma", Wgmma(128, 160, 4, 2, swapped=True))
    assembled(built)
    assert built.count("stmatrix") == 0 and built.accesses("global") == {"st.global.b32"}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule, registers", [
    (Wgmma(64, 64, 6, 1, resident=2, persistent=False), 128), (Wgmma(128, 64, 3, 2, resident=2, persistent=False), 80),
])
def test_two_blocks_share_registers_and_shared_memory(schedule, registers):
    built = build(kernel(256, 512, 1024, results=("bf16",), body=GELU), "wgmma", schedule)
    assembled(built)
    total = int(re.search(r"shared = (\d+)", built.gpu)[1])
    assert 2 * (total + 1024) <= TARGET.shared + 1024
    assert built.resources is None or built.resources.registers == registers
    few, many = map(int, re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)", built.ptx))
    assert 128 * (few + schedule.consumers * many) <= 65536 // 2


def candidates(m: int, k: int, n: int, layout: str = "nk", **more) -> list[Wgmma]:
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(m, k, n, layout, **more))
        own = kernels(module)[0]
        found = [s for _, s in wgmma.candidates(own, parse_contraction(own), TARGET)]
        assert all(space.valid(own, s, TARGET) for s in found if s.swapped)
        return [s for s in found if s.swapped]


def test_where_they_have_just_the_rows_or_fill_rounds():
    assert candidates(160, 8192, 8192) and candidates(200, 512, 1000, "kn")
    assert (256, 160) in [(s.tile_m, s.tile_n) for s in candidates(640, 3584, 8192, "kn")]
    assert not candidates(40, 8192, 8192)
    assert not candidates(160, 1001, 512)  # factors that are copied first
