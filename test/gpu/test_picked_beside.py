"""What is picked of a value that others read, too, is made anew where it is picked, on a GPU."""

import pytest
import torch
from checks import assert_close_to_float64, poison_memory
from picked_cases import accept, loss, shift

import inferno


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_speculative_decoding(dtype):
    logits = [(torch.randn(32, 4, 32000, device="cuda") * 2).to(dtype) for _ in range(2)]
    args = *logits, torch.randint(0, 32000, (32, 4), device="cuda"), torch.rand(32, 4, device="cuda").to(dtype)
    compiled = inferno.compile(accept, args, fallback=False)
    poison_memory()
    assert_close_to_float64(compiled(*args), accept, args)
    assert compiled.explain().launches == 3, compiled.explain()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_shift_in_time(dtype):
    args = (torch.randn(4, 8, 64, 28, 28, device="cuda").to(dtype),)
    compiled = inferno.compile(shift, args, fallback=False)
    poison_memory()
    for number, result in enumerate(compiled(*args)):
        assert_close_to_float64(result, lambda x, number=number: shift(x)[number], args)
    assert len(compiled.explain().rows) == 2, compiled.explain()


@pytest.mark.parametrize("columns", [60, 3000, 50000])
def test_a_likelihood_beside_an_entropy(columns):
    args = torch.randn(4096, columns, device="cuda"), torch.randint(0, columns, (4096,), device="cuda")
    compiled = inferno.compile(loss, args, fallback=False)
    poison_memory()
    for number, result in enumerate(compiled(*args)):
        assert_close_to_float64(result, lambda *a, number=number: loss(*a)[number], args)
