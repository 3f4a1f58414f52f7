"""A TF32 factor whose terms are outermost, read to registers: numbers on the simulator, what is emitted, where it is chosen."""

import dataclasses
import re

import pytest
import torch
import torch.nn.functional as F
from contractions import contraction
from kernels import TARGET, build, check_arrivals, choose
from test_wgmma import TF32, assembled, products
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.mlir import func, idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.target import TARGETS


def by_registers(tile_m: int, tile_n: int, stages: int, **more) -> Wgmma:
    return Wgmma(tile_m, tile_n, stages, tile_m // 64, swapped=True, registers=True, persistent=more.get("split", 1) == 1, **more)


def layer(x, w, bias, added):
    return torch.relu(torch.einsum("...mk,...kn->...mn", x, w) + bias) + added


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("batch, m, n, schedule", [
    ((), 13, 100, by_registers(64, 16, 2)), ((), 40, 136, by_registers(128, 40, 3, split=2)), ((3,), 60, 132, by_registers(128, 64, 2, split=2, spread=True)),
    ((), 75, 260, by_registers(128, 32, 2)),
], ids=["edges", "cluster", "spread", "rows"])
def test_numbers(monkeypatch, batch, m, n, schedule):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=4))
    torch.manual_seed(5)
    args = [torch.randn(*batch, m, 172), torch.randn(*batch, 172, n) / 8, torch.randn(n), torch.randn(*batch, m, n)]

    def choose(kernel: func.FuncOp) -> Wgmma:
        kernel.attributes["inferno.precision"] = ir.StringAttr.get("tf32")
        return schedule

    run = SimulatedModel(layer, tuple(args), choose=choose)
    assert run.program.gpu.count('"inferno.launch"') == 1
    result, expected = run(*args), layer(*(a.double() for a in args))
    assert (result.double() - expected).norm() / expected.norm() < 1e-3


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("tile_m, tile_n, more", [(128, 48, {}), (64, 40, {"split": 2})], ids=["edges", "cluster"])
def test_numbers_of_an_image_with_channels_outermost(monkeypatch, tile_m, tile_n, more):
    """A layer of an image's channels: the image is the lhs as it is, and results lie along the tile's columns."""
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=4))
    torch.manual_seed(5)
    args = [torch.randn(2, 300, 84), torch.randn(100, 300) / 8, torch.randn(100)]
    schedule = dataclasses.replace(by_registers(tile_m, tile_n, 2, **more), swapped=False)

    def choose(kernel: func.FuncOp) -> Wgmma:
        kernel.attributes["inferno.precision"] = ir.StringAttr.get("tf32")
        return schedule

    def layer(x, w, bias):
        return F.hardswish(x.mT @ w.mT + bias)

    result, expected = SimulatedModel(layer, tuple(args), choose=choose)(*args), layer(*(a.double() for a in args))
    assert (result.double() - expected).norm() / expected.norm() < 1e-3


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("m, n, k, schedule", [
    (40, 300, 1100, by_registers(128, 40, 3, stream=True)), (24, 600, 100, by_registers(128, 24, 2, stream=True)),
    (70, 700, 1100, by_registers(128, 40, 3, stream=True)),
], ids=["shorter runs than tiles", "as long", "rounds"])
def test_numbers_of_what_is_dealt_out(monkeypatch, m, n, k, schedule):
    """To seven blocks."""
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=4 if n == 600 else 7))
    torch.manual_seed(5)
    args = [torch.randn(m, k), torch.randn(k, n) / 8, torch.randn(n), torch.randn(m, n)]

    def choose(kernel: func.FuncOp) -> Wgmma:
        kernel.attributes["inferno.precision"] = ir.StringAttr.get("tf32")
        return schedule

    result, expected = SimulatedModel(layer, tuple(args), choose=choose)(*args), layer(*(a.double() for a in args))
    assert (result.double() - expected).norm() / expected.norm() < 1e-3


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", [
    by_registers(128, 256, 4), by_registers(64, 16, 8, resident=2), by_registers(128, 128, 4, split=4, spread=True),
])
def test_products_are_under_way_while_the_next_factors_are_loaded(schedule):
    built = build(contraction({"m": schedule.tile_n, "n": 1024, "k": 1024}, "mk", "kn", "mn", **TF32), "wgmma", schedule)
    assembled(built)
    assert products(built) == [f"m64n{schedule.tile_n}k8.f32.tf32"] * 8 and not built.accesses("shared") & {"ld.shared.b32", "st.shared.b32"}
    check_arrivals(built.ptx)
    assert "st.global.b32" not in built.ptx  # two rows are neighbours
    loop = built.ptx[built.ptx.index("wgmma.commit_group"):]
    assert loop.index("ld.shared.v2") < loop.index("wgmma.wait_group")
    # Registers that are loaded to are no products' (the assembler would wait for each of these).
    loaded = set(re.findall(r"%r\d+", " ".join(re.findall(r"ld\.shared\.v2\.b32\s+\{(.*?)\}", built.ptx))))
    factors = set(re.findall(r"%r\d+", " ".join(re.findall(r"tf32 \{[^}]*\}, \{([^}]*)\}", built.ptx))))
    assert len(loaded) >= 16 and len(factors) >= 16 and not loaded & factors


def test_blocks_share_the_last_tiles():
    built = build(contraction({"m": 128, "n": 11008, "k": 1024}, "mk", "kn", "mn", **TF32), "wgmma", by_registers(64, 128, 8, stream=True))
    assembled(built)
    assert built.count(r"\.entry") == 2 and built.count(r"st\.release\.gpu") == built.count(r"ld\.acquire\.gpu") == 1
    assert built.count(r"st\.global\.v4\.b32") == built.count(r"ld\.global\.v4\.b32") == 64 * 128 // 128 // 4


def test_fewer_tiles_than_blocks_are_dealt_out():
    """86 tiles of 128 steps, 83 or 84 of them a block: a tile is of two blocks or three, whose sums its first one adds in a loop."""
    built = build(contraction({"m": 128, "n": 11008, "k": 4096}, "mk", "kn", "mn", **TF32), "wgmma", by_registers(128, 128, 6, stream=True))
    assembled(built)
    assert "[132, 1, 1]" in built.gpu or f"[{TARGET.multiprocessors}, 1, 1]" in built.gpu
    assert built.count(r"st\.release\.gpu") == built.count(r"ld\.acquire\.gpu") == 1
    assert built.count(r"st\.global\.v4\.b32") == built.count(r"ld\.global\.v4\.b32") == 64 * 128 // 128 // 4
    for sizes in ({"m": 128, "n": 4096, "k": 4096}, {"m": 128, "n": 11008, "k": 512}):  # too few tiles, and steps
        with pytest.raises(CompileError, match="cannot deal out"):
            build(contraction(sizes, "mk", "kn", "mn", **TF32), "wgmma", by_registers(128, 128, 6, stream=True))


def candidates(m: int, k: int, n: int, weights: str = "kn") -> list[Wgmma]:
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(contraction({"m": m, "n": n, "k": k}, "mk", weights, "mn", **TF32))
        own = kernels(module)[0]
        return [s for _, s in wgmma.candidates(own, parse_contraction(own), TARGET) if s.registers]


def test_where_they_are_tried():
    for rows in (16, 256, 512):
        found = candidates(rows, 4096, 4096)
        assert found and all(s.swapped and rows <= 2 * s.tile_n for s in found)
    assert {128, 144, 256} <= {s.tile_n for s in candidates(1536, 1536, 1536)}  # as many columns as fill a round, and the most
    assert not candidates(8, 4096, 4096) and not candidates(16, 4096, 4096, "nk")
    assert not candidates(16, 4096, 4097)  # lines that the copy engine does not read
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(contraction({"b": 16, "m": 196, "n": 672, "k": 112}, "bkm", "nk", "bmn", **TF32))
        own = kernels(module)[0]
        found = wgmma.candidates(own, parse_contraction(own), TARGET)
    assert any(s.registers and not s.swapped for _, s in found) and not any(s.rewrite and not s.registers for _, s in found)


@pytest.mark.parametrize("m, k, n, tile, dealt", [
    (1024, 1024, 1024, (64, 128), False), (512, 1024, 1024, (64, 64), False), (1280, 1280, 1280, (128, 112), False), (128, 4096, 11008, (128, 128), True),
    (200, 4096, 11008, (128, 200), True), (128, 3584, 7168, (64, 128), False),
])
def test_every_multiprocessor_has_something_to_do(m, k, n, tile, dealt):
    """One consumer where two do not fill a round, and 86 tiles dealt out to 132 blocks."""
    s = choose(contraction({"m": m, "n": n, "k": k}, "mk", "kn", "mn", **TF32), "wgmma")
    assert ((s.tile_m, s.tile_n), s.stream) == (tile, dealt)


@pytest.mark.parametrize("weights, more", [("nk", {}), ("kn", {"pingpong": True}), ("kn", {"chunks": 2})])
def test_what_it_is_not_for(weights, more):
    with pytest.raises(CompileError, match="lhs"):
        build(contraction({"m": 64, "n": 256, "k": 256}, "mk", weights, "mn", **TF32), "wgmma", by_registers(128, 64, 4, **more))
