"""The native code that launches a plan whose sizes vary does for each size what that of a plan with these sizes does."""

from dataclasses import replace

import pytest
from fake_driver import launched

from inferno.runtime.plan.plan import Buffer, Launch, Output, PixelMap, Plan, Scalar, TensorMap, at_sizes
from inferno.symbolic import Symbol, ceildiv, maximum, minimum, size_of

B, S = Symbol("s0", 0, 64, 1, 4), Symbol("s1", 1, 4096, 1, 100)
b, s = size_of(B), size_of(S)
X, OUT = Buffer("argument", 0, (b, s, 64), "bf16"), Buffer("result", 0, (b * s, 32), "f32")
SCRATCH = Buffer("workspace", ceildiv(b * s * 128, 256) * 256, (b * s, 32), "f32")
STEPS = (
    Launch("k::k", (ceildiv(b * s, 128), 2, 1), (128, 1, 1), (1, 1, 1), 0, (X, SCRATCH, Scalar(b * s), Scalar(minimum(s, 7) + maximum(b, 3) * 2))),
    Launch("k::l", (132, 1, 1), (128, 1, 1), (1, 1, 1), 1000, (
        TensorMap(SCRATCH, (32, b * s), (4, 128), (32, 64), "f32", 128, 256), OUT, Scalar(b),
        TensorMap(X, (64, s, b), (2, 128, s * 128), (64, 64, 1), "bf16", 128, 256),
        PixelMap(X, (64, 5, 4, b * s), (2, 128, 640, 2560), (64, 128), "bf16", 128, 256, (-1, -2), (1, -3), (2, 1)),
    )),
)
PLAN = Plan(STEPS, (X,), (Output(OUT.shape, "f32", -1, 0),), SCRATCH.index + 10000, (B, S))


@pytest.mark.parametrize("values", [(4, 100), (1, 1), (64, 4096), (3, 5)])
def test_as_a_plan_of_numbers(values):
    ours, numbers = launched(PLAN, values), launched(replace(at_sizes(PLAN, dict(zip(("s0", "s1"), values))), symbols=()), ())
    assert ours.launches == numbers.launches and ours.maps == numbers.maps and len(ours.launches) == 2
    assert ours.maps[2][2:] == ([64, 5, 4, values[0] * values[1]], [128, 640, 2560], [-1, -2], [1, -3], 64, 128, [1, 2, 1, 1], (0, 3, 3, 0))


@pytest.mark.parametrize("interpret", [False, True])
def test_a_tensor_without_elements_has_no_map(interpret):
    map_ = TensorMap(OUT, (32, b * s), (4, 128), (32, 64), "f32", 128, 256)
    empty = Plan((Launch("k::k", (b, 1, 1), (128, 1, 1), (1, 1, 1), 0, (map_,)),), (X,), PLAN.outputs, 0, (B, S))
    driver = launched(empty, (0, 5), interpret)
    assert not driver.calls and not driver.maps


@pytest.mark.parametrize("interpret", [False, True])
def test_an_empty_grid_is_no_launch(interpret):
    driver = launched(PLAN, (0, 7), interpret)
    assert [at[0] for at in driver.launches] == [2]
    assert [(m[2], m[3]) for m in driver.maps] == [([32, 1], [128])]  # the driver takes no size of 0; the others' tensor is nowhere


@pytest.mark.parametrize(("values", "expected"), [((1, 1), (1, 1)), ((2, 4), (1, 1)), ((3, 3), (2, 1)), ((64, 4096), (2, 2048)), ((0, 9), None)])
def test_kernels_for_ranges_of_sizes(values, expected):
    """Grids that are 0 for all sizes but those of a range: one kernel is launched, none where there is nothing to do."""
    above = minimum(maximum(b * s - 8, 0), 1)
    grids = (ceildiv(b * s, 8) * (1 - above), ceildiv(b * s, 128) * above)
    steps = tuple(Launch("k::k", (g, 1, 1), (128, 1, 1), (1, 1, 1), 0, (X, OUT)) for g in grids)
    driver = launched(Plan(steps, (X,), PLAN.outputs, 0, (B, S)), values)
    assert [(at[0], at[1][0]) for at in driver.launches] == ([expected] if expected else [])


@pytest.mark.parametrize("values", [(1, 8), (1, 9)])
def test_a_kernel_that_is_not_launched_has_no_maps(values):
    above = minimum(maximum(b * s - 8, 0), 1)
    maps = [TensorMap(X, (64, s, b), (2, 128, s * 128), (64, rows, 1), "bf16", 128, 256) for rows in (8, 64)]
    steps = tuple(Launch("k::k", (g, 1, 1), (128, 1, 1), (1, 1, 1), 0, (m, OUT)) for g, m in zip((1 - above, 132 * above), maps))
    driver = launched(Plan(steps, (X,), PLAN.outputs, 0, (B, S)), values)
    assert len(driver.launches) == len(driver.maps) == 1 and driver.maps[0][4][1] == (8 if values == (1, 8) else 64)


@pytest.mark.parametrize("interpret", [False, True])
def test_strides_of_a_tensor_without_elements(interpret):
    """In a kernel that has something else to do."""
    scratch = Buffer("workspace", 256, (b, s, 64), "bf16")
    map_ = TensorMap(scratch, (64, b, s), (2, 128, b * 128), (64, 8, 8), "bf16", 128, 256)
    plan = Plan((Launch("k::k", (s, 1, 1), (128, 1, 1), (1, 1, 1), 0, (map_,)),), (X,), PLAN.outputs, 256 + b * s * 128, (B, S))
    driver = launched(plan, (0, 9), interpret)
    assert len(driver.launches) == 1 and [(m[2], m[3]) for m in driver.maps] == [([64, 1, 9], [128, 16])]
