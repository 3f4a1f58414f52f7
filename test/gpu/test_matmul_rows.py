"""Operations on the rows of a contraction's result in its kernel, on Hopper's tensor cores, against float64."""

import itertools

import pytest
import torch
from checks import assert_close_to_float64, poison_memory
from contraction_cases import repeats
from on_gpu import on_hopper
from row_cases import CASES, operands, scheduled

import inferno
from inferno.schedule.matmul.wgmma_rows import WgmmaRows
from inferno.tools.ir_program import IrProgram

F = torch.nn.functional

pytestmark = on_hopper


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def half(*shape):
    return randn(*shape, dtype=torch.float16)


def right(folder, function, args, schedule=None):
    """Right, the same twice, and one kernel, maybe with a schedule of one's own."""
    path = folder / "rows.mlir"
    text = scheduled(function, args, schedule=schedule)
    assert 'generator = "wgmma_rows"' in text and text.count("call @") == 1
    path.write_text(text)
    program = IrProgram.read(path, "sm_90a")
    poison_memory()
    found, again = program(*args), program(*args)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(found, again)), "two runs differ"
    assert_close_to_float64(tuple(found) if len(found) > 1 else found[0], function, args)
    return program


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind, m, n, k", [(randn, 1000, 128, 256), (half, 77, 100, 1000)])
def test_cases(tmp_path, name, kind, m, n, k):
    right(tmp_path, CASES[name], operands(kind, m, n, k))


@pytest.mark.parametrize("m, n", [*itertools.product((7, 1000), (8, 10, 64, 100, 128, 250, 256)), (2, 100), (64, 256), (4096, 10), (4096, 256)])
def test_sizes(tmp_path, m, n):
    right(tmp_path, CASES["softmax"], operands(randn, m, n, 512))


@pytest.mark.parametrize("name, m, n, k", [
    ("softmax", 16, 256, 8192), ("layer_norm", 512, 256, 4096), ("rms_norm", 300, 24, 4096), ("layer_norm", 20000, 256, 128),
    ("softmax", 20000, 256, 512), ("several", 20000, 128, 200), ("softmax", 40000, 8, 72),
])
def test_long_sums_and_many_rows(tmp_path, name, m, n, k):
    right(tmp_path, CASES[name], operands(randn, m, n, k))


@pytest.mark.parametrize("knobs", [
    {"tile_m": 128, "consumers": 2}, {"consumers": 2, "pingpong": True}, {"split": 2, "persistent": False}, {"split": 8, "persistent": False},
], ids=str)
@pytest.mark.parametrize("n", [100, 256])
def test_schedules(tmp_path, n, knobs):
    args = operands(randn, 1000, n, 2048)
    schedule = WgmmaRows(**{"tile_m": 64, "tile_n": -(-n // 8) * 8, "stages": 4, "consumers": 1, **knobs})
    right(tmp_path, CASES["several"], args, schedule=schedule)


@pytest.mark.parametrize("n", [64, 250])
def test_columns_together(tmp_path, n):
    # The copy engine cannot read lines of 250 elements: another kernel copies them.
    right(tmp_path, lambda x, w: torch.softmax(x @ w, -1), (randn(500, 256), randn(256, n) / 16))


def test_scores(tmp_path):
    q, k, mask = randn(6, 200, 64), randn(6, 128, 64), randn(200, 128)
    right(tmp_path, lambda q, k, mask: torch.softmax(q @ k.transpose(1, 2) / 8 + mask, -1), (q, k, mask))


def test_infinities_and_nan(tmp_path):
    x, w = randn(300, 256), randn(64, 256) / 16
    x[3, 5], x[7, 0], x[9, 1], x[11, 2], x[200] = torch.nan, torch.inf, -torch.inf, 3e38, torch.nan
    for function in (lambda x, w: torch.softmax(F.linear(x, w), -1), lambda x, w: F.linear(x, w).amax(-1), lambda x, w: F.linear(x, w).sum(-1)):
        right(tmp_path, function, (x, w))


def test_many_calls_in_a_row(tmp_path):
    args = operands(randn, 5000, 100, 328)
    program = right(tmp_path, CASES["several"], args)
    repeats(lambda *a: program(*a)[2], args)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "sum", "several"])
def test_rows_that_vary(name):
    n = torch.export.Dim("n", min=1, max=20000)
    compiled = inferno.compile(
        CASES[name], operands(randn, 300, 96, 256), fallback=False, dynamic_shapes=({0: n}, None, None, None, {0: n}))
    assert [row.generator for row in compiled.explain().rows] == ["wgmma_rows"]
    for m in (300, 64, 65, 4099, 20000, *([] if name == "several" else [1])):  # of one sum of a row rounding decides
        args = operands(randn, m, 96, 256)
        poison_memory()
        assert_close_to_float64(compiled(*args), CASES[name], args)
        if name != "several":
            repeats(compiled, args)
