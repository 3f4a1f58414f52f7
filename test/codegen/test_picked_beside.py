"""What is picked of a value that others read, too, is made anew where it is picked: as a program is scheduled for a GPU, on the simulator."""

import pytest
import torch
from picked_cases import accept, loss, shift
from scheduled_program import assert_right, launches


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_probabilities_are_not_written(dtype):
    torch.manual_seed(0)
    text = assert_right(accept, (*((torch.randn(3, 4, 4096) * 2).to(dtype) for _ in range(2)), torch.randint(0, 4096, (3, 4)), torch.rand(3, 4).to(dtype)))
    assert launches(text) == 3 and "-> tensor<3x4x4096xf32>" not in text[: text.index("func.func private")]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_what_is_put_together_is_not_written(dtype):
    torch.manual_seed(0)
    assert launches(assert_right(shift, (torch.randn(2, 5, 16, 12, 12).to(dtype),))) == 2


@pytest.mark.parametrize("columns", [60, 3000])
def test_a_logarithm_of_each_row(columns):
    torch.manual_seed(0)
    text = assert_right(loss, (torch.randn(40, columns), torch.randint(0, columns, (40,))))
    assert f"-> tensor<40x{columns}xf32>" not in text[: text.index("func.func private")]
