"""Short rows that come and go by way of shared memory: their numbers on a simulated GPU, and which rows do."""

import re

import pytest
import torch
from checks import check
from choices import scheduled
from kernels import recorded
from row_kernel_cases import PASSES
from universal_program import SimulatedModel, assert_assembles

from inferno.schedule.rows import packed_rows, short_rows
from inferno.target import find_target

F, randn, bf16 = torch.nn.functional, torch.randn, torch.bfloat16
TARGET = find_target("sm_90a")


def odd_ones(x):
    x[3, 1], x[5], x[9], x[11] = torch.nan, torch.nan, -torch.inf, x[11, 0]
    return x


def rms_norm(x, w):
    return F.rms_norm(x, w.shape, w)


# Of numbers of rows that no warp's divide, and that no piece's do.
CASES = {
    "running sums": lambda: (lambda x: x.cumsum(-1), (randn(1041, 3),)),
    "running sums bf16": lambda: (lambda x: x.cumsum(-1), (randn(1041, 17).to(bf16),)),
    "running sums, long": lambda: (lambda x: x.cumsum(-1), (randn(1033, 31) + 1,)),
    "running products": lambda: (lambda x: x.cumprod(-1), (randn(1041, 5),)),
    "running sums of integers": lambda: (lambda x: x.cumsum(-1), (torch.randint(-5, 5, (1043, 7)),)),
    "running sums float64": lambda: (lambda x: x.cumsum(-1), (randn(1030, 5).double(),)),
    "of what a softmax makes": lambda: (lambda x: x.softmax(-1).cumsum(-1), (randn(1030, 17),)),
    "softmax": lambda: (lambda x: x.softmax(-1), (randn(1041, 3).to(bf16),)),
    "softmax, whole pieces": lambda: (lambda x: x.softmax(-1), (randn(1043, 24),)),
    "softmax, wide": lambda: (lambda x: x.softmax(-1), (randn(1043, 12).double(),)),
    "rms norm": lambda: (rms_norm, (randn(1055, 20).to(bf16), randn(20).to(bf16))),
    "layer norm": lambda: (lambda x, w, b: F.layer_norm(x, w.shape, w, b), (randn(1037, 13).half(), randn(13).half(), randn(13).half())),
    "a sum": lambda: (lambda x: x.sum(-1), (randn(1041, 17),)),
    "a sum of many": lambda: (lambda x: x.sum(-1), (randn(1041, 31) + 1,)),
    "a product": lambda: (lambda x: x.prod(-1), (randn(1041, 17).to(bf16),)),
    "any": lambda: (lambda x: (x > 1).any(-1), (randn(1043, 17),)),
    "a mask": lambda: (lambda x: x > x.mean(-1, keepdim=True), (randn(1043, 11),)),
    "largest less smallest": lambda: (lambda x: x.amax(-1) - x.amin(-1), (randn(1040, 7),)),
    "several tensors": lambda: (lambda x, y: ((x.float() * y).softmax(-1), (x.float() * y).sum(-1)), (randn(1030, 5).to(bf16), randn(1030, 5))),
    "several results": lambda: (lambda x: (x - x.mean(-1, keepdim=True), x / x.sum(-1, keepdim=True), x.softmax(-1)), (randn(1039, 7).abs(),)),
    "a number a row": lambda: (lambda x, s: (x * s[:, None]).softmax(-1), (randn(1032, 9), randn(1032))),
    "a pick": lambda: (lambda x, t: F.cross_entropy(x, t, reduction="none"), (randn(1041, 19), torch.randint(0, 19, (1041,)))),
    "an even number": lambda: (lambda x: x.softmax(-1), (randn(2048, 6),)),
    "argmax": lambda: (lambda x: x.argmax(-1), (odd_ones(randn(1041, 2)),)),
    "argmin bf16": lambda: (lambda x: x.argmin(-1), (odd_ones(randn(1041, 3).to(bf16)),)),
    "argmax of integers": lambda: (lambda x: x.argmax(-1), (torch.randint(-2, 3, (1041, 17), dtype=torch.int32),)),
    "argmax of what is computed": lambda: (lambda x: (x.float() * 3 + 1).argmax(-1), (randn(1041, 5).to(bf16),)),
    "largest and where": lambda: (lambda x: x.max(-1), (odd_ones(randn(1041, 7)),)),
    "softmax and where": lambda: (lambda x: (x.softmax(-1), x.argmax(-1)), (randn(1041, 3),)),
}


def staged(model, args):
    """What a model becomes where a few rows are enough, and the schedules of its kernels."""
    choose, chosen = recorded(short_rows.choose)
    return SimulatedModel(model, args, choose=choose, passes=PASSES), chosen


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(packed_rows, "_STAGED_ROWS", 1024)


@pytest.mark.covering(most=12)
@pytest.mark.parametrize("name", CASES)
def test_right(few, name):
    torch.manual_seed(0)
    model, args = CASES[name]()
    simulated, chosen = staged(model, args)
    assert len(chosen) == 1 and chosen[0].whole
    found = check(simulated, model, args)
    assert found.right, str(found)
    code = str(simulated.program.gpu)
    assert "gpu.barrier" not in code and "gpu.shuffle" not in code


@pytest.mark.parametrize("offset, whole", [(2, True), (1, False)])
def test_pieces_begin_with_rows(few, offset, whole):
    """Those of 16 bytes: rows behind others that are no whole pieces are read as they lie."""
    model, x = lambda x: x[offset:offset + 1030].softmax(-1), randn(1100, 6)
    simulated, (schedule,) = staged(model, (x,))
    found = check(simulated, model, (x,))
    assert schedule.whole == whole and found.right, str(found)


def test_assembles(few):
    model, args = CASES["rms norm"]()
    assert_assembles(staged(model, args)[0].program.gpu, TARGET)


def sums(x):
    return x.sum(-1)


def softmax(x):
    return x.softmax(-1)


@pytest.mark.covering
@pytest.mark.parametrize("model, shape, dtype, expected", [
    (sums, (1 << 16, 3), torch.float32, False),  # three pieces a thread, which are read as they lie
    (softmax, (1 << 16, 3), torch.float32, True),  # whose parts of sectors would be written
    (sums, (1 << 16, 17), torch.float32, True),
    (softmax, (1 << 12, 17), torch.float32, None),  # too few
    (softmax, (1 << 16, 33), torch.float32, None),  # too many to a thread
    (softmax, (1 << 16, 4), torch.float32, None),  # a piece
    (softmax, (1 << 16, 32), torch.float32, None),  # as many pieces as eight threads have
    (lambda x: x.cumsum(-1), (1 << 16, 8), torch.float32, None),
    (lambda x: x.cumsum(-1), (1 << 16, 12), torch.float32, True),
    (softmax, (1 << 16, 2), torch.float32, False),  # half a piece, of which threads fill their lines
    (lambda x: x.amax(-1) - x.amin(-1), (1 << 16, 16), torch.float32, None),
    (lambda x: x.argmax(-1), (1 << 16, 2), bf16, True),
    (lambda x: x.logcumsumexp(-1), (1 << 16, 3), torch.float32, None),  # pairs of numbers
])
def test_which(model, shape, dtype, expected):
    text = scheduled(model, (torch.empty(shape, dtype=dtype),))
    (generator,) = re.findall(r'generator = "(\w+)"', text)
    assert (generator == "columns") == (expected is not None) and (expected is None or f"whole = {str(expected).lower()}" in text), text
