"""Models on a GPU that is not the current one: each kernel, workspace, constant and stream belongs to the model's device."""

import pytest
import torch
import torch.nn.functional as F
from checks import in_threads
from torch import nn

import inferno
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
OTHER = torch.device("cuda", 1)


class Block(nn.Module):
    """Attention, a wide product, norms, and a scan, which need descriptors, clusters, workspaces and constants."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.qkv, self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.down(F.gelu(self.up(self.second(x))))
        return x, x.float().cumsum(1), x.float().sum((0, 1)), x.float().sort(-1).values


def made(device, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return Block().to(device, dtype).eval(), torch.randn(2, 300, 256, device=device, dtype=dtype)


def right(found, model, x):
    with torch.no_grad():
        result = compare(found, model(x), reference(model, (x,)))
    assert result.right, result


@pytest.mark.parametrize("options", [{}, {"cuda_graphs": True}, {"freeze": True}])
def test_a_model_elsewhere(options):
    model, x = made(OTHER)
    compiled = inferno.compile(model, (x,), **options)
    assert torch.cuda.current_device() == 0
    for _ in range(3):
        found = compiled(x)
        assert torch.cuda.current_device() == 0 and all(y.device == OTHER for y in found)
        right(found, model, x)


def test_inputs_of_the_current_device_are_told():
    model, x = made(OTHER)
    compiled = inferno.compile(model, (x,))
    with pytest.raises(inferno.InputError, match="on cuda:1, got .* on cuda:0"):
        compiled(x.to("cuda:0"))


def test_a_copy_of_the_model_for_each_device():
    """A replica has the kernels of its own device, from the same cache."""
    for device in ("cuda:0", "cuda:1"):
        model, x = made(device)
        right(inferno.compile(model, (x,))(x), model, x)


def test_streams_of_the_device():
    model, x = made(OTHER)
    compiled = inferno.compile(model, (x,))
    torch.cuda.synchronize(OTHER)
    stream = torch.cuda.Stream(OTHER)
    with torch.cuda.stream(stream), torch.no_grad():
        torch.cuda._sleep(20_000_000)
        y = x * 2
        found = compiled(y)
    stream.synchronize()
    right(found, model, y)


def test_a_graph_of_the_device():
    model, x = made(OTHER)
    compiled = inferno.compile(model, (x,))
    with torch.cuda.device(OTHER), torch.no_grad():
        compiled(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = compiled(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
    torch.cuda.synchronize(OTHER)
    right(found, model, x)


def test_threads_with_a_device_each():
    models = [made(torch.device("cuda", i)) for i in range(2)]
    compiled = [inferno.compile(m, (x,)) for m, x in models]

    def work(i):
        model, x = models[i % 2]
        for _ in range(5):
            found = compiled[i % 2](x)
        torch.cuda.synchronize(x.device)
        right(found, model, x)

    in_threads(work, range(4))


def test_training_elsewhere():
    model, x = made(OTHER, torch.float32)
    twin, _ = made(OTHER, torch.float64)
    trained = torch.compile(model, backend="inferno")
    for net, data in ((trained, x), (twin, x.double())):
        sum(y.float().square().mean() if net is trained else y.square().mean() for y in net(data)[:3]).backward()
    assert torch.cuda.current_device() == 0
    for own, exact in zip(model.parameters(), twin.parameters()):
        assert own.grad.device == OTHER
        torch.testing.assert_close(own.grad.double(), exact.grad, rtol=1e-3, atol=1e-5 * exact.grad.abs().max().item())
