"""Frozen weights on a GPU: split or padded once, and made again when they change, in graphs of the user's and on other streams too."""

import pytest
import torch
from checks import assert_right, check
from on_gpu import on_hopper
from torch import nn

import inferno

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("exact_float32"),
]


class Product(nn.Module):
    """relu(x @ w + b), w of [k, n] or, as a linear layer has it, [n, k]; x maybe transposed."""

    def __init__(self, n: int, k: int, linear: bool, transposed: bool = False, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn((n, k) if linear else (k, n), device="cuda", dtype=dtype))
        self.b = nn.Parameter(torch.randn(n, device="cuda", dtype=dtype))
        self.linear, self.transposed = linear, transposed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.t() if self.transposed else x
        return torch.relu(x @ (self.w.t() if self.linear else self.w) + self.b)


def frozen(m: int, n: int, k: int, linear: bool, transposed: bool = False, dtype: torch.dtype = torch.float32, **options):
    model = Product(n, k, linear, transposed, dtype)
    x = torch.randn((k, m) if transposed else (m, k), device="cuda", dtype=dtype)
    return model, x, assert_right(model, (x,), freeze=True, **options)


def test_numbers_that_are_hard_to_split():
    model, x, fast = frozen(512, 512, 512, True)
    with torch.no_grad():
        model.w.mul_(torch.logspace(-30, 30, 512, device="cuda"))
        assert check(fast, model, (x * torch.logspace(3, -3, 512, device="cuda"),)).right
        model.w[3, 5], model.w[7, 9] = float("inf"), float("nan")
        ours, eager = fast(x), model(x)
    assert torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf())


def changes(model):
    with torch.no_grad():
        yield "nothing", lambda: None
        yield "in place", lambda: model.w.mul_(2)
        yield "load", lambda: model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
        yield "assigned", lambda: setattr(model, "w", nn.Parameter(torch.randn_like(model.w)))
        yield "data", lambda: setattr(model.w, "data", torch.randn_like(model.w))


@pytest.mark.parametrize("options", [{}, {"cuda_graphs": True}])
def test_changes_are_seen(options):
    model, x, fast = frozen(512, 1000, 1021, True, **options)
    for name, change in changes(model):
        change()
        assert check(fast, model, (x,)).right, name


def test_in_a_graph_of_the_users():
    model, x, fast = frozen(512, 512, 512, True)
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        fast(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            y = fast(x)
    with torch.no_grad():
        for _ in range(2):
            model.w.mul_(-1.5)
            fast.refresh()
            graph.replay()
            assert torch.equal(y, fast(x))


def test_first_called_while_it_is_captured():
    model, x, _ = frozen(512, 512, 512, True)
    fast = inferno.compile(model, (x,), freeze=True)
    with torch.no_grad():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = fast(x)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, fast(x))


def test_on_other_streams():
    model, x, fast = frozen(512, 1000, 1021, True)
    streams = [torch.cuda.Stream() for _ in range(4)]
    with torch.no_grad():
        for _ in range(5):
            model.w.mul_(-1)
            torch.cuda.synchronize()
            expected, found = model(x), []
            for stream in streams:
                with torch.cuda.stream(stream):
                    found.append(fast(x))
            torch.cuda.synchronize()
            assert all(torch.equal(f, found[0]) for f in found)
            assert (found[0] - expected).norm() <= 1e-5 * expected.norm()


def test_a_package(tmp_path):
    model, x, fast = frozen(512, 1000, 1021, True)
    fast.save(tmp_path / "package")
    loaded = inferno.load(tmp_path / "package")
    with torch.no_grad():
        assert torch.equal(loaded(x), fast(x))
        for module in (model, loaded):
            dict(module.named_parameters())["w"].mul_(3)
        assert torch.equal(loaded(x), fast(x))


def test_under_torch_compile():
    torch._dynamo.reset()
    model = Product(1000, 1021, True)
    x = torch.randn(512, 1021, device="cuda")
    fast = torch.compile(model, backend="inferno", options={"freeze": True})
    for name, change in changes(model):
        with torch.no_grad():
            change()
            assert check(fast, model, (x,)).right, name
    torch._dynamo.reset()


@pytest.mark.parametrize("m, n, k, linear", [(512, 1000, 1021, True), (512, 1001, 1024, False), (4096, 777, 1001, True), (300, 515, 999, False)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_padded(m, n, k, linear, dtype):
    _, _, fast = frozen(m, n, k, linear, dtype=dtype, matmul="generated")
    assert fast.program.preparation is not None


SIZES = [
    (512, 512, 512, True), (1024, 1024, 1024, False), (2048, 2048, 512, True), (4096, 2304, 96, False), (192, 4096, 4096, True), (933, 777, 811, False),
    (933, 777, 811, True), (1000, 1000, 1000, False), (129, 4100, 1028, True), (2000, 1999, 100, False), (3000, 3000, 65, True), (256, 256, 8192, False),
]


@pytest.mark.parametrize("m, n, k, linear", SIZES)
def test_float32_sizes(m, n, k, linear):
    _, _, fast = frozen(m, n, k, linear)
    tall = k >= 8192  # of few results blocks share the terms, and split numbers as they come
    assert f'generator = "{"direct" if tall else "presplit"}"' in fast.ir("scheduled")


def test_without_memory_for_the_parts():
    _, _, fast = frozen(2000, 1999, 65, True)  # 65 terms are padded to 96: three bf16 of each take more than twice the weight
    assert fast.program.preparation is None  # they are split at each call


@pytest.mark.parametrize("m, n, k", [(512, 640, 320), (1100, 1200, 513)])
@pytest.mark.parametrize("linear", [True, False])
def test_float32_with_a_transposed_lhs(m, n, k, linear):
    frozen(m, n, k, linear, transposed=True)
