"""Convolutions of whose windows a part is read, on a GPU: they compute that part, and end with what is made of it."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_close_to_float64, poison_memory

import inferno

# The program, the shapes of its tensors, and how many launches it has in bf16.
CASES = {
    "causal, depthwise": (lambda x, w, b: F.silu(F.conv1d(x, w, b, padding=3, groups=512)[..., :1024]), ((4, 512, 1024), (512, 1, 4), (512,)), 1),
    "causal, with holes": (lambda x, w: F.relu(F.conv1d(x, w, padding=4, dilation=2)[..., :-4]), ((4, 64, 1000), (64, 64, 3)), 2),
    "in the middle": (lambda x, w, b: F.conv1d(x, w, b, padding=3, groups=24)[..., 2:33] * 2, ((2, 24, 40), (24, 1, 4), (24,)), 1),
    "resampled": (
        lambda x, w: F.conv1d(F.pad(x.reshape(32, 1, -1), (12, 159)), w, stride=147).transpose(1, 2).reshape(16, 2, -1)[..., :192000],
        ((16, 2, 176400), (160, 1, 24)), 1),
    "of an image": (lambda x, w, b: torch.tanh(F.conv2d(x, w, b, padding=2, groups=64)[:, :, 1:57, :56]), ((2, 64, 56, 56), (64, 1, 3, 3), (64,)), None),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype):
    program, shapes, launches = CASES[name]
    args = tuple((torch.randn(s, device="cuda") / 2).to(dtype) for s in shapes)
    with torch.backends.cudnn.flags(allow_tf32=False):
        compiled = inferno.compile(program, args, fallback=False)
        poison_memory()
        assert_close_to_float64(compiled(*args), program, args)
    if launches is not None and dtype == torch.bfloat16:
        assert compiled.explain().launches == launches, compiled.explain()
