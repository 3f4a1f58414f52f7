"""Shares of a call's time on a GPU: by events on the caller's stream, without a trace."""

import time

import pytest
import torch
from torch import nn

import inferno
from inferno.runtime.region.backend import inferno as backend


@torch.library.custom_op("inferno_test::waits", mutates_args=())
def waits(x: torch.Tensor) -> torch.Tensor:
    torch.cuda._sleep(20_000_000)  # about 10 ms of GPU time, which the host does not wait for
    return x + 1


@waits.register_fake
def _(x):
    return torch.empty_like(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(64, 64), nn.BatchNorm1d(64)

    def forward(self, x, cache):
        y = torch.relu(self.norm(self.layer(x))) * 2
        cache.add_(y)
        y = torch.ops.inferno_test.waits(y)
        return torch.softmax(self.layer(y), -1) + torch.rand_like(x)


@pytest.mark.parametrize("way", ["inferno.compile", "torch.compile", "cuda_graphs"])
@pytest.mark.parametrize("own_stream", [False, True])
def test_shares(way, own_stream):
    torch._dynamo.reset()
    module, x, cache = Model().cuda(), torch.randn(64, 64, device="cuda"), torch.zeros(64, 64, device="cuda")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(20_000_000)
    torch.cuda.synchronize()
    waited = time.perf_counter() - begin
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        options = {"cuda_graphs": way == "cuda_graphs"}
        if way == "torch.compile":
            compiled = torch.compile(module, backend=backend)
        else:
            compiled = inferno.compile(module, (x, cache), **options)
        random = torch.cuda.get_rng_state()
        report = inferno.explain(compiled, x, cache)
        assert torch.equal(torch.cuda.get_rng_state(), random)
        assert not cache.any() and module.norm.num_batches_tracked == 0 and not module.norm.running_mean.any()
    print(report)
    pieces = {p.name: p for p in report.pieces}
    slow = pieces["inferno_test.waits.default"]
    assert 0.5 * waited < slow.seconds < 2 * waited + 0.01 and slow.seconds > 0.5 * report.call
    assert all(p.seconds >= 0 for p in report.pieces) and sum(p.seconds for p in report.pieces) == pytest.approx(report.call, rel=1e-3)
    assert sum(p.seconds for n, p in pieces.items() if n.startswith("segment")) < 0.4 * report.call


def test_a_whole_program():
    x = torch.randn(64, 64, device="cuda")
    report = inferno.compile(lambda x: torch.relu(x @ x), (x,)).explain(x)
    assert 0 < report.call < 1e-3 and not report.pieces and "a call takes" in str(report)
