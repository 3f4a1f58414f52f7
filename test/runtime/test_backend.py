"""``torch.compile(backend="inferno")``: inference, training, graph breaks, options, and what it reports."""

import copy
import logging

import pytest
import torch
from checks import assert_close_to_float64
from models import Block, Convolutions
from torch import nn

import inferno
from inferno.capture.specialise import varies
from inferno.errors import CompileError, UnsupportedOperation
from inferno.runtime.check.comparison import compare_leaf
from inferno.runtime.region import backend

F = nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()
    inferno.stats(reset=True)


def compiled(function, **options):
    return torch.compile(function, backend="inferno", **options)


def test_inference_is_right_and_whole():
    block, x = Block().eval(), torch.randn(3, 7, 16)
    fast = compiled(block, fullgraph=True, options={"fallback": False})
    with torch.no_grad():
        assert_close_to_float64(fast(x), block, (x,))
    with torch.inference_mode():
        assert_close_to_float64(fast(x), block, (x,))
    assert inferno.stats().fallbacks == 0 and inferno.stats().graphs >= 1


class Padded(nn.TransformerEncoderLayer):
    """With torch's own attention module, of which the first image's last places are padding."""

    def __init__(self):
        super().__init__(16, 4, 32, dropout=0.0, batch_first=True)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return super().forward(x, src_key_padding_mask=places >= torch.tensor([[4], [9], [9]], device=x.device))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("build, shape", [(Block, (3, 7, 16)), (Convolutions, (5, 3, 12, 12)), (Padded, (3, 7, 16))])
def test_training_forward_and_backward(build, shape):
    eager = build().train()
    mine, double = copy.deepcopy(eager), copy.deepcopy(eager).double()
    x = torch.randn(shape)
    fast = compiled(mine, fullgraph=True, options={"fallback": False})
    results = []
    for module, call in ((eager, eager), (mine, fast), (double, double)):
        given = x.detach().clone().to(next(module.parameters()).dtype).requires_grad_()
        out = call(given)
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)).sum().backward()
        results.append([out.detach(), given.grad, *(p.grad for p in module.parameters()), *module.buffers()])
    for values in zip(*results):
        eagers, ours, exact = (t.double() for t in values)
        # A bias in front of a batch norm has a gradient of 0: there only the size of its noise can be compared.
        bound = max(1.5 * (eagers - exact).norm(), torch.finfo(torch.float32).eps * exact.norm(), 1e-7)
        assert (ours - exact).norm() <= bound
    assert inferno.stats().graphs == 2 and inferno.stats().fallbacks == 0


LABELS = torch.tensor([[0, 3, -1, -1], [1, 2, 3, 0], [-1, 0, 0, 0]])


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function, shape", [
    (lambda x: F.multilabel_margin_loss(x, LABELS), (3, 4)), (lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), (1, 2, 4, 4)),
    (lambda x: F.interpolate(x, size=7, mode="linear", align_corners=True), (1, 2, 4)),
])
def test_what_autograd_takes_apart_before_us(function, shape):
    x = torch.randn(shape)
    results = []
    for call, dtype in ((compiled(function), x.dtype), (function, x.dtype), (function, torch.float64)):
        given = x.detach().clone().to(dtype).requires_grad_()
        out = call(given)
        out.sum().backward()
        results.append((out.detach(), given.grad))
    for ours, eager, exact in zip(*results):
        assert compare_leaf("result", ours, eager, exact).right


def test_training_steps_follow_eager():
    eager = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 5))
    losses = []
    for module in (copy.deepcopy(eager), copy.deepcopy(eager).double(), copy.deepcopy(eager)):
        call = compiled(module) if len(losses) == 2 else module
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        generator, lost = torch.Generator().manual_seed(1), []
        for _ in range(20):
            x = torch.randn(16, 12, generator=generator).to(next(module.parameters()).dtype)
            y = torch.randint(5, (16,), generator=generator)
            loss = F.cross_entropy(call(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            lost.append(loss.item())
        losses.append(torch.tensor(lost, dtype=torch.float64))
    eagers, double, ours = losses
    assert (ours - double).abs().max() <= 2 * (eagers - double).abs().max() + 1e-6
    assert double[-1] < double[0]


def test_graph_breaks_and_explain():
    def f(x):
        y = x * 2 + 1
        if y.sum() > 0:
            y = torch.relu(y) + 3
        return torch.sigmoid(y).cumsum(0)

    fast, x = compiled(f), torch.rand(6, 5)
    assert_close_to_float64(fast(x), f, (x,))
    assert_close_to_float64(fast(-9 * x), f, (-9 * x,))
    report = inferno.explain(fast)
    assert len(report.notes) == 3 and not report.fallbacks and any("sigmoid" in s for r in report.rows for s in r.fuses)


def test_explain_needs_something_compiled():
    with pytest.raises(inferno.InputError, match="compiled nothing"):
        inferno.explain(torch.compile(lambda x: x + 1, backend="inferno"))
    module = compiled(nn.Linear(3, 2))
    module(torch.randn(4, 3)).sum().backward()
    notes = inferno.explain(module).notes
    assert len(notes) == 2 and "forward" in notes[0] and "backward" in notes[1]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("f", [
    lambda x, y: (torch.softmax(x @ y, -1), x.shape[0] * 2),
    lambda x, y: ((x.t() * y + 1).flatten().view(y.shape[1], -1).sum(-1), x.shape[0] * 2),
    lambda x, y: (torch.cat([x, y.t()], 1)[1:].relu(), x.shape[0] * 2),
])
def test_one_compile_serves_every_size(f):
    fast = compiled(f, dynamic=True)
    for n in (3, 9, 17, 4):
        x, y = torch.randn(n, 6), torch.randn(6, n)
        out, twice = fast(x, y)
        assert twice == 2 * n
        assert_close_to_float64(out, lambda x, y: f(x, y)[0], (x, y))
    assert inferno.stats().graphs == 1 and inferno.stats().recompiles == 0 and inferno.stats().fallbacks == 0


class Mixed(nn.Module):
    """Sums and products along the size that varies."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        y = self.linear(self.norm(x))
        return x + torch.softmax(y @ y.mT, -1) @ y


@pytest.mark.thorough
def test_sizes_that_vary_in_training():
    block = Mixed()
    fast, double = compiled(block, dynamic=True), copy.deepcopy(block).double()
    for n in (3, 8, 5):
        x = torch.randn(2, n, 16)
        for p, module, call in ((x, block, fast), (x.double(), double, double)):
            module.zero_grad()
            call(p).square().sum().backward()
        for ours, exact in zip(block.parameters(), double.parameters()):
            assert (ours.grad.double() - exact.grad).norm() <= 2e-6 * exact.grad.norm() + 1e-6


def test_an_images_rows_in_training():
    """Two sizes that are one symbol: torch divides its square by it, and bounds that by 1 in the strides."""
    fast = compiled(lambda x, w: torch.nn.functional.linear(torch.relu(x), w), dynamic=True)
    for n in (3, 7):
        x, w = torch.randn(2, n, n, 16, requires_grad=True), torch.randn(8, 16, requires_grad=True)
        ours = torch.autograd.grad(fast(x, w).square().sum(), (x, w))
        exact = torch.autograd.grad(torch.nn.functional.linear(torch.relu(x.double()), w.double()).square().sum(), (x, w))
        for a, b in zip(ours, exact):
            assert (a.double() - b).norm() <= 2e-6 * b.norm()


@pytest.mark.thorough
def test_a_padding_to_whole_windows_in_training():
    """What its gradient cuts off is a number that is not positive."""
    def f(x):
        y = torch.nn.functional.pad(x.exp(), (0, 0, 0, -x.shape[1] % 14))
        return y.view(2, -1, 14, 6).transpose(1, 2).flatten(0, 1).contiguous()

    fast = compiled(f, dynamic=True)
    for n in (30, 47, 28, 25):
        x = torch.randn(2, n, 6, requires_grad=True)
        (ours,) = torch.autograd.grad(fast(x).square().sum(), x)
        (exact,) = torch.autograd.grad(f(x.double()).square().sum(), x)
        assert (ours.double() - exact).norm() <= 2e-6 * exact.norm()


def test_sizes_vary_around_what_falls_back():
    def f(x):
        y = torch.relu(x @ x.t()) + 1
        return torch.fft.fft(y).real.sum(-1) * 2 + x.sum(-1)

    fast = compiled(f, dynamic=True)
    for n in (4, 7, 3):
        x = torch.randn(n, 5)
        assert_close_to_float64(fast(x), f, (x,))
    assert inferno.stats().recompiles == 0


def test_rows_that_are_flattened_around_what_falls_back():
    """An operation on these alone, and a piece of such, know the number of rows and not the sizes that it is the product of."""
    def f(x, y, w):
        rows = torch.relu(x.flatten(0, 1) @ w) + 1
        return torch.fft.fft(rows).real * 2 + y.flatten(0, 1).exp()

    fast = compiled(f, dynamic=True)
    for a, b in ((2, 4), (3, 5), (7, 2)):
        x, y, w = torch.randn(a, b, 6), torch.randn(a, b, 6), torch.randn(6, 6)
        assert_close_to_float64(fast(x, y, w), f, (x, y, w))
    assert inferno.stats().recompiles == 0 and inferno.stats().segments > 1


@pytest.mark.covering
@pytest.mark.parametrize("f", [
    lambda x: x.transpose(1, 2).reshape(x.shape[0] * x.shape[2], x.shape[1], x.shape[3]),
    lambda x: x.transpose(0, 1).flatten(2).unflatten(2, (x.shape[3], -1)),
    lambda x: x.transpose(0, 1).reshape(-1, x.shape[3]),
    lambda x: x.reshape(x.shape[0], x.shape[1], -1, 2),
], ids=["two of a transposed", "back", "rows", "copied where it is not dense"])
@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 2, 3), (0, 2, 1, 3)])
def test_what_is_a_view_of_an_input_is_one_for_every_size(f, order):
    """AOTAutograd gives such a result of the input itself, with the steps of what the graph returns."""
    fast = compiled(f, dynamic=True)
    for sizes in ((5, 3, 4, 6), (7, 2, 6, 4)):
        x = torch.randn([sizes[d] for d in order]).permute(sorted(range(4), key=order.__getitem__))
        ours, eager = fast(x), f(x)
        assert torch.equal(ours, eager) and ours.stride() == eager.stride() and (ours.data_ptr() == x.data_ptr()) == (eager.data_ptr() == x.data_ptr())
    assert inferno.stats().recompiles == 0


def test_a_graph_for_each_size_says_why(monkeypatch, caplog):
    """Where nothing compiles for every size; beyond a number of sizes it runs in eager, which is said too."""
    build = backend.build_region

    def for_numbers(graph, *args, **kwargs):
        if any(isinstance(n.meta["val"], torch.SymInt) for n in graph.nodes if n.op == "placeholder"):
            raise UnsupportedOperation("sizes that\nvary")
        return build(graph, *args, **kwargs)

    monkeypatch.setattr(backend, "build_region", for_numbers)
    monkeypatch.setattr(backend, "_MOST_SIZES", 2)
    f = lambda x: torch.tanh(x @ x.t())  # noqa: E731
    fast = compiled(f, dynamic=True)
    with caplog.at_level("INFO", logger="inferno"):
        for n in (3, 5, 7, 3, 9):
            x = torch.randn(n, 4)
            assert_close_to_float64(fast(x), f, (x,))
    report = inferno.explain(fast)
    assert "2 graphs compiled for one size, not for every one: sizes that vary" in report.notes
    (eager,) = report.fallbacks
    assert "met more than 2 different sizes" in eager and eager in caplog.messages and len([m for m in caplog.messages if "not for every size" in m]) == 1
    found = inferno.stats()
    assert (found.graphs, found.recompiles, found.fallbacks) == (3, 1, 1)
    strict = compiled(f, dynamic=True, options={"fallback": False})
    strict(torch.randn(3, 4)), strict(torch.randn(5, 4))
    with pytest.raises(UnsupportedOperation, match="(?s)met more than 2 different sizes.*sizes that.vary.*fallback=True runs further sizes in eager"):
        strict(torch.randn(7, 4))


def test_autocast():
    block, x = Block().eval(), torch.randn(2, 5, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        ours, eagers = compiled(block)(x), block(x)
    with torch.no_grad():
        exact = copy.deepcopy(block).double()(x.double())
    assert ours.dtype == eagers.dtype
    assert (ours.double() - exact).norm() <= max(1.5 * (eagers.double() - exact).norm(), torch.finfo(torch.bfloat16).eps * exact.norm())


def test_strides_aliases_and_mutations():
    def f(x, cache):
        cache[:, 1] = x[:, 0] * 2
        y = x.t() + 1
        return y, y[1:], x[:, :2], cache.sum(0)

    x = torch.randn(4, 6)
    a, b = torch.zeros(4, 3), torch.zeros(4, 3)
    ours, eagers = compiled(f)(x, a), f(x, b)
    assert torch.equal(a, b)
    for o, e in zip(ours, eagers):
        torch.testing.assert_close(o, e, check_stride=True)
    assert ours[1].untyped_storage().data_ptr() == ours[0].untyped_storage().data_ptr()
    assert ours[2].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_channels_last_stays_channels_last():
    module = Convolutions().eval()
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    fast = compiled(lambda x: torch.relu(module.layers[0](x)))
    with torch.no_grad():
        ours, eagers = fast(x), torch.relu(module.layers[0](x))
    assert ours.stride() == eagers.stride()
    torch.testing.assert_close(ours, eagers)


def test_weights_that_change_are_seen():
    module, x = nn.Linear(4, 3), torch.randn(2, 4)
    fast = compiled(module)
    with torch.no_grad():
        fast(x)
        module.weight.mul_(3)
        torch.testing.assert_close(fast(x), F.linear(x, module.weight, module.bias))


def test_integer_and_none_outputs_of_the_backward():
    def f(x, i, scale):
        return x[i] * scale, i + 1

    x, i, scale = torch.randn(5, 3, requires_grad=True), torch.tensor([0, 2]), torch.randn(3)
    out, j = compiled(f)(x, i, scale)
    out.sum().backward()
    expected = torch.zeros(5, 3)
    expected[i] = scale
    torch.testing.assert_close(x.grad, expected)
    assert torch.equal(j, i + 1)


def test_unknown_options_and_modes():
    with pytest.raises(Exception, match="unknown option 'fast'; the options are target, fallback"):
        compiled(lambda x: x + 1, options={"fast": True})(torch.ones(2))
    with pytest.raises(Exception, match="mode: expected one of default, reduce-overhead"):
        compiled(lambda x: x + 1, mode="quick")(torch.ones(2))
    assert torch.equal(compiled(lambda x: x + 1, mode="max-autotune")(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model", [
    lambda x: x.mT @ x, lambda x: torch.softmax(x, -1), lambda x: torch.cat([x, x]).sum(1), lambda x: x.flatten().sum(), lambda x: F.pad(x, (1, 1)),
], ids=["product", "softmax", "sums", "sum", "padding"])
def test_no_elements_beside_sizes_that_vary(model):
    for shape in ((0, 13, 0), (3, 13, 0), (0, 13, 5)):
        torch._dynamo.reset()
        x = torch.randn(shape)
        ours = torch.compile(model, backend="inferno", dynamic=True)(x)
        assert torch.equal(ours, model(x))


def test_inputs_that_share_memory_in_two_types():
    """AOTAutograd has no graph of a write to one of them."""
    def f(x, y):
        x.mul_(2)
        return y + 1, x.sum()

    for fallback in (True, False):
        torch._dynamo.reset()
        x = torch.randn(3, 4)
        mine, theirs = x.clone(), x.clone()
        fast = torch.compile(f, backend="inferno", options={"fallback": fallback})
        if not fallback:
            with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="UnsupportedOperation.*input mutations on views with different dtypes"):
                fast(mine, mine.view(torch.int32))
            continue
        torch.testing.assert_close(fast(mine, mine.view(torch.int32)), f(theirs, theirs.view(torch.int32)))
        assert torch.equal(mine, theirs)


def test_gradients_of_powers_by_a_size_that_varies():
    """AOTAutograd cannot trace them: torch compares the exponent with 0, which is a symbol."""
    torch._dynamo.reset()
    model = lambda x: (x ** x.shape[0]).sum()  # noqa: E731
    compiled = torch.compile(model, backend="inferno")
    for rows in (3, 5, 2):
        x = torch.randn(rows, 4, dtype=torch.float64, requires_grad=True)
        found, expected = (torch.autograd.grad(call(x), x)[0] for call in (compiled, model))
        torch.testing.assert_close(found, expected)
    assert "NYI SymInt equality, and all of its graph runs beside it" in str(inferno.explain(compiled))



@pytest.mark.covering(most=1)
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.l1_loss], ids=lambda f: f.__name__)
def test_gradients_of_no_elements(loss):
    x = torch.randn(0, 4, requires_grad=True)
    (ours,) = torch.autograd.grad(torch.compile(lambda x: loss(x, x.detach() * 2), backend="inferno")(x), x)
    assert ours.shape == x.shape


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dropout", [
    lambda x: F.dropout(x, 0.5, training=False), lambda x: F.dropout(x, 0.0), nn.Dropout2d(0.3).eval(), lambda x: torch.dropout(x, 0.2, False),
    lambda x: F.alpha_dropout(x, 0.2), nn.FeatureAlphaDropout(0.4).eval(), nn.Dropout(0.0),
], ids=range(7))
def test_dropout_that_drops_nothing_is_its_argument(dropout):
    """What is written to it is written to the argument."""
    model = lambda x: dropout(x).add_(1)  # noqa: E731
    for compile_ in (compiled, lambda f: inferno.compile(f, (torch.ones(2, 3, 4, 5),), target="cpu")):
        x = torch.zeros(2, 3, 4, 5)
        y = compile_(model)(x)
        assert torch.equal(x, torch.ones_like(x)) and y.data_ptr() == x.data_ptr()


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("model", [lambda x: (x * 2).unfold(1, 3, 1), lambda x: (x * 2).expand(3, 4, 5), lambda x: (x * 2).as_strided((4, 3, 3), (5, 1, 1))])
def test_gradients_of_outputs_that_overlap(model):
    """Each element of an output has a gradient of its own, also where several of them are one in memory."""
    x = torch.randn(4, 5, requires_grad=True)
    given = torch.randn(model(x).shape)
    ours, eager = (torch.autograd.grad(f(x), x, given)[0] for f in (torch.compile(model, backend="inferno"), model))
    torch.testing.assert_close(ours, eager)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_the_gradient_of_a_resized_image_is_one_operation(mode):
    """Which is taken apart as a whole: by autograd it would be several scatters of the whole result."""
    f = lambda x: nn.functional.interpolate(x, scale_factor=2, mode=mode) * 2  # noqa: E731
    x = torch.randn(2, 3, 6, 5, requires_grad=True)
    compiled = torch.compile(f, backend="inferno")
    weights = torch.randn(2, 3, 12, 10)
    mine, theirs = (torch.autograd.grad((g(x) * weights).sum(), x)[0] for g in (compiled, f))
    torch.testing.assert_close(mine, theirs)
    assert not inferno.explain(compiled).fallbacks


@pytest.mark.parametrize("error, level", [(CompileError("kernel @k: no grid"), logging.WARNING), (UnsupportedOperation("aten.x is not known"), logging.INFO)])
def test_what_is_not_for_every_size_says_why(error, level, monkeypatch, caplog):
    """A fault of the compiler's is a warning: something slower stands in for it, and the result is right."""
    whole = backend.compile_graph

    def fails(graph, options, regions, kind, one_size="", late=False):
        if varies(graph):
            raise error
        return whole(graph, options, regions, kind, one_size, late)

    monkeypatch.setattr(backend, "compile_graph", fails)
    compiled = torch.compile(lambda x: torch.relu(x) * 2, backend="inferno", dynamic=True)
    x = torch.randn(3, 5)
    with caplog.at_level(logging.INFO, logger="inferno"):
        torch.testing.assert_close(compiled(x), torch.relu(x) * 2)
    said = [r for r in caplog.records if "not for every size" in r.message]
    assert [(r.levelno, str(error) in r.message) for r in said] == [(level, True)]


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [
    lambda x: (x * 100).logsumexp(-1), lambda x: torch.logsumexp(input=x * 30, dim=(0, 1), keepdim=True), lambda x: torch.special.logsumexp(x * 100, 0),
])
def test_gradients_of_logsumexp_in_16_bits(function, dtype):
    """They do not read a result that is rounded where what it is subtracted from is not."""
    x, gradients = torch.randn(8, 13).to(dtype), []
    for call, given in ((compiled(function), x.clone()), (function, x.clone()), (function, x.double())):
        out = call(given.requires_grad_())
        (out * torch.linspace(-1, 1.3, out.numel(), dtype=out.dtype).view(out.shape)).sum().backward()
        gradients.append(given.grad)
    found = compare_leaf("gradient", *gradients)
    assert found.right, str(found)
