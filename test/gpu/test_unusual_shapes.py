"""Shapes that are not usual on a GPU: the numbers of what is chosen for them, and of what is left at the ends."""

import inferno
import pytest
import torch
from checks import check, poison_memory
from unusual_shapes import PROGRAMS

F = torch.nn.functional


@pytest.mark.parametrize("scale", [1, 64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_right(name, scale):
    torch.manual_seed(0)
    model, make, _ = PROGRAMS[name]
    args = tuple(a.cuda() for a in make(scale))
    compiled = inferno.compile(model, args)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("width", [2, 3, 4, 5, 6, 7, 10, 12, 14, 20, 24])
@pytest.mark.parametrize("rows", [1024, 1025, 1031, 40007])
def test_short_rows(rows, width, dtype):
    """Of any number, of which the last thread has fewer, and which begin inside of a tensor."""
    torch.manual_seed(0)
    whole = torch.randn(rows * width + 8, dtype=dtype, device="cuda")

    def model(x, s):
        y = (x * s[:, None]).softmax(-1)
        return y, x.sum(-1), x.amax(-1) - s

    for begin in (0, 1, 4):
        args = whole[begin:begin + rows * width].view(rows, width), torch.randn(rows, dtype=dtype, device="cuda")
        compiled = inferno.compile(model, args)
        poison_memory()
        found = check(compiled, model, args)
        assert found.right, f"from {begin}: {found}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32])
@pytest.mark.parametrize("width", [2, 3, 5, 7, 8, 12, 16, 17, 20, 31, 32])
@pytest.mark.parametrize("rows", [16384, 16385, 40007])
def test_short_rows_by_way_of_shared_memory(rows, width, dtype):
    """Running sums, places of extrema, and reductions of rows, which warps copy as they lie."""
    torch.manual_seed(0)
    x = (torch.randn(rows, width, device="cuda") * 10).to(dtype)
    models = [
        lambda x: x.cumsum(-1), lambda x: x.argmax(-1), lambda x: x.min(-1), lambda x: (x > 9).any(-1), lambda x: x.amax(-1) - x.amin(-1),
        lambda x: (x - x.amax(-1, keepdim=True), x.sum(-1)), lambda x: tuple(c * 2 + i for i, c in enumerate(x.unbind(-1)[:8])),
    ]
    for number, model in enumerate(models):
        compiled = inferno.compile(model, (x,))
        poison_memory()
        found = check(compiled, model, (x,))
        assert found.right, f"{number}: {found}"


@pytest.mark.parametrize("channels", [2, 3, 5, 8, 19, 24, 25, 64, 150, 256, 300, 512, 700, 1024, 1500])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_channels_of_large_images(channels, dtype):
    """More than the L2 cache has."""
    torch.manual_seed(0)
    images = max(1, (1 << 24) // (channels * 4096))
    x, t = torch.randn(images, channels, 64, 64, dtype=dtype, device="cuda"), torch.randint(0, channels, (images, 64, 64), device="cuda")
    for model, args in ((lambda x: F.log_softmax(x, 1), (x,)), (lambda x: F.normalize(x, dim=1), (x,)), (F.cross_entropy, (x, t))):
        compiled = inferno.compile(model, args)
        poison_memory()
        found = check(compiled, model, args)
        assert found.right, str(found)
