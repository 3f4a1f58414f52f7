"""Convolutions whose windows lie side by side, on a GPU: the numbers, and that they are one kernel that multiplies matrices."""

import pytest
import torch
from checks import assert_right
from patch_cases import CASES, embed, halve


def on_gpu(args):
    return tuple(a.cuda() if isinstance(a, torch.Tensor) else a for a in args)


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args = CASES[name]()
    compiled = assert_right(model, on_gpu(args))
    assert compiled.ir("fused").count("func.func private") == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("model", "image", "window"), [
    (embed, (8, 3, 224, 224), (768, 3, 16, 16)), (embed, (1, 3, 224, 224), (96, 3, 4, 4)), (halve, (4, 56, 56, 96), (192, 96, 2, 2)),
])
def test_models(model, image, window, dtype):
    assert_right(model, on_gpu((torch.randn(image, dtype=dtype), torch.randn(window, dtype=dtype), torch.randn(window[0], dtype=dtype))))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_patches_as_a_matrix(dtype):
    shapes = (32, 3, 224, 224), (768, 3, 16, 16), (768,)
    compiled = assert_right(embed, on_gpu(torch.randn(shape, dtype=dtype) for shape in shapes))
    if torch.cuda.get_device_capability() == (9, 0):
        assert [row.generator for row in compiled.explain().rows] == ["elementwise", "wgmma"]
