"""Training on a GPU computes again instead of keeping: the same gradients, with less memory."""

import copy

import pytest
import torch
from torch import nn

from inferno.capture import rematerialise

F = nn.functional


class Block(nn.Module):
    def __init__(self, size=256, heads=4):
        super().__init__()
        self.heads, self.norm, self.qkv, self.out = heads, nn.LayerNorm(size), nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def train(model, x) -> tuple[dict[str, torch.Tensor], int]:
    """Gradients, and the peak bytes of the second step."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="inferno", fullgraph=True)
    for _ in range(2):
        model.zero_grad()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        compiled(x).float().square().mean().backward()
        peak = torch.cuda.max_memory_allocated() - before
    return {n: p.grad.clone() for n, p in model.named_parameters()}, peak


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention(monkeypatch, dtype):
    monkeypatch.setenv("INFERNO_ATTENTION", "0")  # one kernel keeps no scores
    torch.manual_seed(0)
    model, x = nn.Sequential(*[Block() for _ in range(4)]).cuda().to(dtype), torch.randn(4, 512, 256, device="cuda", dtype=dtype)
    found = {}
    for least in (1 << 60, 1 << 20):
        monkeypatch.setattr(rematerialise, "LEAST_BYTES", least)
        found[least] = train(model, x)
    (kept, more), (again, less) = found.values()
    scores = 4 * 4 * 512 * 512 * x.element_size()
    assert less <= more - 3 * scores
    double = copy.deepcopy(model).double()
    double(x.double()).square().mean().backward()
    exact = {n: p.grad for n, p in double.named_parameters()}
    for name, gradient in again.items():
        error, other = ((g.double() - exact[name]).norm() for g in (gradient, kept[name]))
        assert error <= max(1.5 * other, torch.finfo(dtype).eps * exact[name].norm(), 1e-9), name


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(3, 1, ceil_mode=True)], ids=str)
def test_images(pool):
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), pool, nn.Conv2d(32, 32, 3), nn.BatchNorm2d(32), nn.ReLU()
    model = nn.Sequential(*layers).cuda().train()
    eager, double, x = copy.deepcopy(model), copy.deepcopy(model).double(), torch.randn(16, 3, 33, 33, device="cuda")
    with torch.backends.cudnn.flags(allow_tf32=False):
        gradients, _ = train(model, x)
        eager(x).square().mean().backward()
    double(x.double()).square().mean().backward()
    for (name, own), exact in zip(eager.named_parameters(), double.parameters()):
        error, other = (g.double() - exact.grad for g in (gradients[name], own.grad))
        assert error.norm() <= max(1.5 * other.norm(), 1e-6 * exact.grad.norm(), 1e-7), name
