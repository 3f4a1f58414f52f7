"""Convolutions of whose windows a part is read compute these, by kernels that end with what is made of them: as they are scheduled for a GPU, on the
simulator."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_close_to_float64
from scheduled_program import assert_right, launches
from torch.export import Dim
from universal_program import SimulatedModel

# The program, the shapes of its tensors, and how many kernels it has; those that transpose a weight or a result count.
CASES = {
    "causal, depthwise": (lambda x, w, b: F.silu(F.conv1d(x, w, b, padding=3, groups=24)[..., :40]), ((2, 24, 40), (24, 1, 4), (24,)), 1),
    "causal, with holes": (lambda x, w: F.relu(F.conv1d(x, w, padding=4, dilation=2)[..., :-4]), ((2, 64, 96), (64, 64, 3)), 2),
    "in the middle": (lambda x, w, b: F.conv1d(x, w, b, padding=3, groups=24)[..., 2:33] * 2, ((2, 24, 40), (24, 1, 4), (24,)), 1),
    "steps that lie behind each other": (
        lambda x, w: F.conv1d(F.pad(x, (3, 20)), w, stride=7).transpose(1, 2).reshape(3, -1)[:, :160], ((3, 1, 140), (8, 1, 6)), 1),
    "of an image": (lambda x, w, b: torch.tanh(F.conv2d(x, w, b, padding=2, groups=16)[:, :, 1:13, :12]), ((2, 16, 12, 12), (16, 1, 3, 3), (16,)), 1),
    "without zeros": (lambda x, w: F.conv1d(x, w, groups=24)[..., :30].exp(), ((2, 24, 40), (24, 1, 4)), 1),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype):
    if dtype == torch.float32 and "holes" in name:
        pytest.skip("rounded to TF32, as torch's library has it")
    torch.manual_seed(0)
    program, shapes, kernels = CASES[name]
    text = assert_right(program, tuple((torch.randn(s) / 2).to(dtype) for s in shapes))
    assert launches(text) == kernels, text[: text.index("func.func private")]


@pytest.mark.parametrize("name, program, window", [
    ("as many as there are", lambda x, w: F.conv1d(x, w, padding=3, groups=6)[..., :x.shape[-1]] * 2, 4),
    ("but for the last ones", lambda x, w: F.conv1d(x, w, padding=4, dilation=2, groups=6)[..., 1:-3] * 2, 3),
])
def test_sizes_that_vary(name, program, window):
    """Of the image, and of how many there are: the pad in front of it is known."""
    torch.manual_seed(0)
    run = None
    for count, length in ((3, 40), (2, 17), (5, 64)):
        args = torch.randn(count, 6, length), torch.randn(6, 1, window)
        run = run or SimulatedModel(program, args, ({0: Dim.AUTO, 2: Dim.AUTO}, None), expand=True)
        assert_close_to_float64(run(*args), program, args)
