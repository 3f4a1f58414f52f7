"""Calls on a GPU: streams, CUDA graphs, threads, memory."""


import pytest
import torch
from checks import in_threads
from torch import nn

import inferno


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 32)).cuda().eval()


@pytest.fixture(scope="module")
def compiled(net):
    return inferno.compile(net, (torch.randn(16, 64, device="cuda"),))


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_results_come_on_the_current_stream(net, compiled):
    x = torch.randn(16, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        y = compiled(x)
    stream.synchronize()
    with torch.no_grad():
        close(y, net(x))


def test_a_call_does_not_synchronise(compiled):
    x = torch.randn(16, 64, device="cuda")
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)  # about a second of GPU time
        event = torch.cuda.Event()
        compiled(x)
        event.record()
        assert not event.query()
    torch.cuda.synchronize()


def test_cuda_graphs(net, compiled):
    x = torch.randn(16, 64, device="cuda")
    with torch.no_grad():
        compiled(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x)
        for _ in range(3):
            x.copy_(torch.randn(16, 64, device="cuda"))
            graph.replay()
            close(y, net(x))


def test_several_threads_with_their_own_streams(net, compiled):
    wrong = []

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(30):
                x = torch.randn(16, 64, device="cuda", generator=generator)
                if not torch.allclose(compiled(x), net(x), atol=1e-4, rtol=1e-4):
                    wrong.append(seed)
            stream.synchronize()

    in_threads(work, range(4))
    assert not wrong


def test_inputs_of_other_devices_and_strides(net, compiled):
    with pytest.raises(inferno.InputError, match="on cuda:0, got .* on cpu"):
        compiled(torch.randn(16, 64))
    with torch.no_grad():
        for x in (torch.randn(64, 16, device="cuda").t(), torch.randn(16, 65, device="cuda")[:, 1:], torch.randn(1025, device="cuda")[1:].view(16, 64)):
            close(compiled(x), net(x))


def test_models_and_inputs_on_two_devices(net):
    with pytest.raises(inferno.InputError, match="must be on one device"):
        inferno.compile(net, (torch.randn(16, 64),))


def test_matmul_relu_is_one_launch():
    x, w = torch.randn(64, 128, device="cuda"), torch.randn(128, 256, device="cuda")
    compiled = inferno.compile(lambda x, w: torch.relu(x @ w), (x, w))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        compiled(x, w)
        torch.cuda.synchronize()
    kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA and "mem" not in e.name.lower()]
    assert len(kernels) == 1


def test_memory_is_given_back(compiled):
    x = torch.randn(16, 64, device="cuda")
    with torch.no_grad():
        compiled(x)
        before = torch.cuda.memory_allocated()
        for _ in range(20):
            compiled(x)
        assert torch.cuda.memory_allocated() <= before


def test_blocks_that_begin_early_are_kept_apart():
    x = torch.randn(65536, 16, device="cuda", dtype=torch.bfloat16)
    compiled = inferno.compile(lambda x: x - x.mean(0), (x,))
    steps = [s for s in compiled._executable.plan.steps if 16 <= s.grid[0] <= 132]
    assert steps and all(s.shared > 100 << 10 for s in steps)
    with torch.no_grad():
        wanted = x.double() - x.double().mean(0)
        torch.testing.assert_close(compiled(x).double(), wanted, atol=2e-2, rtol=1e-2)
