"""Parts of convolutional networks on a GPU, in the layouts that are chosen for them."""

import pytest
import torch
from checks import assert_right
from layout_models import MODELS, image


@pytest.mark.parametrize("options", [{}, {"freeze": True}], ids=["read", "frozen"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_right(name, dtype, options):
    torch.manual_seed(0)
    model = MODELS[name](8).eval().to("cuda", dtype)
    assert_right(model, (image(name, 8 if name == "volume" else 32, width=8).to("cuda", dtype),), unit=2**-10 if dtype == torch.float32 else None, **options)


def test_one_image_and_any_number():
    torch.manual_seed(0)
    model = MODELS["residual"](8).eval().cuda().bfloat16()
    assert_right(model, (image("residual", 16, 1, 8).cuda().bfloat16(),))
    assert_right(model, (image("residual", 16, 3, 8).cuda().bfloat16(),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))


def test_float32_without_tf32():
    torch.manual_seed(0)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert_right(MODELS["residual"](8).eval().cuda(), (image("residual", 16, 2, 8).cuda(),))
