"""Parts of convolutional networks on a GPU, in the layouts that are chosen for them."""

import pytest
import torch
from checks import assert_right
from layout_models import MODELS
from layout_models import image as image_of
from torch import nn


@pytest.mark.parametrize("options", [{}, {"freeze": True}], ids=["read", "frozen"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_right(name, dtype, options):
    torch.manual_seed(0)
    model = MODELS[name](8).eval().to("cuda", dtype)
    assert_right(model, (image_of(name, 8 if name == "volume" else 32, width=8).to("cuda", dtype),), unit=2**-10 if dtype == torch.float32 else None, **options)


def test_one_image_and_any_number():
    torch.manual_seed(0)
    model = MODELS["residual"](8).eval().cuda().bfloat16()
    assert_right(model, (image_of("residual", 16, 1, 8).cuda().bfloat16(),))
    assert_right(model, (image_of("residual", 16, 3, 8).cuda().bfloat16(),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))


def test_float32_without_tf32():
    torch.manual_seed(0)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert_right(MODELS["residual"](8).eval().cuda(), (image_of("residual", 16, 2, 8).cuda(),))


LAYERS = {
    "3x3": lambda: nn.Conv2d(64, 32, 3, padding=1), "1x1": lambda: nn.Conv2d(64, 32, 1), "depthwise": lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64),
    "transposed": lambda: nn.ConvTranspose2d(64, 32, 2, 2), "norm": lambda: nn.Sequential(nn.Conv2d(64, 32, 3), nn.GroupNorm(8, 32), nn.SiLU()),
    "shuffle": lambda: nn.Sequential(nn.Conv2d(64, 32, 3), nn.PixelShuffle(2)),
}


@pytest.mark.parametrize("image, weights", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("name", LAYERS)
def test_results_lie_as_eagers(name, image, weights):
    """Channels last where the image or the weights are, and nothing is transposed for it."""
    torch.manual_seed(0)
    orders = {True: torch.channels_last, False: torch.contiguous_format}
    model = LAYERS[name]().eval().to("cuda", torch.bfloat16).to(memory_format=orders[weights])
    x = torch.randn(4, 64, 24, 20, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=orders[image])
    compiled = assert_right(model, (x,))
    with torch.no_grad():
        assert compiled(x).stride() == model(x).stride()
    if image and weights and name in ("3x3", "1x1"):
        assert len(compiled.explain().rows) == 1
