"""Parts of tensors are read where they are, by kernels that go over points and over rows; on a simulated GPU and on the CPU."""

import pytest
import torch
from checks import check
from row_kernel_cases import PASSES
from universal_program import SimulatedModel

import inferno
from inferno.schedule import elementwise, rows
from inferno.target import find_target

F, TARGET = torch.nn.functional, find_target("sm_90a")


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def neighbours(x, cos):
    return x[..., 0::2] * cos - x[..., 1::2] * cos.flip(0)


def split(x):
    q, k, v = x.split([24, 8, 8], -1)
    return q * 2, k * v


# The model, its inputs, and how many kernels it takes at most.
CASES = {
    "halves": (swiglu, (torch.randn(6, 256),), 1),
    "halves bf16": (swiglu, (torch.randn(6, 256).bfloat16(),), 1),
    "halves of an odd length": (swiglu, (torch.randn(5, 26).bfloat16(),), 1),
    "every other": (neighbours, (torch.randn(3, 4, 32), torch.randn(4, 16)), 2),
    "parts of three sizes": (split, (torch.randn(7, 40),), 2),
    "a dimension less": (lambda x: x[1] + x[:, 2], (torch.randn(6, 6, 8),), 1),
    "inside": (lambda x: x[2:5, 1:, 3:9:2].exp(), (torch.randn(6, 4, 12),), 1),
    "transposed": (lambda x: x[:, 3:].t() * 2, (torch.randn(40, 40),), 1),
    "rows of a part": (lambda x: torch.softmax(x[:, 1::2, 3:], -1), (torch.randn(4, 8, 33),), 2),
    "sums of a part": (lambda x: x[1:, ::2].sum(0), (torch.randn(9, 40),), 1),
    "a part that is the whole": (lambda x: x[0:9].exp(), (torch.randn(9, 4),), 1),
    "pieces of parts": (lambda x: torch.cat((x[:, 8:] * 2, x[:, :8]), -1) + x, (torch.randn(5, 16),), 1),
}


def choose(kernel):
    return rows.choose(kernel, TARGET) or elementwise.choose(kernel, TARGET)


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args, most = CASES[name]
    simulated = SimulatedModel(model, args, choose=choose, passes=PASSES, expand=True)
    assert len(simulated.program.plan.steps) <= most
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", ["halves bf16", "inside", "sums of a part", "pieces of parts"])
def test_right_on_the_cpu(name):
    model, args, _ = CASES[name]
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)


def test_factors_of_products_that_begin_between_vectors_are_copied():
    x, w = torch.randn(64, 128), torch.randn(64, 32)
    kernels = inferno.compile(lambda x, w: x[:, 1:65] @ w, (x, w), target="sm_90a").explain().rows
    assert [k.kernel for k in kernels] == ["extract_slice", "matmul"] and kernels[1].generator != "universal"
