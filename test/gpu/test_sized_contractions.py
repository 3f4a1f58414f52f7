"""Contractions whose sizes vary, on a GPU: by tensor cores, compiled once, right for every size against float64."""

import copy

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from torch.export import Dim

import inferno

from inferno.runtime.check.comparison import compare

F = torch.nn.functional

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("exact_float32"),
]

SIZES = [(700,), (1,), (2,), (8,), (9,), (31,), (33,), (64,), (65,), (127,), (128,), (129,), (500,), (777,), (1024,), (2049,), (5000,)]
FEW = [(2, 300), (1, 1), (1, 9), (3, 8), (2, 33), (5, 64), (1, 129), (4, 512), (33, 2), (1, 1000)]
GENERATOR = {torch.float32: "bf16x6", torch.bfloat16: "wgmma", torch.float16: "wgmma"}


def halves(h):
    g, u = h.chunk(2, -1)
    return F.silu(g) * u


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(2, 3) / 8, -1) @ v


# The function, its inputs' shapes with letters for sizes that vary, and the sizes.
CASES = {
    "rows": (lambda x, w, b: F.gelu(F.linear(x, w, b)), (("n", 512), (768, 512), (768,)), SIZES),
    "rows, residual": (lambda x, w, r: r + F.silu(x @ w), (("n", 768), (768, 640), ("n", 640)), SIZES),
    "rows, an odd depth": (lambda x, w: torch.relu(x @ w), (("n", 333), (333, 502)), SIZES),
    "rows, few terms": (lambda x, w: torch.relu(x @ w), (("n", 20), (20, 1024)), SIZES),
    "rows, many terms": (lambda x, w: F.linear(x, w), (("n", 4096), (512, 4096)), SIZES),
    "rows, transposed": (lambda x, w: torch.relu(x.t() @ w), ((512, "n"), (512, 768)), SIZES),
    "columns": (lambda x, w: torch.relu(w @ x.t()), (("n", 512), (640, 512)), SIZES),
    "columns, transposed": (lambda x, w: torch.relu(w @ x), ((512, "n"), (640, 512)), SIZES),
    "terms": (lambda x, y: torch.relu(x.t() @ y) * 2, (("n", 640), ("n", 768)), SIZES),
    "terms, innermost": (lambda x, y: torch.relu(x @ y.t()) + 1, ((640, "n"), (768, "n")), SIZES),
    "terms, of a table": (lambda x, y: torch.relu(x @ y), ((640, "n"), ("n", 500)), SIZES),
    "terms of few results": (lambda x, y: torch.relu(x.t() @ y) * 2, (("n", 128), ("n", 96)), SIZES),
    "terms, divided by their number": (lambda x, y: x.t() @ y / x.shape[0], (("n", 640), ("n", 768)), SIZES),
    "a batch of terms, divided by their number": (lambda x: x.transpose(1, 2) @ x / x.shape[1], (("b", "n", 192),), FEW),
    "all": (lambda x, y: torch.relu(x @ y), (("n", "n"), ("n", "n")), SIZES[:-1]),
    "a scaled rhs": (lambda x, w, s: x @ (w * s), (("n", 512), (512, 768), (512, 1)), SIZES),
    "a scaled rhs of terms": (lambda x, w, s: x.t() @ (w * s), (("n", 512), ("n", 768), ("n", 1)), SIZES),
    "a scaled lhs": (lambda x, w, s: (x * s) @ w, (("n", 512), (512, 768), ("n", 1)), SIZES),
    "two results": (lambda x, w: (torch.relu(x @ w), x @ w), (("n", 512), (512, 768)), SIZES),
    "a swiglu": (lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), (("n", 512), (1032, 512), (1032, 512)), SIZES),
    "a geglu": (lambda x, g, u: F.gelu(x @ g) * (x @ u), (("n", 264), (264, 520), (264, 520)), SIZES),
    "chunks of one weight": (lambda x, w: halves(F.linear(x, w)), (("n", 512), (1040, 512)), SIZES),
    "chunks, in two dimensions": (lambda x, w, b: halves(F.linear(x, w, b)), (("b", "n", 264), (1040, 264), (1040,)), FEW),
    "queries, keys, values": (lambda x, q, k, v: (F.linear(x, q), F.linear(x, k), F.linear(x, v)), (("n", 512), (768, 512), (256, 512), (256, 512)), SIZES),
    "projections, transposed": (lambda x, q, k, b: (x @ q, F.gelu(x @ k + b)), (("n", 264), (264, 520), (264, 264), (264,)), SIZES),
    "projections in two dimensions": (lambda x, q, k: (F.linear(x, q), F.linear(x, k)), (("b", "n", 264), (520, 264), (264, 264)), FEW),
    "batched": (torch.matmul, (("b", "n", 192), ("b", 192, 320)), FEW),
    "a batch of sums": (lambda x, y: x.transpose(1, 2) @ y, (("b", "n", 192), ("b", "n", 320)), FEW),
    "attention": (attention, (("b", 4, "n", 64),) * 3, FEW),
}


def compiled(name, dtype, high=8192):
    function, shapes, sizes = CASES[name]
    names = sorted({s for shape in shapes for s in shape if isinstance(s, str)})
    dims = {n: Dim(n, min=1, max=64 if n == "b" else high) for n in names}
    dynamic_shapes = tuple({i: dims[s] for i, s in enumerate(shape) if s in dims} for shape in shapes)

    def inputs(*values):
        at = dict(zip(names, values))
        return tuple(torch.randn([at.get(s, s) for s in shape], device="cuda", dtype=dtype) for shape in shapes)

    made = inferno.compile(function, inputs(*sizes[0]), dynamic_shapes=dynamic_shapes, fallback=False)
    assert not any(row.note for row in made.explain().rows)
    return made, function, inputs, sizes


@pytest.mark.parametrize("dtype", GENERATOR, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right_for_every_size(name, dtype):
    torch.manual_seed(0)
    made, function, inputs, sizes = compiled(name, dtype, 2048 if name == "attention" else 8192)
    generators = {g for row in made.explain().rows for g in row.generator.split(" or ")}
    assert generators & {GENERATOR[dtype], "dual", "siblings", "attention"} or name == "rows, few terms"
    for each in [*sizes, sizes[0]]:
        poison_memory()
        found = check(made, function, inputs(*each))
        assert found.right, f"{each}: {found}"


NOT_FINITE = ["rows, residual", "terms", "terms, of a table", "columns, transposed"]


def assert_not_finite_where_eager_is(ours, eager, what) -> None:
    assert torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf()), what
    assert torch.equal(ours[ours.isinf()], eager[eager.isinf()]), what


@pytest.mark.parametrize("name", NOT_FINITE)
def test_numbers_that_are_not_finite(name):
    """In any order of additions: 1e30 times a usual number is far from overflowing, times 1e30 it is infinite by itself."""
    torch.manual_seed(0)
    made, function, inputs, _ = compiled(name, torch.float32)
    for n in (700, 1, 40, 129, 1500):
        given = inputs(n)
        for tensor in given[:2]:
            for i, value in enumerate([float("inf"), -float("inf"), float("nan"), 1e30, 1e-45]):
                tensor[(37 * i + 1) % tensor.shape[0], (53 * i + 2) % tensor.shape[1]] = value
        assert_not_finite_where_eager_is(made(*given), function(*given), n)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", NOT_FINITE)
def test_a_number_whose_products_overflow(name, side):
    """Alone in its sums: of two products near the largest number the order of additions says whether their sum is finite."""
    torch.manual_seed(0)
    made, function, inputs, _ = compiled(name, torch.float32)
    for n in (700, 1, 40, 129, 1500):
        given = inputs(n)
        given[side][given[side].shape[0] // 2, given[side].shape[1] // 3] = 3.4e38
        assert_not_finite_where_eager_is(made(*given), function(*given), n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["rows", "terms", "attention"])
def test_the_interpreter_launches_the_same(name, dtype, tmp_path):
    """A package is run without a compiler: the same kernels for the same sizes."""
    torch.manual_seed(0)
    made, _, inputs, sizes = compiled(name, dtype, 2048)
    made.save(tmp_path / "model.inferno")
    loaded = inferno.load(tmp_path / "model.inferno")
    for each in sizes[:8]:
        given = inputs(*each)
        assert torch.equal(made(*given), loaded(*given)), each


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_captured_in_a_graph_at_every_size(dtype):
    torch.manual_seed(0)
    made, _, inputs, sizes = compiled("rows", dtype)
    for each in sizes[:6]:
        given = inputs(*each)
        expected = made(*given)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = made(*given)
        graph.replay()
        assert torch.equal(result, expected)


@pytest.mark.parametrize("sizes", [(300, 33, 64, 1000), (2500,)])
def test_gradients_of_batches_of_any_size(sizes):
    """A weight's gradient is a sum over the batch: of any length."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 768), torch.nn.GELU(), torch.nn.Linear(768, 256)).cuda()
    fast = torch.compile(model, backend="inferno", dynamic=True)
    exact = copy.deepcopy(model).double()
    inferno.stats(reset=True)
    for n in sizes:
        x = torch.randn(n, 512, device="cuda")
        ours, eager, true = (gradients(f, x.to(d)) for f, d in ((fast, torch.float32), (model, torch.float32), (exact, torch.float64)))
        found = compare(ours, eager, true)
        assert found.right, f"{n}: {found}"
    assert inferno.stats().recompiles == 0 and inferno.stats().fallbacks == 0


def gradients(model, x) -> list[torch.Tensor]:
    model.zero_grad()
    model(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(("name", "generator"), [("a swiglu", "dual"), ("chunks of one weight", "dual"), ("queries, keys, values", "siblings")])
def test_one_kernel_for_any_number_of_rows(name, generator):
    made, _, _, _ = compiled(name, torch.bfloat16)
    assert [row.generator for row in made.explain().rows] == [generator]
