"""Contractions whose sums several elementwise operations read, each for a result, as one kernel against float64."""

import pytest
import torch
from checks import check, poison_memory

import inferno

F = torch.nn.functional
FUNCTIONS = {
    "activation and its input": lambda y: (F.gelu(y), y), "activation and its sign": lambda y: ((z := torch.relu(y)), z <= 0),
    "two": lambda y: (y.relu(), y.sigmoid()), "three": lambda y: (y, y.tanh(), y > 0), "float32 beside": lambda y: (y.float() * 2, torch.relu(y)),
}
SHAPES = {"whole": (256, 128, 320), "ragged": (77, 51, 33), "few rows": (5, 1024, 520), "deep": (200, 4096, 136), "large": (1500, 512, 1032)}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_several_results(name, shape, dtype):
    torch.manual_seed(0)
    m, k, n = SHAPES[shape]
    x, w, b = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda") / k**0.5, torch.randn(n, device="cuda")
    args = tuple(t.to(dtype) for t in (x, w, b))

    def function(x, w, b):
        return FUNCTIONS[name](torch.addmm(b, x, w.t()))

    made = inferno.compile(function, args)
    poison_memory()
    signs = [i for i, r in enumerate(made(*args)) if r.dtype is torch.bool]
    found = check(lambda *a: [r for i, r in enumerate(made(*a)) if i not in signs], lambda *a: [r for i, r in enumerate(function(*a)) if i not in signs], args)
    assert found.right, str(found)
    exact, ours = function(*(a.double() for a in args)), made(*args)
    sums = torch.addmm(*(a.double() for a in (b.to(dtype), args[0], args[1].t())))
    for i in signs:  # of sums that are 0 but for their rounding either is right
        assert (ours[i] == exact[i])[sums.abs() > 1e-4].all()
    if dtype is torch.bfloat16 and shape in ("whole", "large"):
        assert len(made.explain().rows) == 1


CONVOLUTIONS = {
    "activation and its input": lambda y, r: (F.silu(y), y), "activation and its sign": lambda y, r: (torch.relu(y), y > 0),
    "residual": lambda y, r: (y + r, y), "three": lambda y, r: (torch.relu(y + r), y + r, y),
}
# Images with the features of their results: with halo and without, and places that are lines of 16 bytes or begin anywhere.
IMAGES = {"56": ((4, 64, 56, 56), 64), "odd": ((3, 72, 21, 19), 48), "one": ((1, 512, 7, 7), 512), "large": ((8, 128, 64, 64), 128)}


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format], ids=["channels last", "row-major"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_several_results_of_convolutions(name, image, dtype, order):
    torch.manual_seed(0)
    (images, channels, *places), features = IMAGES[image]
    shapes = (images, channels, *places), (features, channels, 3, 3), (features,), (images, features, *places)
    x, w, b, r = (torch.randn(s, device="cuda") for s in shapes)
    args = tuple(t.to(dtype).to(memory_format=order) if t.dim() == 4 else t.to(dtype) for t in (x, w / (9 * channels) ** 0.5, b, r))

    def function(x, w, b, r):
        return CONVOLUTIONS[name](F.conv2d(x, w, b, 1, 1), r)

    made = inferno.compile(function, args)
    poison_memory()
    signs = [i for i, r in enumerate(made(*args)) if r.dtype is torch.bool]
    unit = 2**-10 if dtype is torch.float32 else None
    found = check(
        lambda *a: [r for i, r in enumerate(made(*a)) if i not in signs], lambda *a: [r for i, r in enumerate(function(*a)) if i not in signs], args, unit=unit)
    assert found.right, str(found)
    ours, eager, exact = made(*args), function(*args), function(*(a.double() for a in args))
    assert [t.stride() for t in ours] == [t.stride() for t in eager]
    sums = F.conv2d(*(a.double() for a in args[:3]), 1, 1)
    for i in signs:  # of sums that are 0 but for their rounding, of factors in TF32 too, either is right
        assert (ours[i] == exact[i])[sums.abs() > (0.01 if dtype is torch.float32 else 1e-4)].all()
    if order is torch.channels_last:
        assert [row.generator for row in made.explain().rows] == ["im2col"]


@pytest.mark.usefixtures("tf32")
def test_tf32():
    x, w, b = torch.randn(300, 512, device="cuda"), torch.randn(1032, 512, device="cuda"), torch.randn(1032, device="cuda")
    made = inferno.compile(lambda x, w, b: (F.gelu(y := torch.addmm(b, x, w.t())), y), (x, w, b))
    assert [r.generator for r in made.explain().rows] == ["wgmma"]
    exact = torch.addmm(*(t.double() for t in (b, x, w.t())))
    for ours, right in zip(made(x, w, b), (F.gelu(exact), exact)):
        torch.testing.assert_close(ours.double(), right, rtol=0, atol=2**-10 * exact.abs().max().item())


def test_gradients_of_linear_layers():
    """Signs that gradients need are those of sums that nothing rounded."""
    torch.manual_seed(0)
    x, w, b = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((8, 153, 16), (149, 16), (149,)))
    compiled = torch.compile(lambda x, w, b: torch.relu(F.linear(x, w, b)), backend="inferno", dynamic=False)

    def gradients(function, dtype):
        given = [t.to(dtype).requires_grad_() for t in (x, w, b)]
        return torch.autograd.grad(function(*given).sum(), given)

    for ours, exact in zip(gradients(compiled, torch.bfloat16), gradients(lambda x, w, b: torch.relu(F.linear(x, w, b)), torch.float64)):
        torch.testing.assert_close(ours.double(), exact, rtol=0.01, atol=0.01 * exact.abs().max().item())
