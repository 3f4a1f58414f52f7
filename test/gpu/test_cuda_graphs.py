"""cuda_graphs=True on a GPU: the bits of plain launches, whatever changes between the calls."""


import pytest
import torch
from checks import in_threads
from models import Residuals
from torch import nn

import inferno
from inferno.runtime.plan.plan import LibraryCall


class Net(Residuals):
    """Matmuls by tensor maps and without, norms, and enough kernels that a graph pays."""

    def __init__(self, width=256, layers=4):
        super().__init__(width, layers)

    def forward(self, x):
        x = super().forward(x)
        return x, x.sum(-1)


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def pair(request):
    """(the model, compiled with graphs, compiled without, what makes inputs)."""
    torch.manual_seed(0)
    model = Net().to("cuda", request.param).eval()
    make = lambda: torch.randn(64, 256, device="cuda", dtype=request.param)  # noqa: E731
    x = make()
    return model, inferno.compile(model, (x,), cuda_graphs=True), inferno.compile(model, (x,)), make


def graphs(compiled) -> list:
    """The graphs of a compiled module, one a stream."""
    return [s.graph for s in compiled._executable.native.__self__._streams.values() if s.graph is not None]


def same(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b))


def test_a_loop_is_launched_by_one_graph(pair):
    _, graphed, plain, make = pair
    with torch.no_grad():
        x = make()
        for _ in range(10):
            x.copy_(make())
            assert same(graphed(x), plain(x))
    assert len(graphs(graphed)) == 1


def test_inputs_and_results_that_are_kept_are_not_touched(pair):
    _, graphed, plain, make = pair
    with torch.no_grad():
        inputs = [make() for _ in range(12)]
        results = [graphed(x) for x in inputs]
        wanted = [plain(x) for x in inputs]
    assert all(same(a, b) for a, b in zip(results, wanted))
    assert len({r[0].data_ptr() for r in results}) == len(results)


def test_memory_that_moves(pair):
    _, graphed, plain, make = pair
    kept = []
    with torch.no_grad():
        for i in range(20):
            kept.append(torch.empty(1 << (10 + i % 8), device="cuda"))
            x = make()
            assert same(graphed(x), plain(x))
            if i % 5 == 4:
                kept.clear()
                torch.cuda.empty_cache()


def test_weights_that_change(pair):
    model, graphed, plain, make = pair
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x = make()
    with torch.no_grad():
        try:
            for _ in range(3):
                for p in model.parameters():
                    p.mul_(1.01)
                assert same(graphed(x), plain(x))
                model.layers[0][1].weight = nn.Parameter(torch.randn_like(model.layers[0][1].weight))
                assert same(graphed(x), plain(x)) and same(graphed(x), plain(x))
        finally:
            model.load_state_dict(before)
        assert same(graphed(x), plain(x))


def test_several_graphs_alive_feed_each_other(pair):
    _, graphed, plain, make = pair
    with torch.no_grad():
        other = inferno.compile(lambda x, y: torch.tanh(x.softmax(-1) * 3 + y).cumsum(-1), (make(), make()), cuda_graphs=True)
        eager = inferno.compile(lambda x, y: torch.tanh(x.softmax(-1) * 3 + y).cumsum(-1), (make(), make()))
        a = b = make()
        for _ in range(10):
            a, b = other(graphed(a)[0], a), eager(plain(b)[0], b)
            assert torch.equal(a, b)


def test_streams_and_threads(pair):
    _, graphed, plain, make = pair
    wrong = []

    def work(_):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(30):
                x = make()
                if not same(graphed(x), plain(x)):
                    wrong.append(1)
            stream.synchronize()

    in_threads(work, range(4))
    assert not wrong


def test_threads_on_one_stream(pair):
    _, graphed, plain, make = pair
    wrong = []

    def work(_):
        with torch.no_grad():
            for _ in range(30):
                x = make()
                if not same(graphed(x), plain(x)):
                    wrong.append(1)

    in_threads(work, range(4))
    torch.cuda.synchronize()
    assert not wrong


def test_a_stream_that_is_captured(pair):
    _, graphed, plain, make = pair
    with torch.no_grad():
        x = make()
        graphed(x), graphed(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = graphed(x)
        for _ in range(3):
            x.copy_(make())
            graph.replay()
            assert same(y, plain(x)) and same(graphed(x), plain(x))


def test_it_takes_no_memory_of_its_own(pair):
    _, graphed, plain, make = pair
    peaks = []
    with torch.no_grad():
        x = make()
        for compiled in (graphed, plain):
            for _ in range(3):
                compiled(x)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            compiled(x)
            peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[0] == peaks[1]


def test_a_call_does_not_synchronise(pair):
    _, graphed, _, make = pair
    with torch.no_grad():
        x = make()
        for _ in range(3):
            graphed(x)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)
        event = torch.cuda.Event()
        graphed(x)
        graphed(make())
        event.record()
        assert not event.query()
    torch.cuda.synchronize()


def test_programs_that_come_and_go():
    """Graphs are destroyed with their programs, also while they run."""
    x = torch.randn(64, 256, device="cuda")
    with torch.no_grad():
        for i in range(5):
            compiled = inferno.compile(nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 256), nn.GELU()).cuda().eval(), (x,), cuda_graphs=True)
            for _ in range(4):
                y = compiled(x * i)
            del compiled
            assert torch.isfinite(y).all()


def test_torch_compile_in_the_mode_reduce_overhead():
    torch.manual_seed(0)
    model = Net().cuda().eval()
    compiled = torch.compile(model, backend="inferno", mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(64, 256, device="cuda")
            for ours, eager in zip(compiled(x), model(x)):
                torch.testing.assert_close(ours, eager, atol=1e-4, rtol=1e-4)


def test_packages(pair, tmp_path):
    _, _, plain, make = pair
    plain.save(tmp_path / "net.inferno")
    loaded = inferno.load(tmp_path / "net.inferno", cuda_graphs=True)
    with torch.no_grad():
        for _ in range(5):
            x = make()
            assert same(loaded(x), plain(x))
    assert len(graphs(loaded)) == 1


class Weighs(nn.Module):
    """Rows on fewer multiprocessors than there are, behind a kernel that makes what they are scaled by; a product by the library behind them."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16384, 4096, bias=False)

    def forward(self, x):
        return self.out((x * x.float().abs().amax(0).to(x.dtype)).softmax(-1))


@pytest.fixture(scope="module")
def weighs():
    """(compiled with graphs, compiled without, inputs): the last step is the library's."""
    torch.manual_seed(0)
    model, inputs = Weighs().to("cuda", torch.bfloat16).eval(), torch.randn(8, 100, 16384, device="cuda", dtype=torch.bfloat16)
    graphed, plain = (inferno.compile(model, (inputs[0],), matmul="library", cuda_graphs=g) for g in (True, False))
    assert [isinstance(s, LibraryCall) for s in plain.programs[0].launch_plan().steps] == [False, False, False, True]
    return graphed, plain, inputs


def test_a_library_call_waits_for_the_kernels_before_it(weighs):
    graphed, plain, inputs = weighs
    with torch.no_grad():
        wanted = [plain(x) for x in inputs]
        assert all(torch.equal(graphed(x), y) for x, y in zip(inputs, wanted))
    assert len(graphs(graphed)) == 1


def test_a_library_call_waits_in_a_capture_of_torchs(weighs):
    _, plain, inputs = weighs
    x = inputs[0].clone()
    with torch.no_grad():
        wanted = [plain(y) for y in inputs]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = plain(x)
        for y, right in zip(inputs, wanted):
            x.copy_(y)
            graph.replay()
            assert torch.equal(result, right)
