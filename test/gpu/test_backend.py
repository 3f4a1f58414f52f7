"""``torch.compile(backend="inferno")`` and eager pieces on a GPU."""

import copy

import pytest
import torch
from models import Block, Convolutions
from torch import nn

import inferno
from inferno.runtime.region.backend import inferno as backend  # by function: a checkout need not be installed

F = nn.functional
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def fresh(exact_float32):
    torch.manual_seed(0)
    torch._dynamo.reset()
    inferno.stats(reset=True)


def compiled(function, dynamic=None, **options):
    return torch.compile(function, backend=lambda g, i: backend(g, i, options=options), dynamic=dynamic)


def assert_as_good_as_eager(ours, eagers, exact):
    for o, e, d in zip(ours, eagers, exact):
        o, e, d = o.double(), e.double(), d.double()
        assert (o - d).norm() <= max(1.5 * (e - d).norm(), 1.2e-7 * d.norm(), 1e-6)


@pytest.mark.parametrize("dynamic", [False, True])
def test_inference(dynamic):
    block, x = Block(4, 64).cuda().eval(), torch.randn(3, 50, 64, device="cuda")
    double, fast = copy.deepcopy(block).double(), compiled(block, dynamic, fallback=False)
    with torch.no_grad():
        for n in (50, 17, 33) if dynamic else (50,):
            given = x[:, :n]
            assert_as_good_as_eager([fast(given)], [block(given)], [double(given.double())])
    assert inferno.stats().fallbacks == 0 and inferno.stats().recompiles == 0


@pytest.mark.parametrize("build, shape", [(lambda: Block(4, 64), (3, 50, 64)), (Convolutions, (5, 3, 12, 12))])
def test_training(build, shape):
    eager = build().cuda().train()
    mine, double = copy.deepcopy(eager), copy.deepcopy(eager).double()
    x = torch.randn(shape, device="cuda")
    results = []
    for module, call in ((mine, compiled(mine, fallback=False)), (eager, eager), (double, double)):
        given = x.clone().to(next(module.parameters()).dtype).requires_grad_()
        out = call(given)
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device="cuda").view(out.shape)).sum().backward()
        results.append([out.detach(), given.grad, *(p.grad for p in module.parameters()), *module.buffers()])
    assert_as_good_as_eager(*results)
    assert inferno.stats().graphs == 2 and inferno.stats().fallbacks == 0


def test_bfloat16_and_autocast():
    block, x = Block(4, 64).cuda().eval(), torch.randn(2, 40, 64, device="cuda")
    with torch.no_grad():
        exact = copy.deepcopy(block).double()(x.double())
        with torch.autocast("cuda", torch.bfloat16):
            ours, eagers = compiled(block)(x), block(x)
    assert ours.dtype == eagers.dtype
    assert (ours.double() - exact).norm() <= max(1.5 * (eagers.double() - exact).norm(), 0.0078 * exact.norm())


def test_eager_pieces_and_graph_breaks():
    def f(x):
        y = torch.relu(x @ x.t()) + 1
        z = torch.fft.fft(y).real.sum(-1)
        if z.sum() > 0:
            y = y * 2
        return torch.sigmoid(y).sum(0) + z, torch.linalg.qr(y + 100 * torch.eye(9, device="cuda"))[1].abs()

    x = torch.randn(9, 5, device="cuda")
    for ours in (compiled(f)(x), inferno.compile(f, (x,))(x)):
        for o, e in zip(ours, f(x)):
            torch.testing.assert_close(o, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_mask_on_the_cpu(accumulate):
    """Torch takes it for a tensor on the GPU; it runs in eager, and what is around it does not."""
    mask, x, v = torch.tensor([True, False, True]), torch.randn(3, 5, device="cuda"), torch.randn(5, device="cuda")

    def put(x, v):
        return torch.index_put(x * 2, (mask,), v, accumulate) + 1

    for fast in (compiled(put), inferno.compile(put, (x, v))):
        assert torch.equal(fast(x, v), put(x, v))


def test_random_numbers_are_torchs_own():
    f = lambda x: F.dropout(x.relu() * 2, 0.5)  # noqa: E731
    x = torch.randn(100, 100, device="cuda")
    fast = inferno.compile(f, (x,))
    torch.manual_seed(5)
    ours = fast(x)
    torch.manual_seed(5)
    assert torch.equal(ours, f(x))


def test_the_callers_stream_and_graphs():
    fast = compiled(lambda x: torch.softmax(x @ x.t(), -1))
    x = torch.randn(64, 64, device="cuda")
    fast(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = fast(x)
    stream.synchronize()
    torch.testing.assert_close(y, torch.softmax(x @ x.t(), -1), rtol=1e-5, atol=1e-5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = fast(x)
    x.mul_(0.5)
    graph.replay()
    torch.testing.assert_close(z, torch.softmax(x @ x.t(), -1), rtol=1e-5, atol=1e-5)


def test_channels_last_and_aliases():
    convolution = nn.Conv2d(3, 8, 3, padding=1).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 10, 10, device="cuda").to(memory_format=torch.channels_last)
    f = lambda x: (torch.relu(convolution(x)), x[:, :2], (x + 1).permute(0, 2, 3, 1))  # noqa: E731
    with torch.no_grad():
        for o, e in zip(compiled(f)(x), f(x)):
            assert o.stride() == e.stride()
            torch.testing.assert_close(o, e, rtol=1e-4, atol=1e-4)
