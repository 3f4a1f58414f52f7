"""Parts of tensors are read where they are, by kernels that go over points and over rows; on a simulated GPU and on the CPU."""

import pytest
import torch
from checks import check, scheduled
from row_kernel_cases import PASSES
from universal_program import SimulatedModel

import inferno
from inferno.schedule.maps import elementwise
from inferno.schedule.rows import rows
from inferno.target import find_target

aten, F, TARGET = torch.ops.aten, torch.nn.functional, find_target("sm_90a")


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


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args, most = CASES[name]
    simulated = SimulatedModel(model, args, choose=choose, passes=PASSES, expand=True)
    assert len(simulated.program.plan.steps) <= most
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["halves bf16", "inside", "sums of a part", "pieces of parts"])
def test_right_on_the_cpu(name):
    model, args, _ = CASES[name]
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)


def test_factors_of_products_that_begin_between_vectors_are_copied():
    x, w = torch.randn(64, 128), torch.randn(64, 32)
    kernels = inferno.compile(lambda x, w: x[:, 1:65] @ w, (x, w), target="sm_90a").explain().rows
    assert [k.kernel for k in kernels] == ["extract_slice", "matmul"] and kernels[1].generator != "universal"


# Writes to parts of new tensors, which are one kernel with what reads them.


def rotated(x, cos, sin):
    y = torch.empty_like(x)
    y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return y


def put_together(x, y):
    z = x.new_empty(x.shape[0], x.shape[1] + y.shape[1])
    z[:, : x.shape[1]], z[:, x.shape[1]:] = x, y
    return z * 2


def shifted(x):
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[:, 0] = 3
    return x + y


def over_each_other(x, y):
    z = y.exp()
    z[1:8:3, 2::5] = x[:3, :4]
    z[2:, 3:9] = 7
    z[4:6] = x[4:6, :1]
    return z


def columns(x, y):
    z = torch.zeros(x.shape[0], 2, dtype=x.dtype)
    return aten.slice_scatter(aten.slice_scatter(z, x[:, :1], 1, 0, 1), y[:, :1], 1, 1, 2)


def flags(x):
    remove = x > 0.5
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return remove, x.masked_fill(remove, -1)


WRITES = {
    "neighbours": (rotated, (torch.randn(3, 4, 32), torch.randn(4, 16), torch.randn(4, 16)), 1),
    "neighbours bf16": (rotated, tuple(torch.randn(s).bfloat16() for s in ((3, 4, 32), (4, 16), (4, 16))), 1),
    "side by side": (put_together, (torch.randn(6, 24), torch.randn(6, 8)), 1),
    "side by side, odd": (put_together, (torch.randn(5, 7), torch.randn(5, 12)), 1),
    "behind a row's first": (shifted, (torch.randn(5, 24),), 1),
    "parts that overlap": (over_each_other, (torch.randn(9, 21), torch.randn(9, 21)), 3),
    "columns": (columns, (torch.randn(40, 3), torch.randn(40, 3)), 1),
    "flags": (flags, (torch.rand(6, 40),), 3),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_parts_of_new_tensors(name):
    model, args, most = WRITES[name]
    simulated = SimulatedModel(model, args, choose=choose, passes=PASSES, expand=True)
    assert len(simulated.program.plan.steps) <= most
    found = check(simulated, model, args)
    assert found.right, str(found)


def substituted(x):
    """The last steps of a forward substitution, a row of each matrix after the other."""
    x = x.tril(-1)
    for i in range(x.shape[-1] - 3, x.shape[-1]):
        row = x[..., i, :i].clone()
        x[..., i, :i] = row + (row.unsqueeze(-1) * x[..., :i, :i].clone()).sum(-2)
    return x


@pytest.mark.thorough
def test_rows_that_are_changed_one_after_the_other():
    """A step is a product, its row, and the matrix with that row: none copies the matrix' beginning."""
    args = (torch.randn(1, 5, 2, 8, 8),)
    simulated = SimulatedModel(substituted, args, choose=choose, passes=PASSES, expand=True)
    found = check(simulated, substituted, args)
    assert found.right, str(found)
    kernels = [row.kernel for row in inferno.compile(substituted, (torch.randn(1, 16, 16, 64, 64),), target="sm_90a").explain().rows]
    assert not any("extract_slice" in name for name in kernels), kernels


def test_parts_of_parts_of_norms_are_all_that_is_computed():
    def program(x):
        return F.layer_norm(x, x.shape[1:])[:, :4801][:, :2401].sum(0)

    text = str(scheduled(program, (torch.empty(600, 9600),)).stages["scheduled"])
    assert text.count("func.call") + text.count(" call @") == 2 and "4801" not in text, text
