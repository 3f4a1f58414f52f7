"""Contractions that read parts of tensors where they lie, against float64."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper
from part_cases import CASES

pytestmark = on_hopper


@pytest.mark.parametrize("matmul", ["generated", "library"])
@pytest.mark.parametrize("scale", [1, 6])
@pytest.mark.parametrize("name", CASES)
def test_right(exact_float32, name, scale, matmul):
    function, make, _ = CASES[name]
    compiled = assert_right(function, tuple(a.cuda() for a in make(scale)), matmul=matmul)
    assert matmul == "library" or not any(row.kernel.startswith("extract_slice") for row in compiled.explain().rows)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("float32")])
def test_tf32(tf32, name):
    function, make, _ = CASES[name]
    compiled = assert_right(function, tuple(a.cuda() for a in make(6)), unit=2**-10, matmul="generated")
    assert not any(row.kernel.startswith("extract_slice") for row in compiled.explain().rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_large(dtype):
    """Of a projection's result, as its readers take it."""
    x, w, v = (torch.randn(shape, device="cuda").to(dtype) for shape in ((2048, 3072), (1024, 1024), (3000, 2048)))
    compiled = assert_right(lambda x, w, v: (torch.relu(x[:, 1024:2048] @ w), torch.nn.functional.linear(x[7:, 1024:], v)), (x, w, v))
    assert not any(row.kernel.startswith("extract_slice") for row in compiled.explain().rows)
