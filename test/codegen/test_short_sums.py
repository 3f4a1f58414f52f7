"""Contractions of few terms: numbers on the simulator where tiles have short rows, which tiles are tried, and what the end of a tile is made of."""

import dataclasses

import pytest
import torch
from kernels import TARGET, build
from test_tile_copies import kernel
from test_wgmma import assembled
from universal_program import SimulatedModel

from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.spaces import wgmma as space
from inferno.target import TARGETS

SILU = """%one = arith.constant 1.0 : f32
  %z0 = arith.negf %s : f32
  %z1 = math.exp %z0 : f32
  %z2 = arith.addf %z1, %one : f32
  %z3 = arith.divf %one, %z2 : f32
  %z4 = arith.mulf %s, %z3 : f32
  %y0 = arith.truncf %z4 : f32 to bf16"""


def normalized(x, w, mean, scale, shift):
    """A batch norm behind a product, and SiLU."""
    return torch.nn.functional.silu((torch.nn.functional.linear(x, w) - mean) * scale + shift)


def untransposed(x, w):
    return torch.relu(x @ w)


def scaled(x, scale, w):
    """As a squeeze-and-excitation has it: each image's channels times its own factors."""
    return torch.nn.functional.conv2d(x * scale, w)


def run(monkeypatch, layer, args, schedule):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=2))

    def choose(kernel):
        if args[0].dtype == torch.float32:
            kernel.attributes["inferno.precision"] = ir.StringAttr.get("tf32")
        return schedule

    made = SimulatedModel(layer, tuple(args), choose=choose)
    expected, own = layer(*(a.double() for a in args)), layer(*args)
    for result, bound in ((made(*args).double(), 2**-7), (own.double(), 1.0)):
        assert ((result - expected).norm() / expected.norm()) < bound
    return made


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, k, n, schedule", [
    (300, 16, 96, Wgmma(64, 96, 4, 2, pingpong=True, row=32, buffers=3)), (200, 24, 144, Wgmma(64, 144, 3, 2, pingpong=True, row=64)),
    (200, 32, 16, Wgmma(128, 16, 4, 2, row=64)), (150, 16, 72, Wgmma(128, 80, 4, 2, row=32)), (200, 16, 96, Wgmma(128, 96, 2, 2, row=32, swapped=True)),
], ids=["32 bytes", "a part again", "narrow", "beyond the columns", "swapped"])
def test_numbers_of_short_rows(monkeypatch, m, k, n, schedule):
    torch.manual_seed(3)
    vectors = [torch.randn(n).bfloat16(), 1 + torch.rand(n).bfloat16(), torch.randn(n).bfloat16()]
    made = run(monkeypatch, normalized, [4 * torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16(), *vectors], schedule)
    assert f"swizzle = {schedule.row}" in made.program.gpu


# Whole lines in one piece of memory, of one buffer or two, an odd number of 8 columns, and rows that hang over; threads that write sectors; and a rhs that
# is kept, in one step and in two.
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, k, n, schedule", [
    (300, 16, 96, Wgmma(64, 96, 4, 2, pingpong=True, row=32, line=192, kept=1)), (330, 24, 24, Wgmma(128, 24, 3, 2, line=48, buffers=1)),
    (200, 72, 144, Wgmma(128, 144, 3, 2, line=288, kept=2)), (600, 32, 72, Wgmma(128, 72, 4, 2, row=64, pingpong=True, line=144)),
    (600, 16, 96, Wgmma(128, 96, 4, 2, row=32, pingpong=True, by_threads=True, kept=1)), (200, 40, 116, Wgmma(128, 64, 4, 2, by_threads=True)),
    (329, 72, 72, Wgmma(128, 80, 4, 2, pingpong=True, by_threads=True, kept=2)), (300, 16, 8, Wgmma(64, 8, 4, 2, pingpong=True, row=32, line=16, kept=1)),
    (300, 24, 40, Wgmma(128, 40, 4, 2, row=64, line=80, kept=1, inside=True)),
    (328, 72, 49, Wgmma(128, 64, 4, 2, line=98, buffers=1)), (200, 136, 100, Wgmma(64, 112, 4, 2, pingpong=True, line=200)),
], ids=[
    "a piece", "one buffer", "two steps", "pieces of 128 rows", "threads", "threads at edges", "beyond the columns", "8 columns", "inside", "odd lines",
    "lines of 8 bytes",
])
def test_numbers_of_other_ends(monkeypatch, m, k, n, schedule):
    torch.manual_seed(3)
    vectors = [torch.randn(n).bfloat16(), 1 + torch.rand(n).bfloat16(), torch.randn(n).bfloat16()]
    made = run(monkeypatch, normalized, [4 * torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16(), *vectors], schedule)
    assert ("cp.async.bulk.global.shared.cta" in made.program.gpu) == (schedule.line > 0)


@pytest.mark.parametrize("m, n, schedule", [(150, 40, Wgmma(64, 40, 4, 2, pingpong=True, line=160, kept=1)), (148, 49, Wgmma(64, 64, 4, 1, line=196))])
def test_numbers_of_a_piece_of_floats(monkeypatch, m, n, schedule):
    torch.manual_seed(4)
    run(monkeypatch, torch.nn.functional.linear, [torch.randn(m, 24), torch.randn(n, 24)], schedule)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [
    Wgmma(64, 144, 4, 2, pingpong=True, swapped=True, row=64, kept=1), Wgmma(128, 144, 3, 2, swapped=True, kept=1),
], ids=["in turns", "two consumers"])
def test_numbers_of_pixels_side_by_side(monkeypatch, schedule):
    """With the sides exchanged, so that what all tiles have in common is the rhs, which is kept."""
    torch.manual_seed(6)
    args = torch.randn(2, 24, 200).bfloat16(), torch.randn(144, 24).bfloat16(), torch.randn(144).bfloat16()
    run(monkeypatch, lambda x, w, b: torch.relu(w @ x + b[:, None]), args, schedule)


def test_numbers_of_short_rows_with_columns_innermost(monkeypatch):
    torch.manual_seed(4)
    run(monkeypatch, untransposed, [torch.randn(150, 16).bfloat16(), torch.randn(16, 128).bfloat16()], Wgmma(64, 128, 4, 2, pingpong=True, row=32))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [
    Wgmma(64, 16, 4, 2, pingpong=True, row=64, raw=4), Wgmma(128, 16, 4, 1, row=64, raw=4, helpers=2),
    Wgmma(64, 16, 4, 2, pingpong=True, row=64, raw=4, kept=1, by_threads=True),
], ids=["in turns", "two warpgroups rewrite", "the rhs is kept"])
def test_numbers_of_short_rows_that_are_scaled(monkeypatch, schedule):
    torch.manual_seed(5)
    image = torch.randn(2, 32, 10, 13).bfloat16().to(memory_format=torch.channels_last)
    made = run(monkeypatch, scaled, [image, torch.rand(2, 32, 1, 1).bfloat16(), torch.randn(16, 32, 1, 1).bfloat16()], schedule)
    assert "mulf_batch_matmul" in made.program.gpu


def chosen(m: int, k: int, n: int, **more) -> tuple[Wgmma, list[Wgmma]]:
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(m, k, n, "nk", **more))
        own = kernels(module)[0]
        found = wgmma.candidates(own, parse_contraction(own), TARGET)
        assert all(space.valid(own, s, TARGET) for _, s in found[:: max(1, len(found) // 12)])
        return min(found, key=lambda item: item[0])[1], [s for _, s in found]


@pytest.mark.parametrize("k, row", [(16, 32), (24, 128), (32, 64), (40, 128), (64, 128), (4096, 128)])
def test_terms_fill_rows(k, row):
    best, found = chosen(100352, k, 512)
    assert best.row == row and {s.row for s in found if s.split == 1 and not s.stream and s.chunks == 1} == {row}


def test_rows_of_what_is_kept_need_not_be_full():
    best, found = chosen(100352, 24, 96)
    assert best.kept and {(s.row, s.kept) for s in found if s.split == 1 and not s.stream and s.chunks == 1} == {(64, 1), (128, 0)}


# What an H100 took the least with (``short_sums.py``): boxes of several lines of 64 bytes, lines in one piece, and threads where L2 has all results.
@pytest.mark.parametrize("m, k, n, expected", [
    (401408, 16, 96, (256, 96, 0, False, 1)), (100352, 24, 144, (128, 144, 288, False, 1)), (25088, 40, 240, (64, 240, 480, False, 1)),
    (524288, 16, 64, (256, 64, 0, False, 1)), (6272, 112, 672, (128, 96, 0, True, 0)), (131072, 64, 256, (64, 256, 0, False, 1)),
])
def test_ends_of_tiles(m, k, n, expected):
    best, _ = chosen(m, k, n, results=("bf16",), body=SILU)
    assert (best.tile_m, best.tile_n, best.line, best.by_threads, best.kept) == expected


@pytest.mark.parametrize("k, n, width", [(16, 96, 96), (32, 16, 16), (32, 24, 24), (24, 144, 144), (32, 32, 32)])
def test_no_more_columns_than_there_are(k, n, width):
    best, _ = chosen(100352, k, n, results=("bf16",), body=SILU)
    assert best.tile_n == width and best.consumers == 2


def test_few_rows_stay_as_they_are():
    assert {s.row for s in chosen(16, 16, 1024)[1]} == {128}


def test_an_element_with_silu_takes_few_instructions():
    built = build(kernel(6400, 16, 96, "nk", results=("bf16",), body=SILU), "wgmma", Wgmma(64, 96, 12, 2, pingpong=True, row=32))
    assembled(built)
    assert built.count(r"ex2\.approx") == built.count(r"rcp\.approx\.ftz") == 48 and built.count("setp[.\\w]*f32") == 0
    exact = build(kernel(6400, 16, 96, "nk", results=("f32",), body=SILU.replace("%z4 = arith.mulf", "%y0 = arith.mulf").rsplit("\n", 1)[0]), "wgmma",
                  Wgmma(64, 96, 12, 2, pingpong=True, row=32))
    assert exact.count(r"rcp\.approx\.ftz") == 0
