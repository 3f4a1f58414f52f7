"""Inputs that are parts of larger tensors, read where they lie, against float64."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper

import inferno

F = torch.nn.functional

pytestmark = on_hopper


def packed(width):
    def make(randn):
        whole = randn(2, 300, 8, 3 * width)
        return tuple(whole[..., i * width:(i + 1) * width].transpose(1, 2) for i in range(3))

    return make


CASES = {
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda randn: (randn(300, 3072)[:, 1024:2048], randn(1000, 1536)[:, 512:], randn(1000))),
    "transposed": (lambda x, w: x.T @ w, lambda randn: (randn(512, 768)[8:, 256:], randn(600, 640)[96:, :512])),
    "batches": (lambda x, y: x @ y.mT, lambda randn: (randn(6, 200, 256)[:, :, :128], randn(6, 136, 256)[:, 8:, 128:])),
    "one row": (lambda x, w: F.linear(x, w), lambda randn: (randn(1, 8192)[:, 4096:], randn(2048, 8192)[:, :4096])),
    "softmax": (lambda x: torch.softmax(x, -1), lambda randn: (randn(1000, 1024)[:, 512:],)),
    "norm": (lambda x, w: F.rms_norm(x, (512,), w), lambda randn: (randn(1000, 1024)[3:, 512:], randn(512))),
    "columns' sums": (lambda x: x.sum(0), lambda randn: (randn(5000, 512)[:, 64:128],)),
    "elementwise": (lambda x, y: torch.sigmoid(x) * y, lambda randn: (randn(333, 1536)[:, :768], randn(333, 1536)[:, 768:])),
    "steps": (lambda x: x + 1, lambda randn: (randn(4, 64, 512)[:, ::2, ::4],)),
    "heads": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), packed(64)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right(exact_float32, name, dtype):
    right(name, dtype)


def right(name, dtype):
    model, make = CASES[name]
    args = make(lambda *shape: torch.randn(shape, device="cuda").to(dtype))
    compiled = assert_right(model, args)
    assert all(a.part is not None for a, x in zip(compiled.program.signature.arguments, args) if not x.is_contiguous())
    again = tuple(x.clone() for x in args)
    torch.testing.assert_close(compiled(*again), compiled(*args), atol=0, rtol=0)
    return compiled


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_copied(unmeasured, name):
    assert not any("slice" in row.kernel for row in right(name, torch.bfloat16).explain().rows)


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_other_tensors(cuda_graphs):
    """Each call's own, some that lie differently, and one that ends where its memory ends."""
    def model(x, w):
        return torch.relu(F.linear(x, w)).sum(-1) + x.sum(-1)

    made = lambda n: torch.randn(256, 1024, device="cuda")[:n, 512:]  # noqa: E731
    w = torch.randn(64, 512, device="cuda")
    compiled = inferno.compile(model, (made(128), w), cuda_graphs=cuda_graphs, fallback=False)
    for x in (made(128), made(256)[128:], made(128).clone(), torch.randn(128 * 512 + 3, device="cuda")[3:].view(128, 512), made(128)):
        torch.testing.assert_close(compiled(x, w), model(x, w), atol=1e-3, rtol=1e-3)
