"""Programs from the cache run on the GPU as compiled ones do."""

import pytest
import torch
from torch.export import exported_program

import inferno
from inferno.runtime.workers import pool as workers


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(256), torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)
        self.register_buffer("calls", torch.zeros((), device="cuda"))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_recalled_program_gives_the_same_bits(cache_folder, monkeypatch, dtype):
    model, x = Block().cuda().to(dtype).eval(), torch.randn(64, 256, device="cuda", dtype=dtype)
    with torch.no_grad():
        first = inferno.compile(model, (x,))
        expected = first(x)
        monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
        monkeypatch.setattr(exported_program, "_decompose_exported_program", lambda *args, **kwargs: pytest.fail("the graph was decomposed"))
        second = inferno.compile(model, (x,))
        assert torch.equal(second(x), expected)
        assert model.calls.item() == 2
        torch.testing.assert_close(expected, model(x), rtol=2e-2, atol=2e-2)


def test_torch_compile_from_the_cache(cache_folder, monkeypatch):
    model, x = Block().cuda().eval(), torch.randn(64, 256, device="cuda")
    with torch.no_grad():
        expected = torch.compile(model, backend="inferno")(x)
        torch._dynamo.reset()
        monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
        assert torch.equal(torch.compile(model, backend="inferno")(x), expected)
