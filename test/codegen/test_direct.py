"""Narrow products by mma.sync from registers, of float32 and of 16 bits: numbers on the simulator, and that ptxas takes them without spills."""

from functools import partial

import pytest
import torch
from choices import generators
from chosen_products import assert_product_right
from contraction_cases import EPILOGUES, LAYOUTS, PROLOGUES, epilogue_shapes, heads, layout_shapes, not_finite
from kernels import TARGET, build, matmul
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.runtime.check.comparison import compare
from inferno.schedule import spaces
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import direct
from inferno.schedule.matmul.direct import Direct
from inferno.tools.check import reference

F = torch.nn.functional
bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
right = partial(assert_product_right, direct)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("dtype", [f32, bf16, f16])
@pytest.mark.parametrize("m, n, k", [(64, 32, 128), (72, 56, 104), (38, 34, 50), (35, 33, 51), (3, 5, 70)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_sizes(layout, m, n, k, dtype):
    """Pieces of eight, four, two and one; ends of all axes inside of a tile, and fewer rows and columns than it has."""
    right(LAYOUTS[layout], layout_shapes(m, n, k), Direct(32, 16, 2, 1, 1, 2), dtype)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("dtype", [f32, bf16, f16])
@pytest.mark.parametrize("m, n, k", [(16, 32, 1024), (8, 24, 1000), (6, 10, 515), (3, 7, 1027), (40, 20, 700)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_the_terms(layout, m, n, k, dtype):
    """The last part has fewer terms."""
    right(LAYOUTS[layout], layout_shapes(m, n, k), Direct(16, 16, 4, 1, 3), dtype)


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("schedule", [
    Direct(16, 8, 1, 2, 1, 8), Direct(16, 8, 8, 2), Direct(16, 16, 2, 4, 1, 4), Direct(16, 32, 4, 1, 5), Direct(32, 32, 8, 1, 2), Direct(64, 32, 8, 1, 4),
    Direct(32, 16, 16, 1), Direct(16, 16, 4, 2, 16),
], ids=str)
def test_tiles_and_parts(schedule, dtype):
    k = 128 * 30 + 40 if schedule.parts == 16 else 16 * schedule.warps * schedule.ahead * schedule.parts * 2 - 30
    right(LAYOUTS["km,kn"], layout_shapes(schedule.tile_m + 12, schedule.tile_n + 20, k), schedule, dtype)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("schedule", [Direct(16, 16, 4, 1, 2), Direct(16, 16, 2, 1, 1, 4)], ids=str)
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name, dtype, schedule):
    right(EPILOGUES[name], epilogue_shapes(44, 36, 160), schedule, dtype)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("shapes", [
    ((19, 8, 32), (19, 32, 8)), ((2, 3, 12, 24), (2, 3, 24, 4)), ((2, 1, 36, 24), (1, 3, 24, 16)), ((2, 3, 40), (2, 40, 5)),
], ids=str)
def test_batches(shapes, dtype):
    """The last block has fewer tiles than others."""
    right(torch.matmul, shapes, Direct(16, 8, 1, 1, 1, 4), dtype)


def test_axes_of_several_loops():
    heads(lambda function, args: right(function, args, Direct(16, 16, 2, 1, 1, 2)), torch.randn, 20, 3, 16)
    right(lambda a, b: torch.einsum("bhmk,hkn->bmn", a, b), ((2, 3, 20, 24), (3, 24, 20)), Direct(16, 8, 4, 1, 2))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", PROLOGUES)
def test_prologues(name):
    dtype = bf16
    x = torch.randn(35, 200) if name == "round" else torch.randn(35, 200).to(dtype)
    args = x, torch.randn(200, 6).to(dtype), torch.randint(-9, 9, (200, 6), dtype=torch.int8), torch.randn(1, 200).to(dtype)
    right(PROLOGUES[name], args, Direct(16, 8, 4, 1, 2))


@pytest.mark.covering
@pytest.mark.parametrize("schedule", [Direct(16, 8, 4, 1, 3), Direct(16, 8, 1, 2, 1, 4)], ids=str)
@pytest.mark.parametrize("dtype", [f32, bf16])
def test_infinite_numbers(dtype, schedule):
    """What is split of infinity leaves NaN over: such sums are added again, those of their part alone."""
    torch.manual_seed(0)
    x, w = (t.to(dtype) for t in not_finite(torch.randn, 40, 12, 700))
    model = SimulatedModel(torch.matmul, (x, w), choose=lambda kernel: schedule)
    found = compare(model(x, w), torch.matmul(x, w), reference(torch.matmul, (x, w)))
    assert found.right, str(found)
    assert model(x, w).isinf().any() and model(x, w).isnan().any()


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [Direct(16, 8, 8, 2), Direct(16, 8, 4, 1, 4)], ids=str)
def test_long_sums_stay_exact(schedule):
    """Of numbers of one sign."""
    right(torch.matmul, (torch.rand(20, 4096), torch.rand(4096, 4)), schedule)


def test_squares():
    """Both factors are the same tensor."""
    for dtype in (f32, bf16):
        right(lambda x: x.t() @ x, ((1 << 13, 6),), dtype=dtype)


@pytest.mark.thorough
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("m, n, k, lhs, rhs", [
    (16, 32, 1 << 18, "k,m", "k,n"), (64, 64, 1 << 18, "k,m", "k,n"), (128, 128, 1 << 16, "k,m", "k,n"), (1 << 18, 4, 64, "m,k", "k,n"),
    (4096, 8, 1024, "m,k", "k,n"),
])
def test_no_schedule_spills(m, n, k, lhs, rhs, element):
    text = matmul(m, n, k, element, lhs=lhs, rhs=rhs)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = kernels(module)[0]
        schedules = sorted(spaces.find("direct").space(kernel, TARGET), key=lambda item: item[0])
        assert schedules and all(spaces.find("direct").valid(kernel, s, TARGET) for _, s in schedules)
    for number, (_, schedule) in enumerate(schedules[:6]):
        built = build(text, "direct", schedule)
        if built.resources:  # (of those that are not chosen a place may be left)
            assert built.resources.spills <= (16 if number else 0) and built.resources.shared <= 48 * 1024, str(schedule)


def test_other_products_are_left_to_others():
    """Products with a vector, and what registers do not hold."""
    for text, schedule in ((matmul(1, 64, 64), Direct(16, 8, 4, 1)), (matmul(64, 64, 4096), Direct(64, 64, 8, 1))):
        with pytest.raises(CompileError, match="not a contraction that"):
            build(text, "direct", schedule)


@pytest.mark.covering
@pytest.mark.parametrize("function, shapes, dtype, chosen", [
    (lambda x, y: x.t() @ y, ((1 << 18, 16), (1 << 18, 32)), bf16, True), (lambda x, y: x.t() @ y, ((1 << 18, 8), (1 << 18, 32)), f16, True),
    (lambda x: x.t() @ x, ((1 << 20, 16),), bf16, True), (lambda x, y: x.t() @ y, ((1 << 16, 64), (1 << 16, 64)), f32, True),
    (lambda x, w, b: F.linear(x, w, b), ((1 << 18, 64), (3, 64), (3,)), f32, True), (torch.matmul, ((4096, 1024), (1024, 8)), bf16, True),
    (lambda x, y: torch.einsum("nik,njk->nij", x, y), ((1 << 14, 8, 32), (1 << 14, 8, 32)), f32, True),
    (torch.matmul, ((4096, 4096), (4096, 4096)), bf16, False), (torch.matmul, ((4, 4096), (4096, 4096)), bf16, False),
    (torch.matmul, ((1 << 18, 64), (64, 64)), bf16, False),
])
def test_what_is_chosen(function, shapes, dtype, chosen):
    assert ("direct" in generators(function, tuple(torch.empty(s, dtype=dtype) for s in shapes))) == chosen
