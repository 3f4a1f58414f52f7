"""What the end of a tile reads comes to shared memory by the copy engine: numbers on the simulator, what is emitted, and where it is refused."""

import dataclasses

import pytest
import torch
from contractions import contraction
from kernels import build, check_arrivals
from test_wgmma import assembled
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma import slots_to_bring
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import TARGETS

RESIDUAL = """%r = arith.extf %e0 : bf16 to f32
  %t = arith.addf %s, %r : f32
  %y0 = arith.truncf %t : f32 to bf16"""


def kernel(m: int = 1000, n: int = 256, k: int = 64, extras: tuple = (("mn", "bf16"),), body: str = RESIDUAL, **more) -> str:
    return contraction({"m": m, "n": n, "k": k}, "mk", "nk", "mn", extras=extras, body=body, **{"results": ("bf16",), **more})


def both(x, w, bias, first, second):
    return torch.relu(torch.nn.functional.linear(x, w, bias) + first) * second


def in_place(x, w, bias, first, second):
    first += torch.nn.functional.linear(x, w, bias) * second
    return first


# Tiles of a multiprocessor take more slots than there are; the last ones hang over the edges, or lie inside.
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, types, schedule, early", [
    (both, (torch.bfloat16, torch.bfloat16), Wgmma(128, 32, 2, 2, bring=3), False),
    (both, (torch.float32, torch.bfloat16), Wgmma(128, 64, 2, 2, bring=2), True),
    (both, (torch.bfloat16, torch.bfloat16), Wgmma(64, 32, 3, 2, pingpong=True, bring=2, inside=True), True),
    (both, (torch.bfloat16, torch.float32), Wgmma(128, 64, 2, 2, pingpong=True, bring=5), False),
    (in_place, (torch.bfloat16, torch.bfloat16), Wgmma(64, 32, 2, 1, bring=4), False),
], ids=["together", "float32", "pingpong", "pingpong-float32", "in-place"])
def test_numbers(monkeypatch, function, types, schedule, early):
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=2))
    torch.manual_seed(5)
    m, n, k = 200, 40, 72
    args = [torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16() / 8, torch.randn(n).bfloat16(), *(torch.randn(m, n).to(t) for t in types)]
    run = SimulatedModel(function, tuple(a.clone() for a in args), choose=lambda kernel: schedule, early=early)
    expected, result = function(*(a.double() for a in args)), run(*(a.clone() for a in args))
    assert "box = [32, 64]" in run.program.gpu or "box = [64, 64]" in run.program.gpu
    assert ((result.double() - expected).abs() / (expected.abs() + 1)).max() < 2 ** -7


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 128, 4, 2, bring=4), Wgmma(128, 128, 4, 2, pingpong=True, bring=4), Wgmma(64, 256, 3, 2, pingpong=True, bring=4),
], ids=["together", "pingpong", "wide"])
def test_nothing_is_read_by_threads(schedule):
    built = build(kernel(), "wgmma", schedule)
    assembled(built)
    # Four matrices of 8 x 8 a load and a store; 64 rows of 64 columns a copy, by the operands' warp and one of each consumer.
    parts = schedule.tile_n // 64 * (schedule.rows // 64)
    assert built.count("ldmatrix") == built.count("stmatrix") == 4 * parts
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == 2 + parts and not built.accesses("global")


def test_slots_are_given_back_when_they_were_read():
    built = build(kernel(extras=(("mn", "f32"),), body="%y0 = arith.addf %s, %e0 : f32", results=("f32",)), "wgmma", Wgmma(128, 128, 2, 2, bring=4))
    assembled(built)
    loads, arrivals = check_arrivals(built.ptx)
    assert loads == 64 * 128 // 128 // 2 and arrivals


@pytest.mark.parametrize("text, schedule", [
    (kernel(k=256), Wgmma(128, 128, 4, 2, split=2, persistent=False, bring=4)),
    (kernel(extras=(("n", "bf16"),)), Wgmma(128, 128, 4, 2, bring=4)),
    (kernel(n=250), Wgmma(128, 128, 4, 2, bring=4)),
    (kernel(extras=(("mn", "bf16"), ("mn", "bf16"))), Wgmma(128, 128, 4, 2, bring=1)),
], ids=["split", "row", "unaligned", "slots"])
def test_what_cannot_be_brought_is_refused(text, schedule):
    with pytest.raises(CompileError, match="nothing to bring"):
        build(text, "wgmma", schedule)


@pytest.mark.parametrize("schedule, slots", [
    (Wgmma(128, 256, 4, 2), []), (Wgmma(256, 160, 4, 2), []), (Wgmma(128, 128, 4, 2), [4, 2, 6]), (Wgmma(64, 192, 4, 2, pingpong=True), [4, 2, 6]),
    (Wgmma(128, 128, 4, 2, split=2), []), (Wgmma(128, 128, 4, 2, swapped=True), []),
])
def test_registers_for_it_are_left(schedule, slots):
    rows = tuple(("n", t) for t in ("bf16", "bf16", "f32", "bf16"))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(extras=(("mn", "bf16"), *rows)))
        c = parse_contraction(kernels(module)[0])
        assert slots_to_bring(schedule, c, tile_contraction(c, 2, only_along_k=False)) == slots
