"""Float32 contractions whose rhs has been split: what is emitted, that ptxas takes it without spills, and what @prepare computes."""

import re
from dataclasses import replace

import pytest
import torch
from kernels import TARGET, build, check_arrivals, choose, matmul

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.check.calls import without_schedules
from inferno.schedule.matmul.bf16x6 import CUT
from inferno.schedule.matmul.presplit import _CANDIDATES, _SPLIT, Presplit
from inferno.tools.ir_program import IrProgram

SCHEDULES = [s for s, _ in (*_CANDIDATES, *_SPLIT)]


def kernel(m: int, n: int, k: int, lhs: str = "m,k", rhs: str = "n,k", parts: int = 1) -> str:
    """A matmul with the rhs's parts as another argument in front of the destination."""
    text = matmul(m, n, k, "f32", lhs, rhs)
    return text.replace(", %o: ", f", %parts: tensor<3x{n}x{-(-k // 32) * 32}xbf16> {{inferno.parts = {parts} : i64}}, %o: ", 1)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule, lhs, rhs", [
    *((s, "m,k", "n,k") for s, _ in _CANDIDATES), (SCHEDULES[0], "k,m", "k,n"), (SCHEDULES[2], "k,m", "n,k"),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}" if isinstance(s, Presplit) else s)
def test_no_schedule_spills(schedule, lhs, rhs):
    built = build(kernel(600, 520, 384, lhs, rhs), "presplit", schedule)
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0
    products = re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k16\.f32\.bf16\.bf16)", built.ptx)
    assert set(products) == {f"m64n{schedule.tile_n}k16.f32.bf16.bf16"} and len(products) in (12, 24)
    # One box for the three tiles of the rhs; nobody writes to shared memory but the epilogue and what adds slices up.
    assert built.count(r"cp\.async\.bulk\.tensor\.3d\.shared") == 1 and "st.shared.b64" not in built.ptx


def test_loads_are_done_before_a_slot_is_given_back():
    loads, _ = check_arrivals(build(kernel(600, 520, 384), "presplit", Presplit(128, 128, 4, 4)).ptx)
    assert loads > 0


def test_split_sums_meet_in_a_cluster():
    built = build(kernel(256, 256, 4096), "presplit", Presplit(64, 64, 8, 8, persistent=False, split=2, slices=2))
    assert "cluster = [2, 1, 1]" in built.gpu and "ld.shared::cluster" in built.ptx


def test_every_schedule_fits():
    assert all(s.shared(128 * s.tile_m).total <= TARGET.shared for s in SCHEDULES)


@pytest.mark.parametrize("m, n, k, tile", [
    (512, 512, 512, (64, 32)),
    (1024, 1024, 1024, (64, 128)), (1536, 1536, 1536, (128, 144)), (4096, 4096, 4096, (128, 128)), (1000, 1000, 77, (64, 128)), (8192, 8192, 8192, (128, 144))])
def test_chosen_by_the_estimate(m, n, k, tile):
    schedule = choose(kernel(m, n, k), "presplit")
    assert (schedule.tile_m, schedule.tile_n) == tile


@pytest.mark.parametrize("schedule, text, message", [
    (Presplit(64, 64, 3, 8, slices=2), kernel(256, 256, 96), "cannot divide"), (Presplit(128, 128, 8, 8), kernel(256, 256, 96), "bytes of shared memory"),
    (replace(SCHEDULES[0], groups=2), kernel(256, 256, 128), "cannot divide"),
    (Presplit(), matmul(256, 256, 128, "bf16"), "has been or can be split"),
])
def test_what_does_not_fit_is_refused(schedule, text, message):
    with pytest.raises(CompileError, match=message):
        build(text, "presplit", schedule)


def prepared(text: str) -> str:
    """``@prepare`` of a module after ``prepare-operands``, as a program."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, "assign-schedules{target=sm_90a},prepare-operands{target=sm_90a}")
        text = str(module)
    return without_schedules(text.replace("@main", "@unused").replace("@prepare", "@main"))


def program(n: int, k: int, lhs: str, rhs: str) -> str:
    m, function = 512, matmul(512, n, k, "f32", lhs, rhs)
    types = re.findall(r"%(?:x|w|bias|o): (tensor<\w+>)", function)
    x, w, bias, out = types[:4]
    return f"""module {{
    func.func @main(%x: {x}, %w: {w} {{inferno.frozen}}, %bias: {bias}) -> {out} attributes {{inferno.freeze = 100000000 : i64}} {{
      %e = tensor.empty() : tensor<{m}x{n}xf32>
      %0 = call @mm(%x, %w, %bias, %e) : ({x}, {w}, {bias}, {out}) -> {out}
      return %0 : {out}
    }}
    {function} }}"""


@pytest.mark.covering
@pytest.mark.parametrize("lhs", ["m,k", "k,m"])
@pytest.mark.parametrize("rhs", ["n,k", "k,n"])
@pytest.mark.parametrize("n, k", [(600, 500)])
def test_what_is_prepared_is_the_weight(lhs, rhs, n, k, tmp_path):
    """Each part is the nearest bf16 of what is left over, the low one a little larger, and terms are in the registers' order."""
    path = tmp_path / "prepare.mlir"
    path.write_text(prepared(program(n, k, lhs, rhs)))
    w = torch.randn(n, k) * torch.logspace(-20, 20, k)
    given = w if rhs == "n,k" else w.t().contiguous()
    (made,) = IrProgram.read(path, target="cpu")(given)
    size = -(-k // 32) * 32
    padded = torch.zeros(n, size)
    padded[:, :k] = w
    if lhs == "m,k":
        positions = torch.arange(32)
        t, h, q, j = positions >> 4, positions >> 3 & 1, positions >> 1 & 3, positions & 1
        padded = padded.view(n, size // 32, 32)[:, :, 8 * q + 4 * t + 2 * h + j].reshape(n, size)
    high, middle, low = made.view(torch.bfloat16) if made.dtype is not torch.bfloat16 else made
    assert made.shape == (3, n, size) and torch.equal(high, padded.bfloat16())
    rest = padded - high.float()
    assert torch.equal(middle, rest.bfloat16())
    rest = rest - middle.float()
    assert (rest == 0).sum() > 100 and torch.equal(low, (rest + torch.where(rest == 0, 0, padded * CUT)).bfloat16())


def test_few_rows_read_the_weight_as_it_is():
    assert choose(kernel(16, 8192, 8192), "presplit") is None


@pytest.mark.parametrize("lhs", ["m,k", "k,m"])
@pytest.mark.parametrize("n, k", [(600, 500), (1536, 1536)], ids=["beside", "in front"])
def test_frozen_weights_are_split_once(lhs, n, k):
    """Also where the kernel would have another one split them in front."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(program(n, k, lhs, "n,k"))
        run_pipeline(module, "assign-schedules{target=sm_90a},prepare-operands{target=sm_90a}")
        assert "@prepare" in str(module) and str(module).count("{inferno.parts = 1 : i64}") == str(module).count('generator = "presplit"') == 1
