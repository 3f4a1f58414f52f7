"""Two float32 contractions that share an operand, as one kernel: right on the simulated GPU where CUDA cores do it, assembled without spills."""

import re
from dataclasses import replace

import pytest
import torch
from checks import check
from kernels import build, choose
from test_dual import SWIGLU, assembled, dual
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule import assign, spaces
from inferno.schedule.assign import generators, kernels
from inferno.schedule.attributes import to_attribute
from inferno.schedule.maps.elementwise import choose as choose_elementwise
from inferno.schedule.matmul import dual_vectors
from inferno.schedule.matmul.dual import parse_pair
from inferno.schedule.matmul.dual_bf16x6 import DualBf16x6
from inferno.schedule.matmul.dual_vectors import DualVectors
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")
BODY = SWIGLU.replace("%p = arith.mulf", "%y0 = arith.mulf").partition("\n  %y0 = arith.truncf")[0]


def pair(m, k, n, layout="nk", second=""):
    return dual(m, k, n, layout, second, body=BODY, results=("f32",), element="f32")


def swiglu(x, g, u):
    return F.silu(x @ g.t()) * (x @ u.t())


def geglu(x, g, u, b):
    return F.gelu(x @ g + b) * (x @ u)


@pytest.mark.covering
@pytest.mark.parametrize("function, shapes", [
    (swiglu, ((1, 512), (40, 512), (40, 512))), (swiglu, ((3, 136), (33, 136), (33, 136))), (swiglu, ((4, 264), (24, 264), (24, 264))),
    (geglu, ((1, 512), (512, 40), (512, 40), (40,))), (geglu, ((2, 130), (130, 36), (130, 36), (36,))),
])
def test_few_rows_on_cuda_cores(function, shapes):
    torch.manual_seed(0)
    args, chosen = tuple(torch.randn(s) for s in shapes), []

    def choose_dual(kernel):
        found = parse_pair(kernel)
        times = dual_vectors.candidates(kernel, found, TARGET) if found is not None else []
        chosen.extend(times)
        return min(times, key=lambda item: item[0])[1] if times else choose_elementwise(kernel, TARGET)

    simulated = SimulatedModel(function, args, choose=choose_dual, passes="fuse-duals{target=sm_90a always=1}")
    assert chosen
    found = check(simulated, function, args)
    assert found.right, str(found)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, layout", [(1, "nk"), (3, "nk"), (4, "nk"), (1, "kn"), (2, "kn")])
def test_no_schedule_for_few_rows_spills(m, layout):
    built = build(pair(m, 4096, 11008, layout), "dual_vectors")
    assembled(built)
    assert built.schedule.rows == m and built.gpu.count('"inferno.launch"') == 1


SCHEDULES = [
    DualBf16x6(128, 64, 2, 4), DualBf16x6(128, 32, 4, 4), DualBf16x6(64, 64, 4, 4, slices=2), DualBf16x6(64, 32, 6, 6, groups=3, slices=2),
    DualBf16x6(64, 16, 6, 12, groups=3, slices=2), DualBf16x6(64, 16, 6, 12, groups=3, slices=2, compensated=True),
    DualBf16x6(64, 32, 6, 6, groups=3, slices=2, split=4, persistent=False),
]


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.tile_m}x{s.tile_n}{'s' * (s.split - 1)}{'c' * s.compensated}")
def test_no_schedule_for_tensor_cores_spills(schedule):
    wide = SCHEDULES.index(schedule) in (0, 3, 5)  # (many columns, where it is one of the largest, the smallest and the one that needs most)
    for rows, terms, columns in ((600, 1536, 520), *([(256, 6144, 11008)] if wide else [])):
        built = build(pair(rows, terms, columns), "dual_bf16x6", schedule)
        assembled(built)
    # Products for both factors at once, and one box of each beside the lhs's.
    assert set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k16)", built.ptx)) == {f"m64n{2 * schedule.tile_n}k16"}
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == 3 and built.gpu.count('"inferno.launch"') == 1


def test_who_takes_what():
    for m, few in ((1, True), (4, True), (9, False), (2048, False)):
        text = pair(m, 1024, 2048)
        assert isinstance(choose(text, "dual_vectors"), DualVectors) == few and isinstance(choose(text, "dual_bf16x6"), DualBf16x6) != few
        assert choose(text, "dual") is None
    assert all(choose(pair(m, 1024, 2048, layout), g) is None for m, layout in ((5, "nk"), (3, "kn")) for g in ("dual_vectors", "dual_bf16x6"))
    assert choose(pair(64, 1024, 2048, "kn"), "dual_bf16x6") is None  # columns together are two kernels
    assert choose(pair(4, 1024, 2048, "nk", "kn"), "dual_vectors") is None
    assert all(choose(dual(m, 512, 512), g) is None for m in (4, 64) for g in ("dual_vectors", "dual_bf16x6"))


def test_what_it_does_not_do_is_an_error():
    with pytest.raises(CompileError, match="cannot divide 48 steps, or needs more registers"):
        build(pair(64, 1536, 512), "dual_bf16x6", replace(SCHEDULES[4], stages=5))
    with pytest.raises(CompileError, match="not two float32 products of few rows"):
        build(pair(4, 1536, 512), "dual_vectors", DualVectors(rows=4, swapped=True))


@pytest.mark.parametrize("m", [4, 64])
def test_the_tuner_measures_them(m):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(pair(m, 1024, 2048))
        kernel = kernels(module)[0]
        found = spaces.space_of(kernel, TARGET, generators(TARGET.kind), assign.choose(kernel, TARGET))
        assert len(found) > 1 and {s.generator for _, s in found} == {"dual_vectors" if m <= 8 else "dual_bf16x6"}
        assert all(assign.read_known(kernel, str(to_attribute(s)), TARGET) == s for _, s in found)
