"""What several blocks share: the terms of a tile, by clusters that share the columns, too, and by runs of steps (stream-K); tiles of the lhs."""

import re

import pytest
from contractions import contraction
from kernels import TARGET, build, matmul
from test_wgmma import GELU, assembled, launches, products

from inferno.errors import CompileError
from inferno.schedule.wgmma_schedule import Wgmma

SIZES = {"m": 600, "n": 1000, "k": 2056}


def spread(m: int, n: int, split: int, consumers: int = 2, stages: int = 4) -> Wgmma:
    return Wgmma(m, n, stages, consumers, persistent=False, split=split, spread=True)


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
