"""Plans of many bytes run in chunks: the same bits, with less memory."""

import gc

import pytest
import torch
from models import Residuals

import inferno
from inferno.runtime.launch import chunks


def train(model, x) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """(loss, gradients, peak bytes of the second step)."""
    compiled = torch.compile(model, backend="inferno", fullgraph=True)
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loss = compiled(x).square().mean()
        loss.backward()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
    torch.compiler.reset()
    return loss.detach(), {n: p.grad.clone() for n, p in model.named_parameters()}, peak


def test_training_takes_less_memory_and_gives_the_same_bits(monkeypatch):
    torch.manual_seed(0)
    model, x = Residuals(512, 8).cuda(), torch.randn(2048, 512, device="cuda")
    found = {}
    for size in (1 << 60, 16 << 20):
        monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
        found[size] = train(model, x)
    (loss, whole, more), (other, parts, less) = found.values()
    assert torch.equal(loss, other) and all(torch.equal(g, parts[n]) for n, g in whole.items())
    assert less < 0.97 * more


@pytest.mark.parametrize("interpret", [False, True], ids=["native", "interpreter"])
def test_inference_in_chunks(monkeypatch, interpret):
    from inferno.runtime.executables import make_executable

    torch.manual_seed(0)
    model, x = Residuals(512, 3).cuda().bfloat16().eval(), torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    whole = inferno.compile(model, (x,))
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << 16)
    monkeypatch.setattr(chunks, "_LEAST_SAVED", 0)
    everything = range(len(whole.program.launch_plan().arguments))
    parts = make_executable(whole.program, whole.device, [r.dtype for r in whole.program.signature.results], interpret, given=everything)
    assert parts.takes and not whole._executable.takes
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
            expected = whole(x)
            given = [*whole.program.signature.arguments_of((x,), {}), *whole._constants]
            assert torch.equal(parts.run(given)[0].view(expected.shape), expected) and given[0] is not None
            (result,) = parts.run_taking(given)
            assert torch.equal(result.view(expected.shape), expected) and all(t is None for t in given)


def test_inputs_that_somebody_else_holds_are_not_touched(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << 16)
    monkeypatch.setattr(chunks, "_LEAST_SAVED", 0)
    torch.manual_seed(0)
    compiled = torch.compile(lambda x, y: (torch.relu(x @ y).softmax(-1), (x + y).cumsum(0), x), backend="inferno", fullgraph=True)
    x, y = torch.randn(512, 512, device="cuda", requires_grad=True), torch.randn(512, 512, device="cuda")
    before = x.detach().clone(), y.clone()
    for _ in range(3):
        a, b, c = compiled(x, y)
        torch.testing.assert_close(a, torch.relu(x @ y).softmax(-1), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(b, (x + y).cumsum(0), atol=1e-3, rtol=1e-3)
        gradient = torch.autograd.grad([a, b], [x], [torch.ones_like(a), y])[0]
        torch.testing.assert_close(gradient, y.flip(0).cumsum(0).flip(0), atol=1e-3, rtol=1e-3)  # a softmax's gradients sum to 0
        assert torch.equal(x, before[0]) and torch.equal(y, before[1]) and torch.equal(c, x)
