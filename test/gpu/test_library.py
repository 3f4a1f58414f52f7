"""matmul="library" on a GPU: cuBLASLt's calls in a program are right, in order, and wherever a program may run."""

import itertools
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right, check, in_threads, poison_memory
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

import inferno
from inferno.runtime.device import target_of
from inferno.runtime.launch.cublaslt import library_path
from inferno.schedule import assign
from inferno.schedule.matmul import cublaslt

pytestmark = pytest.mark.usefixtures("exact_float32")

SHAPES = [(128, 256, 512), (33, 7, 65), (1, 256, 128), (64, 1, 96), (256, 64, 4096)]
EPILOGUES = {
    "none": lambda y, b, r: y, "scale": lambda y, b, r: y * 0.125, "bias": lambda y, b, r: y + b, "residual": lambda y, b, r: y + r,
    "all": lambda y, b, r: 0.5 * y + b - 2 * r, "gelu": lambda y, b, r: F.gelu(y, approximate="tanh"),
    "bias gelu": lambda y, b, r: F.gelu(y + b, approximate="tanh"), "residual gelu": lambda y, b, r: F.gelu(y + r, approximate="tanh"),
    "bias relu": lambda y, b, r: torch.relu(y + b), "silu": lambda y, b, r: F.silu(y),
}


def calls(compiled) -> int:
    return sum(row.generator == "cublaslt" for row in compiled.explain().rows)


def numbers(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def test_there_is_a_library():
    assert library_path()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layouts(dtype, shape):
    m, n, k = shape
    for x_transposed, w_transposed in itertools.product((False, True), repeat=2):
        x, w = numbers(*((k, m) if x_transposed else (m, k)), dtype=dtype), numbers(*((n, k) if w_transposed else (k, n)), dtype=dtype)
        compiled = assert_right(lambda x, w: (x.t() if x_transposed else x) @ (w.t() if w_transposed else w), (x, w), matmul="library")  # noqa: B023
        assert calls(compiled) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(dtype, epilogue):
    for m, n, k in SHAPES[:3]:
        args = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype) / k**0.5, numbers(n, dtype=dtype), numbers(m, n, dtype=dtype)
        compiled = assert_right(lambda x, w, b, r: EPILOGUES[epilogue](F.linear(x, w), b, r), args, matmul="library")
        assert calls(compiled) == 1


APART = {
    "relu": lambda y, b, r: torch.relu(y), "gelu, times": lambda y, b, r: F.gelu(y + b) * r, "two": lambda y, b, r: (F.silu(y), y * r),
    "of float32": lambda y, b, r: torch.tanh(y.float()) + b, "transposed": lambda y, b, r: torch.relu(y) + r.reshape(y.shape[::-1]).t(),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("epilogue", APART)
def test_what_else_comes_of_the_sums_is_a_second_launch(dtype, epilogue):
    target = target_of(torch.device("cuda"))
    for m, n, k in SHAPES[:3]:
        args = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype) / k**0.5, numbers(n, dtype=dtype), numbers(m, n, dtype=dtype)
        model = lambda x, w, b, r: APART[epilogue](F.linear(x, w), b, r)  # noqa: E731
        compiled = compile_universal(
            model, args, torch.device("cuda"), target.name, lambda kernel: cublaslt.choose(kernel, target) or assign.choose(kernel, target))
        assert calls(compiled) == 1
        poison_memory()
        verdict = check(compiled, model, args)
        assert verdict.right, str(verdict)


@pytest.mark.parametrize("epilogue", ["residual", "scale"])
def test_epilogues_of_float64(epilogue):
    args = numbers(64, 96).double(), numbers(48, 96).double(), numbers(48).double(), numbers(64, 48).double()
    assert calls(assert_right(lambda x, w, b, r: EPILOGUES[epilogue](F.linear(x, w), b, r), args, matmul="library")) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_results_of_float32(dtype):
    x, w, b = numbers(64, 96, dtype=dtype), numbers(96, 48, dtype=dtype), numbers(48)
    model = lambda x, w, b: (x @ w).float() + b  # noqa: E731
    assert calls(assert_right(model, (x, w, b), matmul="library")) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_batches(dtype):
    for x, w, r in (
        (numbers(6, 64, 32), numbers(6, 32, 48), numbers(6, 64, 48)), (numbers(64, 32), numbers(6, 32, 48), numbers(64, 48)),
        (numbers(6, 64, 32), numbers(32, 48), numbers(6, 64, 48)), (numbers(6, 32, 64).mT, numbers(6, 48, 32).mT, numbers(6, 64, 48)),
        (numbers(2, 3, 1, 32), numbers(2, 3, 32, 48), numbers(2, 3, 1, 48)),
    ):
        args = tuple(t.to(dtype) for t in (x, w, r))
        assert calls(assert_right(lambda x, w: x @ w, args[:2], matmul="library")) == 1
        if args[2].dim() > 2:
            assert calls(assert_right(lambda x, w, r: x @ w + r, args, matmul="library")) == 1


def test_tf32():
    torch.set_float32_matmul_precision("high")
    x, w, b = numbers(512, 256), numbers(384, 256), numbers(384)
    compiled = inferno.compile(F.linear, (x, w, b), matmul="library")
    exact = F.linear(x.double(), w.double(), b.double())
    error = float((compiled(x, w, b).double() - exact).norm() / exact.norm())
    assert calls(compiled) == 1 and 1e-5 < error < 1e-3 and 'compute = "tf32"' in compiled.ir("gpu")


def test_integers():
    x, w = (torch.randint(-128, 128, s, device="cuda", dtype=torch.int8) for s in ((64, 96), (48, 96)))
    model = lambda x, w: torch._int_mm(x, w.t())  # noqa: E731
    compiled = inferno.compile(model, (x, w), matmul="library")
    assert calls(compiled) == 1 and torch.equal(compiled(x, w), (x.double() @ w.double().t()).int())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("epilogue", ["none", "bias relu", "gelu", "bias gelu", "all"])
def test_nan_and_infinity_come_out_where_they_do_in_eager(dtype, epilogue):
    for m, n, k in [*SHAPES[:3], (2048, 2048, 512)]:
        x, w, b, r = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype), numbers(n, dtype=dtype), numbers(m, n, dtype=dtype)
        x[0, 0], b[1], w[2, 3] = float("nan"), float("-inf"), float("inf")
        model = lambda x, w, b, r: EPILOGUES[epilogue](F.linear(x, w), b, r)  # noqa: E731
        ours, eager = inferno.compile(model, (x, w, b, r), matmul="library")(x, w, b, r), model(x, w, b, r)
        for kind in (torch.isnan, torch.isposinf, torch.isneginf):
            assert torch.equal(kind(ours), kind(eager)), (kind, m, n, k)


CHOSEN = {
    "float64": (torch.float64, False, ((1000, 1000), (1000, 1000)), False), "linear": (torch.float64, False, ((300, 1001), (777, 1001)), True),
    "float64 of batches": (torch.float64, False, ((5, 777, 600), (5, 600, 520)), False),
    "TF32, few rows": (torch.float32, True, ((64, 4100), (4100, 4100)), True),
    "TF32, lines of 8 bytes": (torch.float32, True, ((64, 4098), (4098, 4098)), False),
    "float32 of batches": (torch.float32, False, ((96, 197, 197), (96, 197, 64)), False),
    "short lines": (torch.float32, False, ((1000, 50, 50), (1000, 50, 50)), False), "bf16": (torch.bfloat16, False, ((832, 3904), (480, 3904)), True),
}


@pytest.mark.parametrize("case", CHOSEN)
@pytest.mark.parametrize("after", [False, True], ids=["plain", "silu"])
def test_auto_takes_what_is_faster(case, after):
    """And it is right, also with what the library has no epilogue for behind it, and in a capture."""
    dtype, tf32, shapes, linear = CHOSEN[case]
    if target_of(torch.device("cuda")).capability != 90:
        pytest.skip("estimated for Hopper")
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    x, w = (numbers(*s).to(dtype) for s in shapes)
    product = F.linear if linear else torch.matmul
    model = (lambda x, w: F.silu(product(x, w))) if after else product
    compiled = inferno.compile(model, (x, w))
    assert calls(compiled) == 1 or (after and calls(compiled) == 0)
    if tf32:
        exact = model(x.double(), w.double())
        assert float((compiled(x, w).double() - exact).norm() / exact.norm()) < 1e-3
    else:
        verdict = check(compiled, model, (x, w))
        assert verdict.right, str(verdict)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = compiled(x, w)
    for _ in range(2):
        x.normal_()
        graph.replay()
        assert torch.equal(captured, compiled(x, w))


class Blocks(nn.Module):
    """Calls of the library between kernels of ours, each reading what the one before has just written."""

    def __init__(self, width=512, layers=6):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.ups = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.ups, self.downs):
            x = x + down(F.gelu(up(norm(x)), approximate="tanh"))
        return x, x.sum(-1)


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def blocks(request):
    """(the model, compiled, an input)."""
    torch.manual_seed(0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    model, x = Blocks().to("cuda", request.param).eval(), numbers(256, 512, dtype=request.param)
    compiled = inferno.compile(model, (x,), matmul="library")
    torch.set_float32_matmul_precision(before)
    assert calls(compiled) == 2
    return model, compiled, x


def same(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b))


def test_calls_are_in_order_with_kernels(blocks):
    model, compiled, x = blocks
    assert check(compiled, model, (x,)).right
    with torch.no_grad():
        inputs = [torch.randn_like(x) for _ in range(8)]
        wanted = []
        for each in inputs:
            wanted.append(compiled(each))
            torch.cuda.synchronize()
        for _ in range(50):  # without a stop between them, in memory that holds NaN
            poison_memory()
            assert all(same(compiled(each), w) for each, w in zip(inputs, wanted))


def test_streams_and_threads(blocks):
    _, compiled, x = blocks
    with torch.no_grad():
        inputs = [torch.randn_like(x) for _ in range(4)]
        wanted = [compiled(each) for each in inputs]
        torch.cuda.synchronize()

        def work(i):
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(50):
                    assert same(compiled(inputs[i]), wanted[i])

        in_threads(work, range(4))


def test_a_capture_has_the_calls(blocks):
    _, compiled, x = blocks
    with torch.no_grad():
        held = x.clone()
        compiled(held)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = compiled(held)
        for _ in range(3):
            held.normal_()
            graph.replay()
            assert same(out, compiled(held))


def test_cuda_graphs(blocks):
    model, plain, x = blocks
    graphed = inferno.compile(model, (x,), matmul="library", cuda_graphs=True)
    with torch.no_grad():
        for _ in range(5):  # the same addresses
            x = x.clone().normal_()
            assert same(graphed(x), plain(x))
        kept = [x.clone().normal_() for _ in range(6)]
        for _ in range(3):  # others each time
            assert all(same(graphed(each), plain(each)) for each in kept)
    streams = graphed._executable.native.__self__._streams.values()
    assert any(s.graph is not None for s in streams)


def test_packages(blocks, tmp_path):
    _, compiled, x = blocks
    compiled.save(tmp_path / "net.inferno")
    for graphs in (False, True):
        loaded = inferno.load(tmp_path / "net.inferno", cuda_graphs=graphs)
        with torch.no_grad():
            assert all(same(loaded(each), compiled(each)) for each in [x, x + 1, x, x, x])


def test_torch_compile_and_gradients(blocks):
    model, _, x = blocks
    fast = torch.compile(model, backend="inferno", options={"matmul": "library"})
    given = x.clone().requires_grad_()
    fast(given)[0].square().mean().backward()
    ours, given.grad = given.grad, None
    model(given)[0].square().mean().backward()
    assert float((ours - given.grad).norm() / given.grad.norm()) < (1e-5 if x.dtype is torch.float32 else 3e-2)


def test_a_call_among_sizes_that_vary():
    """What varies is not the library's; a product of weights alone is."""
    x, a, b = numbers(8, 64), numbers(64, 96), numbers(96, 48)
    model = lambda x, a, b: torch.relu(x @ (a @ b).relu())  # noqa: E731
    n = torch.export.Dim("n", min=1, max=512)
    compiled = inferno.compile(model, (x, a, b), dynamic_shapes=({0: n}, None, None), matmul="library", fallback=False)
    assert calls(compiled) == 1
    for rows in (1, 8, 100, 512):
        given = numbers(rows, 64), a, b
        assert check(compiled, model, given).right
