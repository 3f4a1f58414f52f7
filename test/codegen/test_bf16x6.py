"""Float32 contractions as products of bf16: what is emitted, that ptxas takes it without spills, and when it is chosen."""

import re
from dataclasses import replace

import pytest
import torch
from checks import check
from choices import generators
from contractions import contraction
from kernels import TARGET, assembled, build, check_arrivals, choose, matmul
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.schedule.matmul.bf16x6 import CANDIDATES, SPLIT, _FEW, Bf16x6
from inferno.target import find_target

SCHEDULES = [s for s, _ in (*CANDIDATES, *SPLIT)]
NARROW = [s for s, _ in (*CANDIDATES, *_FEW) if s.tile_n <= 32 and s.split == 1]
LAYOUTS = [("m,k", "k,n"), ("m,k", "n,k"), ("k,m", "k,n"), ("k,m", "n,k")]


@pytest.mark.thorough
@pytest.mark.covering(most=2)(most=3, also=lambda schedule, lhs, rhs: (schedule, lhs, rhs) == (CANDIDATES[0][0], "k,m", "k,n"))
@pytest.mark.parametrize("lhs, rhs", LAYOUTS)
@pytest.mark.parametrize("schedule", [s for s, _ in CANDIDATES], ids=lambda s: f"{s.tile_m}x{s.tile_n}")
def test_no_schedule_spills(schedule, lhs, rhs):
    if lhs == "k,m" and schedule.tile_n == 128:
        schedule = replace(schedule, groups=1)  # as ``choose`` does
    built = build(matmul(600, 520, 380, "f32", lhs, rhs), "bf16x6", schedule)
    assembled(built)
    products = re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k16\.f32\.bf16\.bf16)", built.ptx)
    # Six products of 16 terms, twice a step, in the loop and after it (which LLVM may make one).
    assert set(products) == {f"m64n{schedule.tile_n}k16.f32.bf16.bf16"} and len(products) in (12, 24)
    assert built.gpu.count('"inferno.launch"') == 1 and "tf32" not in built.ptx
    # A slot is given back when its loads are done.
    loads, arrivals = check_arrivals(built.ptx)
    assert loads > 0 and arrivals >= 3


@pytest.mark.thorough
def test_few_tiles_of_rows_do_not_spill():
    """Where LLVM saw how a tile's columns follow from its number it carried 64 of them along, which took the registers of sums."""
    assembled(build(matmul(256, 11008, 4096, "f32", rhs="n,k"), "bf16x6", Bf16x6(128, 128, 2, 4)))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("lhs, rhs", [("m,k", "n,k"), ("k,m", "k,n")])
@pytest.mark.parametrize("schedule", NARROW, ids=lambda s: f"{s.tile_m}x{s.tile_n}{s.swapped * ' swapped'}")
def test_compensated_sums_do_not_spill(schedule, lhs, rhs):
    schedule = replace(schedule, compensated=True)
    built = build(matmul(14, 60000, 384, "f32", lhs, rhs) if schedule.swapped else matmul(4000, 3000, 384, "f32", lhs, rhs), "bf16x6", schedule)
    assembled(built)
    assert built.count(r"sub\.(rn\.)?f32") >= 3 * schedule.tile_n // 2  # four operations a step and sum, besides splitting


@pytest.mark.parametrize("m, k, expected", [(9, 2048, False), (9, 4096, True), (32, 18944, True), (9, 16384, True)])
def test_long_sums_are_compensated(m, k, expected):
    schedule = choose(matmul(m, 11008, k, "f32", rhs="n,k"), "bf16x6")
    in_a_row = k // 32 / schedule.split / schedule.slices
    assert schedule.swapped and schedule.compensated == (in_a_row > 64) == expected


def test_split_sums_meet_in_a_cluster():
    built = build(matmul(256, 256, 4096), "bf16x6", Bf16x6(64, 64, 6, 6, persistent=False, split=2, groups=3, slices=2))
    assembled(built)
    assert "cluster = [2, 1, 1]" in built.gpu and "ld.shared::cluster" in built.ptx


def test_sums_that_are_not_finite_are_added_again():
    built = build(matmul(512, 512, 512), "bf16x6")
    # Both rows of the lhs, and a number of the rhs for each column of a thread; nothing else is read that way but the bias.
    assert built.count(r"fma\.rn\.f32") >= built.schedule.tile_n // 2


@pytest.mark.parametrize("m, n, k, tile", [
    (64, 128, 128, None), (4, 4096, 4096, None), (512, 512, 512, (64, 32)), (1024, 1024, 1024, (128, 64)),
    (2048, 2048, 2048, (128, 128)),
])
def test_chosen_where_it_is_faster(m, n, k, tile):
    schedule = choose(matmul(m, n, k), "bf16x6")
    assert (schedule and (schedule.tile_m, schedule.tile_n)) == tile


def test_every_schedule_fits():
    assert all(s.shared(128 * (s.tile_m + s.tile_n)).total <= TARGET.shared for s in SCHEDULES)
    assert all(slots % turns == 0 for s in SCHEDULES for slots in (s.stages, s.raw) for turns in (s.groups, s.slices))


@pytest.mark.parametrize("text", [
    matmul(1024, 1024, 1024, "bf16"),
    contraction({"m": 1024, "n": 1024, "k": 1024}, "mk", "kn", "mn", "f32", attributes='{inferno.precision = "tf32"}'),
])
def test_other_types_are_left_to_others(text):
    assert choose(text, "bf16x6") is None


def test_only_on_hopper():
    from inferno.schedule.matmul import bf16x6

    assert find_target("sm_80").hopper is False and bf16x6.choose(None, find_target("sm_80")) is None


@pytest.mark.parametrize("schedule, message", [
    (Bf16x6(64, 64, 3, 6, groups=2), "cannot divide"), (Bf16x6(64, 64, 6, 6, groups=3, slices=2, split=2, persistent=False), "cannot divide"),
    (Bf16x6(128, 128, 2, 4), "cannot divide"), (Bf16x6(128, 128, 4, 8, persistent=False), "bytes of shared memory"),
    (Bf16x6(128, 96, 2, 4, persistent=False), "cannot split lines of 96"), (Bf16x6(128, 64, 4, 4, persistent=False, compensated=True), "more registers"),
])
def test_schedules_that_do_not_fit_are_refused(schedule, message):
    with pytest.raises(CompileError, match=message):
        build(matmul(256, 256, 96), "bf16x6", schedule)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("target, left, right", [("sm_90a", "presplit", "bf16x6"), ("sm_80", "simt", "simt")])
def test_a_factor_of_another_type(dtype, target, left, right):
    """What splits the right factor in front reads float32."""
    x, w = torch.zeros(1024, 333, dtype=dtype), torch.zeros(1024, 333)
    for model, generator in ((lambda x, w: torch.tanh(x.float() @ w.t()), left), (lambda x, w: torch.tanh(w @ x.float().t()), right)):
        assert generators(model, (x, w), target) == [generator]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("target, generator", [("sm_90a", "bf16x6"), ("sm_80", "simt")])
def test_triangles_are_written_before(target, generator):
    """What an element's place tells of it no kernel of tiles computes."""
    x, w = torch.zeros(1024, 512), torch.zeros(512, 1024)
    assert set(generators(lambda x, w: x.tril() @ w, (x, w), target)) == {"elementwise", generator}
    assert "universal" not in generators(lambda x: x.tril() @ x.tril() - x.tril(), (x[:512],), target)


@pytest.mark.thorough
def test_windows_of_a_signal_are_rows_that_overlap():
    torch.manual_seed(5)
    x, w = torch.randn(2, 1500), torch.randn(48, 100)

    def function(x, w):
        return torch.nn.functional.conv1d(x[:, None], w[:, None], stride=20).transpose(1, 2)

    simulated = SimulatedModel(function, (x, w), choose=lambda kernel: Bf16x6(64, 64, 4, 2, groups=1))
    assert simulated.program.gpu.count('"inferno.launch"') == 1
    found = check(simulated, function, (x, w))
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("side", [0, 1])
def test_a_factor_of_bytes(side):
    """Bytes are widened where they are split."""
    torch.manual_seed(5)
    x, w = torch.randn(70, 128), torch.randn(48, 128)
    x, w = (x, (10 * w).to(torch.int8)) if side else ((10 * x).to(torch.int8), w)
    F = torch.nn.functional
    function = (lambda x, w: F.linear(x, w.to(x.dtype))) if side else (lambda x, w: F.linear(x.to(w.dtype), w))
    found = check(SimulatedModel(function, (x, w), choose=lambda kernel: Bf16x6(64, 64, 4, 2, groups=1)), function, (x, w))
    assert found.right, str(found)
