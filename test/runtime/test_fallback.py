"""What cannot be compiled runs in eager, between the segments that can; with ``fallback=False`` it is an error."""

import pytest
import torch
import torch._inductor.config
import torch.utils.checkpoint
from checks import assert_close_to_float64
from torch import nn

import inferno
from inferno.errors import CaptureError, InputError
from inferno.runtime.region.dynamo import DynamoModule

F = nn.functional


def double(x):
    """Something that compiles, before and after what does not."""
    return torch.relu(x @ x.t()) * 2 + 1


@torch.library.custom_op("inferno_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


@twice.register_fake
def _(x):
    return torch.empty_like(x)


CASES = {
    "random": (lambda x: double(x) + 0 * torch.rand(6, 6), "rand"),
    "complex": (lambda x: torch.view_as_real(torch.view_as_complex(double(x).unflatten(-1, (3, 2))) * 2j).sum(-1) + 1, None),
    "fft": (lambda x: torch.fft.fft(double(x)).abs().sum(-1) * 3 + double(x).sum(-1), "fft"),
    "linalg": (lambda x: torch.linalg.qr(double(x) + torch.eye(6))[0].abs() @ double(x), "qr"),
    "custom op": (lambda x: double(torch.ops.inferno_test.twice(double(x) / 100)), "custom operation"),
    "sparse": (lambda x: torch.sparse.mm(double(x).to_sparse(), double(x)) / 100, None),
    "cond": (lambda x: torch.cond(x.shape[0] > 3, lambda x: double(x), lambda x: x, (x,)), None),
    "data dependent size": (lambda x: double(x)[double(x) > 3].sum(), None),
    "data dependent branch": (lambda x: double(x) * 2 if double(x).sum() > 0 else x, None),
    "unique": (lambda x: torch.unique((double(x) * 4).round()).sum() + double(x).sum(), None),
}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_inferno_compile(name):
    function, reason = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(6, 6)
    compiled = inferno.compile(function, (x,))
    assert_close_to_float64(compiled(x), function, (x,))
    y = torch.randn(6, 6)
    assert_close_to_float64(compiled(y), function, (y,))
    report = str(compiled.explain())
    if reason:
        assert compiled.fallbacks and any(word in report for word in reason.split("|")) and "test_fallback.py" in report
        assert compiled.programs, "nothing at all was compiled"
        with pytest.raises((inferno.UnsupportedOperation, inferno.CaptureError)):
            inferno.compile(function, (x,), fallback=False)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", ["random", "fft", "custom op", "data dependent size", "data dependent branch"])
def test_torch_compile(name):
    function, x = CASES[name][0], torch.randn(6, 6)
    compiled = torch.compile(function, backend="inferno")
    assert_close_to_float64(compiled(x), function, (x,))


def scan(x):
    return torch.ops.higher_order.scan(lambda c, y: (c + y, c * y), [torch.zeros(6)], [double(x)], [])


def loop(x):
    return torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), double(x)))[1]


def test_transforms_of_real_numbers_are_not_products_with_a_table():
    """As one, of n by n numbers, the highest frequency is real but for a rounding error, whose sign says whether its angle is pi or -pi."""
    x = torch.randn(3, 32)
    compiled = inferno.compile(lambda x: (torch.fft.rfft(x * 2).angle() + 1, torch.fft.rfft(x, 20).imag), (x,))
    assert_close_to_float64(compiled(x), lambda x: (torch.fft.rfft(x * 2).angle() + 1, torch.fft.rfft(x, 20).imag), (x,))
    assert [f.target for f in compiled.fallbacks] == ["aten.fft_rfft.default"] * 2


@pytest.mark.parametrize("function,left", [
    (lambda x: torch.stft(x * 2, 16, 4, return_complex=True).abs() + 1, "aten.fft_rfft.default"),
    (lambda x: torch.linalg.det(x[:, :25].unflatten(1, (5, 5)) * 2) + 1, "aten._linalg_det.default"),
    (lambda x: torch.linalg.slogdet(x[:, :25].unflatten(1, (5, 5)) * 2)[1] + 1, "aten.linalg_slogdet.default"),
])
def test_what_the_import_would_not_do_well_is_left_alone(function, left, caplog):
    """And is not tried: nothing is said of a fault of ours."""
    compiled = inferno.compile(function, (x := torch.randn(3, 64),))
    assert_close_to_float64(compiled(x), function, (x,))
    assert [f.target for f in compiled.fallbacks] == [left] and not caplog.records


def test_higher_order_operations():
    x = torch.randn(6, 6)
    expected = double(x)
    for _ in range(3):
        expected = expected * 2
    torch.testing.assert_close(torch.compile(loop, backend="inferno")(x), expected, rtol=1e-5, atol=1e-5)
    from torch._higher_order_ops.map import map as map_rows

    f = lambda x: map_rows(lambda row, y: row * y + 1, double(x), x[0])  # noqa: E731
    torch.testing.assert_close(torch.compile(f, backend="inferno")(x), double(x) * x[0] + 1, rtol=1e-5, atol=1e-5)


def test_random_numbers_are_torchs_own():
    f = lambda x: (torch.rand(4, 4) + x.relu() * 2, torch.randn(3), F.dropout(x, 0.5))  # noqa: E731
    x = torch.ones(4, 4)
    compiled = inferno.compile(f, (x,))
    for seed in (1, 2):
        torch.manual_seed(seed)
        ours = compiled(x)
        torch.manual_seed(seed)
        for o, e in zip(ours, f(x)):
            torch.testing.assert_close(o, e)


def test_compiling_neither_seeds_nor_draws():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    inferno.compile(lambda x: F.dropout(x) + torch.rand(2), (torch.ones(2),))
    assert torch.equal(before, torch.get_rng_state())


def test_regions_are_whole_where_nothing_falls_back():
    compiled = inferno.compile(double, (torch.randn(6, 6),))
    assert not compiled.fallbacks and len(compiled.programs) == 1


def test_an_operation_on_a_path_of_its_own_costs_one_cut():
    def f(x):
        a, b = double(x), torch.fft.fft(x).real
        for _ in range(4):
            a = torch.tanh(a @ x)
        return a + b

    compiled = inferno.compile(f, (torch.randn(6, 6),))
    assert len(compiled.programs) <= 2 and len(compiled.fallbacks) >= 1


def test_aliases_survive_the_cut():
    def f(x):
        y = double(x)
        z = torch.fft.fft(y).real
        return y, y.t(), z[1:], x[:2]

    x = torch.randn(6, 6)
    ours, eagers = inferno.compile(f, (x,))(x), f(x)
    for o, e in zip(ours, eagers):
        torch.testing.assert_close(o, e, check_stride=True)


def test_a_fault_of_the_compiler_is_no_fault_of_the_model(monkeypatch):
    from inferno.errors import CompileError
    from inferno.runtime import compile as module

    def broken(*args, **kwargs):
        raise CompileError("kernel @x for cpu: it broke")

    monkeypatch.setattr(module, "build_program", broken)
    monkeypatch.setattr(module, "build_text", broken)
    x = torch.randn(6, 6)
    compiled = inferno.compile(double, (x,))
    assert torch.equal(compiled(x), double(x)) and "it broke" in compiled.explain().fallbacks[0]
    with pytest.raises(CompileError, match="it broke"):
        inferno.compile(double, (x,), fallback=False)


@pytest.mark.parametrize("breaks", [False, True])
def test_nothing_is_compiled_twice(monkeypatch, breaks):
    """Neither where an operation has no lowering, nor where the compiler fails on a program of which every operation compiles."""
    from inferno.errors import CompileError
    from inferno.runtime import build as module
    from inferno.runtime.region.region import text_without_names

    tried, plain = [], module.build_from

    def build_from(stage, text, *args, **kwargs):
        tried.append(text_without_names(text))
        if breaks and text.count("torch.aten.mm ") == 2:
            raise CompileError("kernel @x for cpu: it broke")
        return plain(stage, text, *args, **kwargs)

    monkeypatch.setattr(module, "build_from", build_from)
    x = torch.randn(6, 6)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)) if breaks else (lambda x: double(torch.fft.fft(double(x)).real))
    compiled = inferno.compile(model, (x,))
    assert len(tried) == len(set(tried)) > 2 and compiled.fallbacks
    assert_close_to_float64(compiled(x), model, (x,))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda v: self.linear(v) + 1, lambda v: v - 1, (x * 2,))
        return torch.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), y))[1]


def test_branches_on_data_stay_in_one_graph():
    model, x = Branches().eval(), torch.ones(4, 6)
    fast = inferno.compile(model, (x,))
    for given in (x, -x):
        assert torch.allclose(fast(given), model(given))
    assert fast.fallbacks and not isinstance(fast, DynamoModule)


class Graph(nn.Module):
    """A layer on a graph whose edges are a sparse matrix."""

    def __init__(self, edges):
        super().__init__()
        self.register_buffer("edges", edges)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(torch.sparse.mm(self.edges, self.linear(x))) * 2


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_inputs_and_buffers(layout):
    torch._dynamo.reset()
    dense, x = torch.randn(6, 6).relu(), torch.randn(6, 4)
    edges = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()

    def f(edges, x):
        return torch.relu(torch.sparse.mm(edges, x) + 1) * 2

    model = Graph(edges)
    with torch.no_grad():
        fast, module = inferno.compile(f, (edges, x), target="cpu"), inferno.compile(model, (x,), target="cpu")
        assert "a sparse_" in str(fast.explain()) and fast.explain(edges, x).call > 0
        torch.testing.assert_close(fast(edges, x), torch.relu(dense @ x + 1) * 2)
        torch.testing.assert_close(module(x), torch.relu(dense @ model.linear(x)) * 2)
    with pytest.raises(CaptureError, match=rf"argument edges is a sparse_{layout} tensor.*to_dense"):
        inferno.compile(f, (edges, x), target="cpu", fallback=False)
    with pytest.raises(CaptureError, match=rf"edges is a sparse_{layout} tensor"):
        inferno.compile(model, (x,), target="cpu", fallback=False)


def test_sparse_results():
    x = torch.randn(5, 6)
    for function in (lambda x: x.relu().to_sparse(), lambda x: x.relu().to_sparse_csr()):
        fast = inferno.compile(lambda x: (function(x), function(x * 2), x + 1), (x,), target="cpu")  # noqa: B023
        for ours, eager in zip(fast(x), (function(x), function(x * 2), x + 1), strict=True):
            assert ours.layout is eager.layout
            torch.testing.assert_close(ours.to_dense(), eager.to_dense())


def test_nested_inputs():
    torch._dynamo.reset()
    rows = [torch.randn(2, 4), torch.randn(3, 4)]
    x = torch.nested.nested_tensor(rows, layout=torch.jagged)
    fast = inferno.compile(lambda x: (x * 2).sin(), (x,), target="cpu")
    torch.testing.assert_close(fast(x).values(), (torch.cat(rows) * 2).sin())


class Recurrent(nn.Module):
    """Not one graph: the loss of CTC looks at its lengths."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x, y):
        hidden, _ = self.layer(x)
        return F.ctc_loss(self.head(hidden).log_softmax(-1).transpose(0, 1), y, torch.full((3,), 5), torch.full((3,), 2))


@pytest.mark.thorough
def test_a_recurrent_layer_that_is_not_in_one_graph():
    """It compiles where no gradient is asked for; with gradients it runs as Dynamo has it, in Python."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x, y = Recurrent(), torch.randn(3, 5, 6), torch.randint(1, 5, (3, 2))
    fast = inferno.compile(model, (x, y), target="cpu")
    assert isinstance(fast, DynamoModule)
    with torch.no_grad():
        torch.testing.assert_close(fast(x, y), model(x, y))
        assert sum(len(p.kernels) for p in fast.programs) > 3
        for parameter in model.parameters():
            parameter.mul_(1.5)
        torch.testing.assert_close(fast(x, y), model(x, y))
    (mine,), (theirs,) = (torch.autograd.grad(f(x, y), [model.layer.weight_hh_l0]) for f in (fast, model))
    torch.testing.assert_close(mine, theirs)


class Potential(nn.Module):
    """An energy of distances, and the forces, which are its gradient."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, places, pairs):
        with torch.enable_grad():
            places = places.detach().requires_grad_()
            distances = (places[pairs[0]] - places[pairs[1]]).norm(dim=-1, keepdim=True)
            energy = self.layers(torch.exp(-((distances - torch.linspace(0, 3, 6)) ** 2))).sum()
            return energy, -torch.autograd.grad(energy, places, create_graph=True)[0]


@pytest.mark.thorough
def test_gradients_that_a_model_takes_itself():
    torch._dynamo.reset()
    model, places, pairs = Potential(), torch.randn(5, 3), torch.combinations(torch.arange(5)).T.contiguous()
    fast = inferno.compile(model, (places, pairs), target="cpu")
    assert isinstance(fast, DynamoModule)
    before = torch._dynamo.config.trace_autograd_ops
    for ours, eager in zip(fast(places, pairs), model(places, pairs)):
        torch.testing.assert_close(ours, eager)
    assert len(fast.programs) == 1 and not fast.fallbacks  # energy and forces are one graph
    (mine,), (theirs,) = (torch.autograd.grad((f(places, pairs)[1] ** 2).sum(), [model.layers[0].weight]) for f in (fast, model))
    torch.testing.assert_close(mine, theirs)
    assert torch._dynamo.config.trace_autograd_ops == before


def test_what_a_checkpoint_draws():
    """A checkpoint's random operations return tuples in tuples: the generator's state, and what they made."""
    torch._dynamo.reset()

    def f(x):
        return torch.utils.checkpoint.checkpoint(lambda x: F.dropout(x.sin(), 0.5) * x, double(x), use_reentrant=False)

    found = []
    for g in (torch.compile(f, backend="inferno"), f):
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 36).reshape(6, 6).requires_grad_()
        with torch._inductor.config.patch(fallback_random=True):
            y = g(x)
            y.sum().backward()
        found.append((y.detach(), x.grad))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_what_the_example_had_on_the_cpu_stays_there():
    """A mask on the CPU for a tensor on a GPU; here the model is said to be somewhere else."""
    mask, x = torch.tensor([True, False, True]), torch.randn(3, 3)
    made = inferno.compile(lambda x, mask: torch.where(mask, torch.fft.fft(x).real * 2, x), (x, mask))
    made.device = torch.device("meta")
    assert made._adapt(1, mask).data_ptr() == mask.data_ptr()
    for wrong in (mask[:2], mask.int()):
        with pytest.raises(InputError, match="argument mask: expected"):
            made._adapt(1, wrong)
