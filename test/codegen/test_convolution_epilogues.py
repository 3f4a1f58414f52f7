"""Convolutions whose sums several elementwise operations read, as one kernel: from PyTorch to the kernels that are chosen, on the simulator."""

import pytest
import torch
from scheduled_program import assert_right, launches

F = torch.nn.functional
FUNCTIONS = {
    "activation and its input": lambda y, r: (F.silu(y), y), "activation and its sign": lambda y, r: (torch.relu(y), y > 0),
    "residual": lambda y, r: (y + r, y), "residual and its activation": lambda y, r: (torch.relu(y + r), y + r, y),
}


def drawn(*shape: int) -> torch.Tensor:
    """Small numbers, of which products and sums are exact."""
    return torch.randint(-4, 5, shape) / 8


def operands(dtype: torch.dtype, order: torch.memory_format, image: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """An image, a window, a bias and a residual."""
    images, channels, *places = image
    found = (x.to(dtype).to(memory_format=order) for x in (drawn(*image), drawn(48, channels, 3, 3), drawn(images, 48, *places)))
    x, w, r = found
    return x, w, drawn(48).to(dtype), r


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_channels_last(name, dtype):
    torch.manual_seed(0)
    text = assert_right(lambda x, w, b, r: FUNCTIONS[name](F.conv2d(x, w, b, 1, 1), r), operands(dtype, torch.channels_last, (2, 24, 6, 9)))
    assert launches(text) == 1 and 'generator = "im2col"' in text


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("places", [(16, 24), (6, 9)], ids=["lines of 16 bytes", "lines that begin anywhere"])
def test_row_major(places):
    """Transposed results are written as they are wanted where the copy engine has boxes for them; others stay kernels of their own."""
    torch.manual_seed(0)
    args = operands(torch.bfloat16, torch.contiguous_format, (1, 64, *places))
    text = assert_right(lambda x, w, b, r: FUNCTIONS["residual"](F.conv2d(x, w, b, 1, 1), r), args)
    _, behind = text[: text.index("func.func private")].split("call @conv")
    assert 'generator = "im2col"' in text and ("call @" in behind) == (places == (6, 9)), behind
