"""Kernels that begin before their predecessors have ended: they touch no memory before they wait, and let come what may."""

import re

import pytest
import torch
import torch.nn.functional as F

import inferno

TOUCHES = re.compile(r"\b(?:ld|st|red|atom|multimem)\.[\w.]*global|\bcp\.(?:async|reduce)")
NORMS = torch.nn.Sequential(torch.nn.LayerNorm(512), torch.nn.Linear(512, 512), torch.nn.Softmax(0), torch.nn.Linear(512, 512), torch.nn.Softmax(0))


def numbers(*shape, dtype=torch.bfloat16):
    return torch.randn(shape).to(dtype)


def kernels(model, args, **options) -> dict[str, str]:
    """The PTX of each kernel by its name."""
    with torch.no_grad():
        compiled = inferno.compile(model, args, target="sm_90a", **options)
    parts = re.split(r"\.visible \.entry ", compiled.ir("ptx"))[1:]
    return {p.split("(")[0]: p for p in parts}


def controls(ptx: str) -> list[str]:
    return re.findall(r"griddepcontrol\.(\w+)", ptx)


MODELS = {
    "product": (lambda x, w: x @ w, (numbers(512, 512), numbers(512, 512))),
    "float32 product": (lambda x, w: x @ w, (numbers(512, 512, dtype=torch.float32), numbers(512, 512, dtype=torch.float32))),
    "swiglu": (lambda x, g, u: F.silu(x @ g) * (x @ u), (numbers(512, 1024), numbers(1024, 1024), numbers(1024, 1024))),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), tuple(numbers(2, 4, 1024, 64) for _ in range(3))),
    "masked": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (*(numbers(2, 4, 256, 64) for _ in range(3)), numbers(2, 1, 256, 256))),
    "decoding": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), (numbers(1, 8, 1, 128), numbers(1, 2, 4096, 128))),
    "convolution": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)), (numbers(8, 64, 28, 28), numbers(64, 64, 3, 3))),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=3, groups=256), (numbers(8, 256, 56, 56), numbers(256, 1, 7, 7))),
    "scan": (lambda x: x.cumsum(1).softmax(0), (numbers(64, 100000),)),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_touched_before_the_wait(name):
    model, args = MODELS[name]
    for kernel, ptx in kernels(model, args).items():
        before, wait, behind = ptx.partition("griddepcontrol.wait")
        assert wait and TOUCHES.search(behind), kernel
        assert not TOUCHES.search(before), kernel


def test_the_next_kernel_comes_before_the_wait_and_what_is_not_known_behind_it():
    first, *others, last = (controls(ptx) for ptx in kernels(NORMS.bfloat16().eval(), (numbers(256, 512),), matmul="generated").values())
    assert others and all(c == ["launch_dependents", "wait"] for c in (first, *others))
    assert last == ["wait", "launch_dependents"]


def test_a_librarys_call_does_not_come_early():
    found = kernels(NORMS.bfloat16().eval(), (numbers(256, 512),), matmul="library")
    assert [controls(ptx) for ptx in found.values()].count(["wait"]) == 2
