"""What several blocks share: the terms of a tile, by clusters that share the columns, too, by runs of steps (stream-K) and by parts; tiles of the lhs."""

import dataclasses
import re

import pytest
import torch
from contractions import contraction
from kernels import TARGET, build, matmul
from test_wgmma import GELU, assembled, launches, products
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.target import TARGETS

SIZES = {"m": 600, "n": 1000, "k": 2056}


def spread(m: int, n: int, split: int, consumers: int = 2, stages: int = 4, **knobs) -> Wgmma:
    return Wgmma(m, n, stages, consumers, persistent=False, split=split, spread=True, **knobs)


def kernel(layout: str = "nk", sizes: dict = SIZES) -> str:
    return contraction(sizes, "mk", layout, "mn", results=("bf16",), body=GELU)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("schedule, share", [
    (spread(128, 256, 4), 64), (spread(128, 256, 3), 32), (spread(128, 160, 5), 32), (spread(128, 96, 7), 32), (spread(256, 128, 2), 64),
    (spread(64, 64, 2, 1, 8), 32),
], ids=lambda x: f"{x.tile_m}x{x.tile_n}k{x.split}" if isinstance(x, Wgmma) else "")
def test_blocks_share_the_columns(schedule, share, layout):
    built = build(kernel(layout), "wgmma", schedule)
    assembled(built)
    assert schedule.share == share and f"cluster = [{schedule.split}, 1, 1]" in built.gpu and launches(built) == 1
    # A thread reads 16 bytes of every block's sums, but of its own where it has one share, for each 8 columns and 64 rows; the results leave by
    # the copy engine.
    others = schedule.split - (schedule.tile_n == share * schedule.split)
    assert built.count(r"ld\.shared::cluster\.v4") == others * share // 8 * (schedule.rows // 64)
    assert set(products(built)) == {f"m64n{schedule.tile_n}k16.f32.bf16"}
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.global") == max(1, share // 64) * (schedule.rows // 64)


def test_columns_that_cannot_be_shared_are_refused():
    with pytest.raises(CompileError, match="equal shares"):
        build(kernel(), "wgmma", spread(128, 88, 3))
    with pytest.raises(CompileError, match="room"):
        build(kernel(), "wgmma", spread(256, 128, 2, stages=2))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 128, 6, 2, stream=True), Wgmma(64, 64, 12, 1, stream=True), Wgmma(64, 64, 8, 1, lhs_rows=16, chunks=2, stream=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}c{s.chunks}")
def test_blocks_share_the_last_tiles(schedule, layout):
    built = build(kernel(layout, {**SIZES, "m": schedule.lhs_rows or 1800, "n": 9000}), "wgmma", schedule)
    assembled(built)
    workers, floats = TARGET.multiprocessors, schedule.tile_m * schedule.tile_n
    assert f"memref<{workers * floats}xf32>" in built.gpu and f"memref<{workers * schedule.consumers}xi32>" in built.gpu
    # A kernel lowers the flags; then the block that has a tile's last terms writes its sums and raises one, that with the first ones waits.
    assert launches(built) == 2 and built.count(r"\.entry") == 2
    assert built.count(r"st\.release\.gpu") == built.count(r"ld\.acquire\.gpu") == 1
    each = floats // (128 * schedule.consumers) // 4
    assert built.count(r"st\.global\.v4\.b32") == built.count(r"ld\.global\.v4\.b32") == each
    assert not re.search(r"ld\.global\.nc\.v4", built.ptx)  # other blocks write what is read


def test_too_few_tiles_for_all_blocks_are_refused():
    with pytest.raises(CompileError, match="cannot deal out"):
        build(kernel(), "wgmma", Wgmma(128, 128, 6, 2, stream=True))


def test_the_large_ones_do_not_spill():
    assembled(build(matmul(2048, 11008, 4096, "bf16", rhs="n,k"), "wgmma", Wgmma(128, 256, 4, 2, stream=True)))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["mk", "km"])
@pytest.mark.parametrize("tile_n, cluster", [(96, 2), (64, 4), (256, 2)])
def test_blocks_share_tiles_of_the_lhs(tile_n, cluster, layout):
    schedule = Wgmma(128 * (1 + (layout == "km" and cluster > 2)), tile_n, 4, 2, cluster=cluster, across=True)
    text = contraction({"m": 600, "n": 4 * tile_n, "k": 264}, layout, "nk", "mn", results=("bf16",), body=GELU)
    built = build(text, "wgmma", schedule)
    assembled(built)
    assert f"cluster = [{cluster}, 1, 1]" in built.gpu and launches(built) == 1
    # Each block copies its share of the lhs's tile for all, and its own of the rhs.
    share = schedule.tile_m // cluster
    assert f"[64, {share}]" in built.gpu if layout == "mk" else "[64, 64]" in built.gpu
    assert built.count(r"cp\.async\.bulk\.tensor[^;]*multicast") == (1 if layout == "mk" else share // 64) and f"[64, {tile_n}]" in built.gpu


def parts(m: int, n: int, parts: int, consumers: int = 2, stages: int = 4, **knobs) -> Wgmma:
    return Wgmma(m, n, stages, consumers, parts=parts, stream=True, **knobs)


def layer(x, w, bias, added):
    return torch.relu(torch.nn.functional.linear(x, w, bias) + added)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("m, n, k, schedule", [
    (200, 160, 520, spread(128, 64, 2)), (130, 100, 520, spread(128, 128, 2, sends=True)), (70, 33, 700, spread(64, 64, 2, 1, sends=True)),
    (130, 250, 700, spread(128, 128, 4, sends=True)), (136, 250, 520, spread(128, 64, 2, sends=True, swapped=True)),
    (70, 128, 520, spread(128, 64, 2, sends=True, lhs_rows=72)), (70, 128, 1100, parts(128, 64, 3, lead=2, lhs_rows=72)),
    (130, 128, 520, parts(128, 64, 3)), (200, 64, 520, parts(128, 64, 2, cluster=2, lead=2)), (120, 128, 700, parts(64, 64, 2, 1, cluster=2, across=True)),
    (128, 520, 520, Wgmma(64, 32, 4, 1, cluster=2, across=True, stream=True)),
], ids=lambda x: f"k{x.split}c{x.cluster}p{x.parts}{'s' * x.sends}" if isinstance(x, Wgmma) else str(x))
def test_numbers(monkeypatch, m, n, k, schedule, early):
    """Whenever copies and sums arrive."""
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=12))
    torch.manual_seed(5)
    args = (torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16() / 8, torch.randn(n).bfloat16(), torch.randn(m, n).bfloat16())
    result, expected = SimulatedModel(layer, args, choose=lambda kernel: schedule, early=early)(*args), layer(*(a.double() for a in args))
    assert ((result.double() - expected).abs() / (expected.abs() + 1)).max() < 2 ** -7


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("schedule", [
    spread(128, 128, 2), spread(128, 128, 2, sends=True), spread(128, 96, 3, sends=True), spread(128, 256, 4, stages=2, sends=True),
    spread(256, 128, 2, stages=2, sends=True),
], ids=lambda x: f"{x.tile_m}x{x.tile_n}k{x.split}{'s' * x.sends}" if isinstance(x, Wgmma) else "")
def test_blocks_send_sums(schedule, layout):
    built = build(kernel(layout, {**SIZES, "m": 1000, "n": 1024}), "wgmma", schedule)
    assembled(built)
    assert f"cluster = [{schedule.split}, 1, 1]" in built.gpu and launches(built) == 1
    # A thread sends 16 bytes for each 8 columns and 64 rows, but of its own share, and else reads as much of the others'.
    pieces, (split, share) = schedule.tile_n // 8 * (schedule.rows // 64), (schedule.split, schedule.share)
    assert built.count(r"st\.async\.weak\.shared::cluster\S*\.v4\.b32") == pieces * schedule.sends
    assert built.count(r"ld\.shared::cluster\.v4") == (split - 1) * share // 8 * (schedule.rows // 64) * (not schedule.sends)
    # The barriers of a cluster, for both of its roles: at the beginning, where sums are read, and in the end, unless nobody asks for what a block has.
    assert built.count(r"barrier\.cluster\.arrive") == 1 + (not schedule.sends) * 3


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("schedule", [
    parts(128, 128, 2, stages=6), parts(128, 128, 2, stages=6, cluster=2), parts(128, 256, 3, cluster=2, across=True, lead=8), parts(256, 128, 4),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}p{s.parts}c{s.cluster}")
def test_parts_come_through_the_workspace(schedule, layout):
    built = build(kernel(layout, {**SIZES, "m": 1000, "n": 1024}), "wgmma", schedule)
    assembled(built)
    blocks = schedule.parts * -(-1000 // (schedule.tile_m * schedule.sharing[1])) * (1024 // schedule.tile_n // schedule.sharing[0]) * schedule.cluster
    assert f"memref<{blocks * schedule.tile_m * schedule.tile_n}xf32>" in built.gpu and f"memref<{blocks * schedule.consumers}xi32>" in built.gpu
    assert f"grid = [{blocks}, 1, 1]" in built.gpu and launches(built) == 2 and (".multicast" in built.ptx) == (schedule.cluster > 1)
    assert built.count(r"st\.release\.gpu") == built.count(r"ld\.acquire\.gpu") == 1


def test_what_cannot_be_shared_is_refused():
    for schedule, why in (
        (spread(128, 64, 2, cluster=2), "cannot split"), (spread(128, 96, 2, sends=True), "one share"),
        (dataclasses.replace(spread(128, 64, 2, sends=True), spread=False), "one share"),
        (parts(128, 64, 3), "cannot deal out"), (parts(256, 128, 2, lead=32), "cannot deal out"), (parts(64, 64, 2, 1, split=2), "cannot deal out"),
    ):
        with pytest.raises(CompileError, match=why):
            build(kernel(), "wgmma", schedule)


def test_the_end_of_a_tile_has_registers_beside_others_sums():
    body = """%z0 = arith.extf %e0 : bf16 to f32
      %z1 = arith.extf %e1 : bf16 to f32
      %t0 = arith.addf %s, %z0 : f32
      %t1 = arith.addf %t0, %z1 : f32
      %y0 = arith.truncf %t1 : f32 to bf16"""
    text = contraction({**SIZES, "n": 1024}, "mk", "nk", "mn", results=("bf16",), extras=(("n", "bf16"), ("mn", "bf16")), body=body)
    assembled(build(text, "wgmma", parts(256, 128, 2)))
