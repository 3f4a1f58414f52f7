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
