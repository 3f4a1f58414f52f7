"""Elements that are read where other tensors say, of tensors whose sizes vary: one program, right at other sizes than the example's."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check, poison_memory

import inferno

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))
from sized_gather_cases import CASES, EVERY, A, F


@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, inputs, varying, sizes = CASES[name]
    on_gpu = lambda each: tuple(t.cuda() for t in inputs(*each))  # noqa: E731
    compiled = inferno.compile(model, on_gpu(sizes[0]), dynamic_shapes=varying, fallback=False)
    if not name.startswith("bicubic, reflection"):  # whose floats of sizes are tensors of one element
        assert compiled.explain().launches == 1, compiled.explain()
    for each in [*sizes, sizes[0]]:
        poison_memory()
        found = check(compiled, model, on_gpu(each))
        assert found.right, f"{each}: {found}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_large_pictures(mode, dtype):
    """A thread samples several channels."""
    torch.manual_seed(0)
    model = lambda x, g: F.grid_sample(x, g, mode=mode, align_corners=False)  # noqa: E731
    make = lambda b, h, w, p, q: (  # noqa: E731
        torch.randn(b, 64, h, w, device="cuda", dtype=dtype), (torch.rand(b, p, q, 2, device="cuda") * 2.2 - 1.1).to(dtype),
    )
    compiled = inferno.compile(model, make(4, 64, 64, 128, 160), dynamic_shapes=({0: A, 2: A, 3: A}, EVERY), fallback=False)
    assert {r.generator for r in compiled.explain().rows} == {"elementwise"}, compiled.explain()
    for each in [(4, 64, 64, 128, 160), (2, 50, 70, 90, 101), (8, 128, 160, 200, 33)]:
        poison_memory()
        found = check(compiled, model, make(*each))
        assert found.right, f"{each}: {found}"


@pytest.mark.parametrize("name", ["pairs", "behind a slice", "the last token", "gathered along 1"])
def test_gradients(name):
    """What is picked gives its gradient back, however often an element was."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs, _, sizes = CASES[name]
    compiled = torch.compile(model, backend="inferno", dynamic=True)
    for each in sizes:
        x, *others = (t.cuda() for t in inputs(*each))
        ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
        made, exact = compiled(ours, *others), model(theirs, *others)
        weights = torch.randn_like(made)
        (made * weights).sum().backward()
        (exact * weights.double()).sum().backward()
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5)
