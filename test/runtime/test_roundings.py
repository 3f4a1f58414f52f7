"""What a program rounds, and what several read of a value in 16 bits, is what it is in eager."""

import pytest
import torch

import inferno

CASTS = {
    "there and back": lambda x: x.bfloat16().float() * 2,
    "overflow": lambda x: (x * 1e5).half().float(),
    "rest": lambda x: x - x.bfloat16().float(),
    "rest, promoted": lambda x: (x - x.half()).half(),
    "in a conversion to another's type": lambda x: x - x.type_as(x.new_empty(0, dtype=torch.float16)),
    "integers": lambda x: (x * 1e5).long().half().float(),
    "between two": lambda x: x.half().bfloat16().float(),
}
SHARED = {
    "greatest of a column": lambda x, r: ((y := x * r) == y.amax(0)).sum(0),
    "no less than it": lambda x, r: ((y := x * r).amax(0) - y).sqrt().isnan().sum(),
    "first of a row": lambda x, r: (y := x * r) - y[:, :1] == 0,
    "picked": lambda x, r: (y := x * r) == y.gather(0, y.argmax(0, keepdim=True)),
    "turned round twice": lambda x, r: (y := x * r) == y.flip(0).flip(0),
    "greater of two": lambda x, r: (torch.maximum(y := x * r, x + r) == y).sum(0),
    "of a row and of a column": lambda x, r: ((y := x * r) == y.amax(0)) | (y == y.amax(1, keepdim=True)),
}


@pytest.mark.parametrize("through", ["inferno.compile", "torch.compile"])
def test_casts(through):
    x = torch.randn(33, 70)
    for name, f in CASTS.items():
        run = inferno.compile(f, (x,), fallback=False) if through == "inferno.compile" else torch.compile(f, backend="inferno", options={"fallback": False})
        assert torch.equal(run(x), f(x)), name


def test_casts_in_training():
    x = torch.randn(8, 16, requires_grad=True)

    def f(x):
        return (x - x.bfloat16().float()) * x

    fast = torch.compile(f, backend="inferno", options={"fallback": False})
    assert torch.equal(fast(x), f(x)) and torch.equal(*(torch.autograd.grad(g(x).sum(), x)[0] for g in (fast, f)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_that_several_read(dtype):
    x, r = torch.randn(40, 70).to(dtype), torch.randn(70).to(dtype)
    for name, f in SHARED.items():
        assert torch.equal(inferno.compile(f, (x, r), fallback=False)(x, r), f(x, r)), name
