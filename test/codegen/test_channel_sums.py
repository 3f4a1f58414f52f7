"""Sums of the channels of convolutions' results in their kernels: numbers on the simulator, and which schedules there are."""

import pytest
import torch
from channel_sum_cases import TAKEN, fused, has_squares, program, with_sums, wrong
from convolution_cases import SAME, TARGET, operands
from convolutions import Form
from universal_program import Simulated

from inferno.mlir import ir, idle_context
from inferno.schedule.assign import choose, kernels


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", TAKEN)
def test_right(name):
    form, schedule = TAKEN[name]
    torch.manual_seed(0)
    tensors, squares = operands(form), has_squares(form)
    run = Simulated(fused(program(form, "f64", squares)), lambda kernel: with_sums(schedule, squares), early=len(name) % 2 == 0)
    assert not (problem := wrong(form, tensors, run(*tensors))), (problem, form, schedule)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("halo", [False, True])
def test_variances_of_numbers_that_are_alike(halo):
    """Whose squares' sums are 10^5 times as large as what they differ by."""
    body = "%c = arith.constant 1000.0 : f32\n%y = arith.addf %s, %c : f32\n%y0 = arith.truncf %y : f32 to bf16"
    form = Form((2, 9, 7, 24), 40, (3, 3), **SAME, body=body)
    schedule = TAKEN["halo" if halo else "rows that there are not"][1]
    torch.manual_seed(0)
    tensors = [t.bfloat16() for t in (torch.randn(2, 9, 7, 24), torch.randn(40, 3, 3, 24))]
    found, total, squares = Simulated(fused(program(form, "f64", True)), lambda kernel: with_sums(schedule))(*tensors)
    exact = found.double().flatten(0, -2)
    variance = squares / len(exact) - (total / len(exact)) ** 2
    assert ((variance - exact.var(0, unbiased=False)).abs() <= 1e-8 * exact.var(0)).all()


def chosen(form: Form, squares: bool):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(fused(program(form, "f64", squares)))
        return choose(kernels(module)[0], TARGET)


def test_a_block_has_the_same_columns_in_all_its_turns():
    found = chosen(Form((8, 28, 28, 512), 1024, (1, 1)), True)
    assert found.generator == "channel_sums" and found.group == 1 and found.sums == 2 and found.cluster == found.split == 1


def test_squares_of_float16_stay_apart():
    form = Form((2, 9, 9, 24), 40, (3, 3), **SAME, element="f16", results=("f16",), body="%y0 = arith.truncf %s : f32 to f16")
    with pytest.raises(ValueError):  # there are two kernels
        fused(program(form, "f64", True))
