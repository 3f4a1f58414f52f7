"""How tiles of weights come to shared memory: the width of panels, boxes that are woven or cut, L2's policy; and rows that lie inside."""

import re

import pytest
from contractions import contraction
from kernels import build
from test_wgmma import GELU, assembled

from inferno.errors import CompileError
from inferno.schedule.wgmma import Wgmma

RESIDUAL = {"results": ("bf16",), "body": GELU}


def kernel(m: int, k: int, n: int, layout: str = "kn", **more) -> str:
    return contraction({"m": m, "n": n, "k": k}, "mk", layout, "mn", **(more or RESIDUAL))


def boxes(built) -> list[tuple[int, ...]]:
    """Of the maps of a launch, in their order."""
    return [tuple(map(int, x.split(","))) for x in re.findall(r"box = (?:array<i64: )?\[?([\d, ]+)[\]>]", built.gpu)]


@pytest.mark.parametrize("tile_n, panel, lines", [(96, 64, 128), (96, 32, 96), (224, 32, 224), (48, 16, 48), (48, 64, 64)])
def test_narrow_panels_leave_no_columns_over(tile_n, panel, lines):
    built = build(kernel(64, 520, 1000), "wgmma", Wgmma(64, tile_n, 4, 1, panel=panel))
    assembled(built)
    width = min(panel, 64)
    assert boxes(built)[1] == (width, 64) and built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == 1 + lines // width


def test_a_panel_is_cut_where_the_tile_ends():
    """By a map that has tiles as a dimension; the ragged last tile, which would reach into the next line, has the usual one."""
    built = build(kernel(16, 520, 1000), "wgmma", Wgmma(64, 88, 4, 1, lhs_rows=16, cut=True))
    assembled(built)
    assert boxes(built)[:3] == [(64, 16), (64, 64), (64, 1, 64)] and "sizes = [88, 11, 520]" in built.gpu
    assert built.count(r"cp\.async\.bulk\.tensor\.3d\.shared") == 1 and built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == 3


@pytest.mark.parametrize("schedule, layout", [
    (Wgmma(64, 128, 4, 1, cut=True), "kn"), (Wgmma(64, 88, 4, 1, cut=True), "nk"), (Wgmma(128, 96, 4, 2, cluster=2, cut=True), "kn"),
    (Wgmma(64, 104, 4, 1, cut=True), "kn"),
])
def test_what_has_no_panel_to_cut_is_refused(schedule, layout):
    with pytest.raises(CompileError, match="no panel to cut"):
        build(kernel(256, 520, 96 if schedule.tile_n == 104 else 1024, layout), "wgmma", schedule)


def test_one_box_weaves_the_panels():
    built = build(kernel(64, 512, 1024), "wgmma", Wgmma(64, 192, 4, 1, woven=True))
    assembled(built)
    assert boxes(built)[1] == (64, 8, 3, 8) and built.count(r"cp\.async\.bulk\.tensor\.4d\.shared") == 1
    for n, k in ((1000, 512), (1024, 516)):
        with pytest.raises(CompileError, match="cannot weave"):
            build(kernel(64, k, n), "wgmma", Wgmma(64, 192, 4, 1, woven=True))


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_weights_that_are_read_once_leave_l2_first(layout):
    once, usual = (build(kernel(64, 512, 1024, layout), "wgmma", Wgmma(64, 128, 4, 1, once=x)) for x in (True, False))
    assembled(once)
    assert once.count("L2::evict_first") == 1 and once.count("L2::cache_hint") == (1 if layout == "nk" else 2)
    assert usual.count("L2::") == 0


def test_the_last_rows_lie_inside():
    schedule = Wgmma(64, 64, 4, 1, inside=True)
    built = build(kernel(200, 512, 1024, "nk"), "wgmma", schedule)
    assembled(built)
    assert re.search(r"min\.u32\s+%r\d+, %r\d+, 136;", built.ptx)
    with pytest.raises(CompileError, match="twice"):
        build(kernel(40, 512, 1024, "nk"), "wgmma", schedule)


def test_only_warps_with_rows_add_up():
    whole, brief = (
        build(kernel(16, 2048, 1024), "wgmma", Wgmma(64, 64, 8, 1, persistent=False, split=2, lhs_rows=16, brief=x)) for x in (False, True)
    )
    assembled(brief)
    assert whole.count(r"ld\.shared::cluster\.v4") == brief.count(r"ld\.shared::cluster\.v4") == 64 * 64 // 128 // 4
    with pytest.raises(CompileError, match="one consumer"):
        build(kernel(200, 2048, 1024), "wgmma", Wgmma(128, 64, 8, 2, persistent=False, split=2, brief=True))
