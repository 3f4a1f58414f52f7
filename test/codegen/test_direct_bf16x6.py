"""Small float32 contractions by mma.sync from registers: numbers on the simulator, and that ptxas takes them without spills."""

from functools import partial

import pytest
import torch
from chosen_products import assert_product_right
from contraction_cases import EPILOGUES, LAYOUTS, epilogue_shapes, heads, layout_shapes
from contractions import contraction
from kernels import TARGET, build, matmul
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.passes.programs import UNMEASURED
from inferno.runtime.check.comparison import compare
from inferno.schedule import spaces
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import direct_bf16x6
from inferno.schedule.matmul.direct_bf16x6 import DirectBf16x6
from inferno.target import find_target
from inferno.tools.check import reference

USUAL = DirectBf16x6(32, 16, 8, 2)
right = partial(assert_product_right, direct_bf16x6)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("m, n, k", [(64, 32, 128), (70, 52, 100), (38, 34, 50), (35, 33, 51)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_sizes(layout, m, n, k):
    """Pieces of four, two and one; ends of all axes inside of a tile."""
    right(LAYOUTS[layout], layout_shapes(m, n, k), DirectBf16x6(32, 16, 4, 1))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("m, n, warps, ahead", [
    (16, 8, 16, 1), (16, 8, 8, 4), (16, 16, 8, 2), (16, 32, 4, 1), (16, 16, 8, 4), (32, 32, 8, 2), (32, 32, 4, 1), (64, 32, 8, 1), (32, 64, 8, 1),
    (16, 16, 16, 1),
])
@pytest.mark.parametrize("layout", ["mk,kn", "km,nk"])
def test_tiles(m, n, warps, ahead, layout):
    """Each with a loop and an end that terms do not fill; most tiles' warps add up in one round, the largest's in several."""
    right(LAYOUTS[layout], layout_shapes(m + 12, n + 20, 16 * warps * ahead * 2 + 36), DirectBf16x6(m, n, warps, ahead))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name):
    right(EPILOGUES[name], epilogue_shapes(44, 36, 80), DirectBf16x6(16, 16, 4, 1))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shapes", [((3, 33, 17), (3, 17, 35)), ((2, 3, 20, 24), (2, 3, 24, 40)), ((2, 1, 36, 24), (1, 3, 24, 36))], ids=str)
def test_batches(shapes):
    right(torch.matmul, shapes)


def test_axes_of_several_loops():
    heads(lambda function, args: right(function, args), torch.randn, 20, 3, 16)
    right(lambda a, b: torch.einsum("bhmk,hkn->bmn", a, b), ((2, 3, 20, 24), (3, 24, 20)))


@pytest.mark.parametrize("function", [lambda x, w: torch.relu(x) @ w, lambda x, w: torch.tanh(x) @ (w * 2)])
def test_prologues(function):
    right(function, ((35, 70), (70, 20)))


def test_infinite_and_large_numbers():
    """What is split of infinity leaves NaN over: such sums are added again, the others are as they were."""
    x, w = torch.randn(40, 200), torch.randn(200, 24)
    x[3, 7], x[20, 199], x[21, 0], w[5, 2], w[100, 9] = float("inf"), -float("inf"), float("nan"), float("inf"), 3.4e38
    for function in (lambda x, w: x @ w, lambda x, w: torch.relu(x @ w)):
        model = SimulatedModel(function, (x, w), choose=lambda kernel: USUAL)
        found = compare(model(x, w), function(x, w), reference(function, (x, w)))
        assert found.right, str(found)
        assert model(x, w).isinf().any() and model(x, w).isnan().any()


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("rhs", ["k,n", "n,k"])
@pytest.mark.parametrize("lhs", ["m,k", "k,m"])
def test_no_schedule_spills(lhs, rhs):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(matmul(600, 520, 1380, lhs=lhs, rhs=rhs))
        kernel = kernels(module)[0]
        schedules = [s for _, s in spaces.find("direct_bf16x6").space(kernel, TARGET)]
        assert all(spaces.find("direct_bf16x6").valid(kernel, s, TARGET) for s in schedules)
    assert len(schedules) >= 5
    for schedule in schedules:
        built = build(matmul(600, 520, 1380, lhs=lhs, rhs=rhs), "direct_bf16x6", schedule)
        if built.resources:
            # (A number or two in front of the products, by which the assembler has more of small blocks at once.)
            assert built.resources.spills <= 32 and built.resources.shared <= 48 * 1024, str(schedule)
        # The lhs's terms, or rows, are read in fours; of a tile of eight columns one is a thread's.
        assert any("ld.global.nc.v4" in a or "ld.global.nc.v2" in a for a in built.accesses())
        each = schedule.tile_m // 16 * (schedule.tile_n // 8) * 6 * schedule.ahead
        assert each < built.count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16") <= 2 * each  # without those of steps that there are not


@pytest.mark.parametrize("text", [
    matmul(64, 64, 64, "bf16"), matmul(8, 64, 64), contraction({"m": 64, "n": 64, "k": 64}, "mk", "kn", "mn", "f32", attributes='{inferno.precision = "tf32"}'),
])
def test_other_products_are_left_to_others(text):
    with pytest.raises(CompileError, match="not a float32 contraction"):
        build(text, "direct_bf16x6", USUAL)


@pytest.mark.parametrize("m, n, k, tile", [
    (192, 320, 384, (16, 16)), (32, 1024, 1024, (16, 16)), (9, 768, 768, (16, 8)), (512, 512, 512, None), (1024, 1024, 1024, None), (64, 256, 128, None),
    (8, 512, 512, None),
])
def test_small_ones_are_its(m, n, k, tile):
    found = chosen(m, n, k, TARGET)
    assert (found and (found.tile_m, found.tile_n)) == tile


def test_other_gpus_have_not_been_measured():
    assert chosen(192, 320, 384, find_target("sm_80")) is None
    assert chosen(192, 320, 384, find_target("sm_80"), asked=True) is not None


def chosen(m, n, k, target, asked=False):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(matmul(m, n, k))
        if asked:
            module.operation.attributes[UNMEASURED] = ir.UnitAttr.get()
        return direct_bf16x6.choose(kernels(module)[0], target)
