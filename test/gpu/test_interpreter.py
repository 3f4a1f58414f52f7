"""Launch plans run by the interpreter on a GPU: the bits of the native code, on any stream, from any thread."""


import pytest
import torch
import torch.nn.functional as F
from checks import in_threads
from torch import nn

import inferno
from inferno.runtime.module import CompiledModule


class Block(nn.Module):
    """Tensor-core matmuls, with tensor maps, between a norm, attention and a residual."""

    def __init__(self, width=512, heads=8):
        super().__init__()
        self.norm, self.qkv, self.out, self.heads = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w))


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def pair(request):
    """A compiled model, the same run by the interpreter, and what makes inputs."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(), nn.GELU(), Block()).to("cuda", request.param).eval()
    make = lambda: torch.randn(2, 256, 512, device="cuda", dtype=request.param)  # noqa: E731
    compiled = inferno.compile(model, (make(),))
    return compiled, CompiledModule(compiled.program, compiled.device, 0.0, interpret=True), make


def test_same_bits(pair):
    compiled, interpreted, make = pair
    with torch.no_grad():
        for _ in range(4):
            x = make()
            assert torch.equal(compiled(x), interpreted(x))
            del x
            torch.cuda.empty_cache()  # what comes next is elsewhere in memory: tensor maps are made again


def test_other_streams(pair):
    compiled, interpreted, make = pair
    with torch.no_grad():
        for _ in range(3):
            x = make()
            expected, stream = compiled(x), torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                y = interpreted(x)
            stream.synchronize()
            assert torch.equal(y, expected)


def test_threads(pair):
    compiled, interpreted, make = pair
    wrong = []

    def work(_):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(20):
                x = make()
                if not torch.equal(interpreted(x), compiled(x)):
                    wrong.append(1)
            stream.synchronize()

    in_threads(work, range(4))
    assert not wrong


def test_a_cuda_graph_of_it(pair):
    compiled, interpreted, make = pair
    with torch.no_grad():
        x = make()
        interpreted(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = interpreted(x)
        for _ in range(3):
            x.copy_(make())
            graph.replay()
            assert torch.equal(y, compiled(x))


def test_a_call_does_not_synchronise(pair):
    _, interpreted, make = pair
    with torch.no_grad():
        x = make()
        interpreted(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)
        event = torch.cuda.Event()
        interpreted(x)
        event.record()
        assert not event.query()
    torch.cuda.synchronize()


def test_empty_batches_and_programs_without_kernels():
    for function, x in ((lambda x: x.view(4, 4), torch.randn(2, 8, device="cuda")), (lambda x: x + 1, torch.randn(0, 4, device="cuda"))):
        compiled = inferno.compile(function, (x,))
        interpreted = CompiledModule(compiled.program, compiled.device, 0.0, interpret=True)
        with torch.no_grad():
            assert torch.equal(interpreted(x), function(x))
