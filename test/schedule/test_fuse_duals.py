"""Programs whose two contractions of one operand became one kernel: what is fused, and that it computes the same (on the CPU)."""

import sys
from pathlib import Path

import pytest
import torch
from checks import check

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import _fuse as fuse
from universal_program import compile_universal

from inferno.capture import capture
from inferno.mlir import ir, idle_context, walk
from inferno.passes.manager import run_pipeline
from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
CPU = find_target("cpu")
ALWAYS = "fuse-duals{target=sm_90a always=1}"


def fused(function, *shapes) -> list[str]:
    """``function`` of normal tensors is right behind the pass; returns the names of the kernels that are left."""
    torch.manual_seed(0)
    args = tuple(torch.randn(s).to(torch.bfloat16) for s in shapes)
    compiled = compile_universal(function, args, torch.device("cpu"), "cpu", lambda k: assign.choose(k, CPU), passes=ALWAYS)
    verdict = check(compiled, function, args)
    assert verdict.right, str(verdict)
    return sorted(compiled.program.kernels)


def duals(function, *shapes, dtype=torch.bfloat16, passes: str = ALWAYS) -> int:
    """The calls of kernels that hold two contractions, behind the pass."""
    text, _ = fuse(capture(function, tuple(torch.empty(s, dtype=dtype) for s in shapes)))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, passes)
        return sum(str(call.attributes["callee"]).startswith("@dual_") for call in walk(module, "func.call"))


def test_a_swiglu_is_two_kernels():
    names = fused(lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d), (2, 8, 64), (96, 64), (96, 64), (64, 96))
    assert len(names) == 2 and names[0].startswith("dual_")


FUNCTIONS = {
    "columns together": (lambda x, a, b: F.gelu(x @ a) * (x @ b), (16, 64), (64, 40), (64, 40)),
    "bias on both": (lambda x, a, b, c, d: F.gelu(F.linear(x, a, c)) * F.linear(x, b, d), (16, 64), (40, 64), (40, 64), (40,), (40,)),
    "scalars and a residual": (lambda x, a, b, r: (x @ a) * 2 - torch.tanh(x @ b) * 0.5 + r, (16, 64), (64, 40), (64, 40), (16, 40)),
    "a float32 result": (lambda x, a, b: (x @ a).float() * torch.sigmoid(x @ b).float(), (16, 64), (64, 40), (64, 40)),
    "batches": (lambda x, a, b: F.silu(x @ a) * (x @ b), (3, 16, 64), (3, 64, 40), (3, 64, 40)),
    "a scaled operand": (lambda x, s, a, b: F.silu((x * s) @ a) * ((x * s) @ b), (16, 64), (16, 1), (64, 40), (64, 40)),
    "rows of a wider tensor": (lambda x, w: F.silu(x @ w[:40].t()) * (x @ w[40:].t()), (16, 64), (80, 64)),
}


def halves(h):
    g, u = h.chunk(2, -1)
    return F.silu(g) * u


CHUNKS = {
    "rows of the weight": (lambda x, w: halves(F.linear(x, w)), (16, 64), (80, 64)),
    "columns of the weight": (lambda x, w: halves(x @ w), (16, 64), (64, 80)),
    "in another shape": (lambda x, w: halves(F.linear(x, w)), (2, 8, 64), (80, 64)),
    "biased": (lambda x, w, b: halves(F.linear(x, w, b)), (2, 8, 64), (80, 64), (80,)),
    "the second one first": (lambda x, w: torch.tanh((x @ w)[:, 40:]) - (x @ w)[:, :40], (16, 64), (64, 80)),
    "two of three": (lambda x, w: F.gelu((x @ w)[:, 80:]) * (x @ w)[:, :40], (16, 64), (64, 120)),
    "with what is read beside them": (lambda x, w, r, s: halves(x @ w) * s + r, (2, 8, 64), (64, 80), (2, 8, 40), (40,)),
    "an epilogue of the whole": (lambda x, w, r: halves(torch.relu(x @ w) + r), (16, 64), (64, 80), (16, 80)),
    "one row": (lambda x, w: halves(F.linear(x, w)), (1, 64), (80, 64)),
    "one row in another shape": (lambda x, w, b: halves(torch.relu(x @ w + b)), (1, 1, 64), (64, 80), (80,)),
    "a vector": (lambda x, w: halves(w @ x), (64,), (80, 64)),
    "one row with what is read beside it": (lambda x, w, r, s: halves(x @ w) * s + r, (1, 1, 64), (64, 80), (1, 1, 40), (40,)),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_of_one_weight(name):
    function, *shapes = CHUNKS[name]
    names = fused(function, *shapes)
    assert len(names) == 1 and names[0].startswith("dual_")


ROWS = {
    "two weights": (lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), (("n", 64), (40, 64), (40, 64))),
    "chunks": (lambda x, w: halves(F.linear(x, w)), (("n", 64), (80, 64))),
    "chunks in two dimensions": (lambda x, w, b, r: halves(F.linear(x, w, b)) + r, (("b", "n", 64), (80, 64), (80,), ("b", "n", 40))),
    "two weights in two dimensions": (lambda x, g, u: F.gelu(x @ g) * (x @ u), (("b", "n", 64), (64, 40), (64, 40))),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ROWS)
def test_rows_that_vary(name):
    torch.manual_seed(0)
    function, shapes = ROWS[name]
    dims = {"b": torch.export.Dim("b", min=1, max=8), "n": torch.export.Dim("n", min=1, max=512)}

    def inputs(b: int, n: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn([{"b": b, "n": n}.get(s, s) for s in shape]).to(torch.bfloat16) for shape in shapes)

    varying = tuple({i: dims[s] for i, s in enumerate(shape) if s in dims} or None for shape in shapes)
    compiled = compile_universal(
        function, inputs(2, 12), torch.device("cpu"), "cpu", lambda k: assign.choose(k, CPU), dynamic_shapes=varying, passes=ALWAYS)
    assert [kernel.startswith("dual_") for kernel in compiled.program.kernels] == [True]
    for sizes in ((2, 12), (1, 1), (3, 65), (8, 7)):
        args = inputs(*sizes)
        verdict = check(compiled, function, args)
        assert verdict.right, f"{sizes}: {verdict}"


def test_chunks_that_stay():
    assert duals(lambda x, w: (x @ w)[:, 1:41] * (x @ w)[:, 40:], (16, 64), (64, 80)) == 0  # not where chunks begin
    assert duals(lambda x, w: (lambda h: halves(h) + h.sum())(x @ w), (16, 64), (64, 80)) == 0  # all of it is read
    assert duals(lambda x, w: (lambda a, b, c: a * b + c)(*(x @ w).chunk(3, -1)), (16, 64), (64, 120)) == 0
    assert duals(lambda x, w: (lambda g, u: torch.softmax(g, 1) * u)(*(x @ w).chunk(2, 0)), (16, 64), (64, 80)) == 0  # rows
    assert duals(lambda x, w: (x @ w)[:, 1:41] * (x @ w)[:, 40:], (1, 64), (64, 80)) == 0


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_fused_and_right(name):
    function, *shapes = FUNCTIONS[name]
    assert sum(kernel.startswith("dual_") for kernel in fused(function, *shapes)) == 1


def test_three_results():
    def parts(x, a, b):
        g, u = x @ a, x @ b
        return F.silu(g) * u, g, u

    names = fused(parts, (16, 64), (64, 40), (64, 40))
    assert len(names) == 1 and names[0].startswith("dual_")


def test_what_stays_apart():
    product = lambda x, a, b: F.silu(x @ a) * (x @ b)  # noqa: E731
    assert duals(product, (16, 64), (64, 40), (64, 40), dtype=torch.float32) == 0
    assert duals(product, (16, 60), (60, 44), (60, 44)) == 0  # lines that the copy engine cannot read
    assert duals(lambda x, y, a: F.silu(x @ a) * (y @ a), (16, 64), (16, 64), (64, 40)) == 0  # the same weight, other rows
    assert duals(lambda x, a: F.silu(x @ a) * (x @ a), (16, 64), (64, 40)) == 0  # one contraction
    assert duals(lambda x, a: F.silu(x @ a) * (x @ a.t()), (16, 64), (64, 64)) == 0  # two layouts
    assert duals(lambda x, a, b: F.silu(x @ a) @ (x @ b).t(), (16, 64), (64, 40), (64, 40)) == 0
    assert duals(lambda x, a, b: F.silu(x @ a).sum(1, keepdim=True) * (x @ b), (16, 64), (64, 40), (64, 40)) == 0
    assert duals(product, (16, 64), (64, 40), (64, 40), passes="fuse-duals{target=sm_80 always=1}") == 0
    assert duals(product, (16, 64), (64, 40), (64, 40), passes="fuse-duals{target=cpu always=1}") == 0


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, k, n, layout, count", [
    (1024, 4096, 11008, "nk", 1), (1024, 4096, 11008, "kn", 1), (16, 8192, 28672, "nk", 1), (128, 1024, 2816, "nk", 1), (7, 520, 1032, "nk", 1),
    (1, 4096, 11008, "nk", 0), (1, 4096, 11008, "kn", 0),
])
def test_the_estimates_decide(m, k, n, layout, count):
    product, shape = (F.linear, (n, k)) if layout == "nk" else (torch.matmul, (k, n))
    assert duals(lambda x, g, u: F.silu(product(x, g)) * product(x, u), (m, k), shape, shape, passes="fuse-duals{target=sm_90a}") == count


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("m, k, n", [(1, 4096, 14336), (1, 896, 4864), (2, 4096, 11008), (16, 4096, 11008)])
def test_chunks_need_no_second_launch(m, k, n):
    assert duals(lambda x, w: halves(F.linear(x, w)), (m, k), (2 * n, k), passes="fuse-duals{target=sm_90a}") == 1
