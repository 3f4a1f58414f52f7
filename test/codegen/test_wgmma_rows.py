"""Contractions with operations on their rows, on Hopper's tensor cores: what becomes one kernel, and that ptxas takes it without spills."""

import re
from dataclasses import replace

import pytest
import torch
from kernels import TARGET, build
from row_cases import CASES, operands, scheduled
from test_wgmma import assembled

from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.matmul.wgmma_rows import WgmmaRows, choose
from inferno.schedule.rows.row_steps import regroup
from inferno.schedule.spaces import wgmma_rows as spaces


ROWS = 'generator = "wgmma_rows"'


def empty(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def compiled(function, args, schedule=None):
    """The kernel that a function is, without those that it does not need."""
    text = scheduled(function, args)
    assert text.count("call @") == 1, re.findall(r"call @\w+", text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        alone = kernels(module)[0].operation.get_asm(use_local_scope=True)
    built = build(f"module {{\n{alone}\n}}", "wgmma_rows", schedule)
    assert isinstance(built.schedule, WgmmaRows)
    return built


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name):
    args = operands(empty, 1000, 36, 256)
    built = compiled(CASES[name], args)
    assembled(built)
    # Each reduction of a thread's two rows takes two steps.
    assert built.count(r"shfl\.sync\.bfly") % 4 == 0 and built.count(r"shfl\.sync\.bfly") >= 4


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name, n", [("softmax", 8), ("layer_norm", 256), ("rms_norm", 256), ("layer_norm", 250)])
def test_widths(name, n):
    built = compiled(CASES[name], operands(empty, 4096, n, 1024))
    assert built.schedule.tile_n == -(-n // 8) * 8
    # Adding up the parts of a wide tile takes some registers too many, and so do columns that it has beside the matrix.
    if (built.schedule.split == 1 and n % 8 == 0) or n < 200:
        assembled(built)
    assert built.resources is None or built.resources.spills <= 128


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("place", range(0, 6, 2))
def test_the_space(place):
    text = scheduled(CASES["several"], operands(empty, 9000, 104, 512))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = kernels(module)[0]
        found = list(spaces.space(kernel, TARGET))
        assert min(found, key=lambda x: x[0])[1] == choose(kernel, TARGET) and all(spaces.valid(kernel, s, TARGET) for _, s in found)
        assert not spaces.valid(kernel, replace(found[0][1], tile_n=96), TARGET)
    if place < len(found):
        built = compiled(CASES["several"], operands(empty, 9000, 104, 512), found[place][1])
        assembled(built)


def test_softmax_is_staged():
    built = compiled(CASES["softmax"], operands(empty, 4096, 128, 512), WgmmaRows(128, 128, 6, 2))
    assert built.count("stmatrix") == 8 and built.count(r"cp\.async\.bulk\.tensor\.2d\.global") == 2
    assert built.count(r"shfl\.sync\.bfly") == 8  # two reductions, two rows, two steps
    assembled(built)


def test_scores():
    q, k = torch.zeros(6, 200, 64, dtype=torch.bfloat16), torch.zeros(6, 128, 64, dtype=torch.bfloat16)
    mask = torch.zeros(200, 128, dtype=torch.bfloat16)
    assembled(compiled(lambda q, k, mask: torch.softmax(q @ k.transpose(1, 2) / 8 + mask, -1), (q, k, mask)))


@pytest.mark.parametrize("function, shapes", [
    (lambda x, w: (x @ w).sum(0), ((640, 256), (256, 128))),  # of columns
    (lambda x, w: torch.softmax(x @ w, -1), ((640, 256), (256, 512))),  # too wide
    (lambda x, w: (x @ w).argmax(-1), ((640, 256), (256, 128))),  # an index
    (lambda x, w: torch.cumsum(x @ w, -1), ((640, 256), (256, 128))),
])
def test_left_alone(function, shapes):
    assert ROWS not in scheduled(function, tuple(empty(*s) for s in shapes))


def test_float32_is_left_alone():
    assert ROWS not in scheduled(lambda x, w: torch.softmax(x @ w, -1), (torch.zeros(640, 256), torch.zeros(256, 64)))


def test_it_has_to_pay():
    few, many = operands(empty, 64, 256, 1024), operands(empty, 8192, 64, 1024)
    # A single block would read the 512 KB of weights, or a cluster.
    assert ROWS not in scheduled(CASES["sum"], few, always=0) and ROWS in scheduled(CASES["sum"], few)
    assert ROWS in scheduled(CASES["softmax"], many, always=0)


def test_regroup():
    assert regroup([(4, 30), (6, 5)], [24]) == [5]
    assert regroup([(24, 5)], [4, 6]) == [30, 5]
    assert regroup([(4, 6), (6, 1)], [2, 12]) == [12, 1]
    assert regroup([(4, 7), (6, 1)], [24]) is None and regroup([(4, 0), (6, 1)], [24]) is None
    assert regroup([(4, 0), (6, 0)], [3, 8]) is None and regroup([(4, 0), (6, 1)], [2, 2, 6]) == [0, 0, 1]


def test_rows_divide_once():
    """A softmax multiplies by the reciprocal of its row's sum, and takes the hardware's powers of two: a division of each point took it four times as long."""
    ptx = compiled(lambda x, w: torch.softmax(x @ w, -1), (empty(256, 64), empty(64, 96))).ptx
    assert ptx.count("div.rn.f32") + ptx.count("rcp.rn.f32") <= 2
    assert ptx.count("ex2.approx.ftz.f32") == 48 and "fma.rm.f32" not in ptx
