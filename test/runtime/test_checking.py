"""``check=True``: a wrong result is found at the first call, with the kernel that it comes from; a right one passes without a trace."""

import dataclasses

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._pytree import tree_leaves

import inferno
from inferno.runtime.check.checking import check_call, check_first_call, check_kernels
from inferno.runtime.check.comparison import compare_leaf
from inferno.runtime.check.isolation import run_isolated
from inferno.runtime.check.perturbation import run_perturbed
from inferno.runtime.module import CompiledModule
from inferno.tools.check import reference


class Counted(nn.Module):
    """Several kernels, a buffer that every call writes to, and outputs of two types."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(32, 48), nn.LayerNorm(48)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        y = torch.softmax(self.norm(self.linear(x)), -1)
        return {"probability": y, "best": y.argmax(-1)}


@pytest.fixture(scope="module")
def counted() -> tuple[Counted, torch.Tensor, CompiledModule]:
    torch.manual_seed(0)
    model, x = Counted().eval(), torch.randn(70, 32)
    return model, x, inferno.compile(model, (x,), target="cpu")


def broken(compiled: CompiledModule, kernel: str, old: str, new: str) -> CompiledModule:
    """The same program, with a fault in the machine code of one kernel."""
    program = compiled.program
    code = program.kernels[kernel].llvm
    assert old in code
    made = dataclasses.replace(program.kernels[kernel], llvm=code.replace(old, new))
    return CompiledModule(dataclasses.replace(program, kernels={**program.kernels, kernel: made}), compiled.device, 0.0)


def test_a_right_model_passes_and_calls_are_fast_again(counted):
    model, x, compiled = counted
    model.count.zero_()
    checked = check_first_call(CompiledModule(compiled.program, compiled.device, 0.0), model)
    state = torch.random.get_rng_state()
    first = checked(x)
    assert model.count == 1 and torch.equal(torch.random.get_rng_state(), state)
    assert "_call" not in vars(checked)
    torch.testing.assert_close(checked(x), first)
    assert model.count == 2


def test_every_kernel_is_held_against_its_pytorch_program(counted):
    model, x, compiled = counted
    call = check_call(compiled, model, (x,), {})
    assert call.right and [r.name for r in call.results] == ["output['probability']", "output['best']", "count, written to"]
    kernels = check_kernels(compiled, (x,), {})
    assert [k.kernel for k in kernels] and all(k.comparison is not None and k.right for k in kernels), kernels


@pytest.mark.parametrize(("kernel", "old", "new"), [("reduce_addf", "llvm.fadd", "llvm.fsub"), ("divf_1", "llvm.fdiv", "llvm.fmul")])
def test_the_kernel_with_a_fault_is_named(counted, kernel, old, new):
    model, x, compiled = counted
    before = model.count.clone()
    with pytest.raises(inferno.CheckError, match=rf"output\['probability'\].* The first kernel that is off is @{kernel} \(.*test_checking.py:"):
        check_first_call(broken(compiled, kernel, old, new), model)(x)
    assert torch.equal(model.count, before)


@pytest.mark.thorough
def test_a_fault_before_the_kernels_names_the_stage(counted):
    """The kernels compute what their IR says, but the IR is not the model's."""
    model, x, _ = counted
    compiled = inferno.compile(model, (x,), target="cpu")
    wrong = inferno.compile(lambda x: {"probability": torch.softmax(model.norm(model.linear(x)) * 1.01, -1), "best": x.argmax(-1)}, (x,), target="cpu")
    stages = {**wrong.program.stages}
    assert compiled.program.stages["linalg"] != stages["linalg"]
    with pytest.raises(inferno.CheckError, match="Every kernel computes what its IR says; the stages linalg to scheduled agree"):
        check_first_call(wrong, lambda x: {"probability": torch.softmax(model.norm(model.linear(x)), -1), "best": x.argmax(-1)})(x)


def test_options_decorators_and_functions():
    weight = torch.randn(6, 6)
    checked = inferno.compile(lambda x: torch.relu(x @ weight), (torch.randn(5, 6),), target="cpu", check=True)
    x = torch.randn(5, 6)
    torch.testing.assert_close(checked(x), torch.relu(x @ weight))

    @inferno.compile(inputs=(torch.randn(3, 6),), target="cpu", check=True)
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, x):
            return self.layer(x).sin()

    model, x = Model(), torch.randn(3, 6)
    torch.testing.assert_close(model(x), model.layer(x).sin())


@pytest.mark.thorough
def test_batch_norm_and_caches_written_in_place():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("cache", torch.zeros(3, 5, 4))

        def forward(self, x, position):
            self.cache[1].copy_(self.norm(x))
            position.add_(1)
            return self.cache.sum(0) + position

    model = Cached().train()
    x, position = torch.randn(5, 4), torch.tensor(2)
    compiled = inferno.compile(model, (x, position), target="cpu")
    call = check_call(compiled, model, (x, position), {})
    assert call.right, call.results
    names = {r.name for r in call.results}
    assert {"cache, written to", "norm.running_mean, written to", "position, written to"} <= names
    assert position == 3


def test_isolated_runs_leave_everything_as_it_was():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).train()
    x, cache = torch.randn(16, 8), torch.zeros(4, 8)

    def call(given=lambda t: t):
        row = cache[1]
        row.copy_(x[0])
        cache[2].add_(1)
        flat = cache.view(-1)
        flat.mul_(3)
        return model(x), cache.sum(0), flat, row

    before = [t.clone() for t in (*model.state_dict().values(), cache, torch.random.get_rng_state())]
    eager, _ = run_isolated(call, [])
    exact, _ = run_isolated(call, [], torch.float64)
    after = [*model.state_dict().values(), cache, torch.random.get_rng_state()]
    assert all(torch.equal(a, b) for a, b in zip(before, after))
    for a, b, c in zip(eager, exact, call()):
        assert torch.equal(a, c) and b.dtype is torch.float64
        torch.testing.assert_close(b.float(), c)


def test_another_type_takes_the_numbers_that_were_drawn():
    x = torch.randn(6, 5)

    def call(given):
        value, mask = torch.ops.aten.native_dropout(given(x), 0.4, True)
        made = torch.empty(3).uniform_(2, 3)
        return value, mask, made * 2, torch.rand_like(value), torch.bernoulli(given(x).sigmoid())

    eager, mode = run_isolated(call, [])
    torch.manual_seed(1)
    exact, _ = run_isolated(call, [], torch.float64, drawn=mode.drawn)
    assert not torch.equal(run_isolated(call, [])[0][3], eager[3])
    for a, b in zip(eager, exact):
        assert b.dtype is (torch.bool if a.dtype is torch.bool else torch.float64)
        torch.testing.assert_close(b.to(a.dtype), a)


@pytest.mark.thorough
def test_a_model_in_pieces_names_the_kernel():
    model, x = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 8)).eval(), torch.randn(9, 24)

    def pieces(x):
        y = model(x)
        return torch.linalg.matrix_exp(y[:8] * 0.1).exp().sum(0) + 1

    compiled = inferno.compile(pieces, (x,), target="cpu", check=True)
    assert compiled.fallbacks
    torch.testing.assert_close(compiled(x), pieces(x))
    call = check_call(compiled, pieces, (x,), {})
    assert call.right
    kernels = check_kernels(compiled, (x,), {})
    assert len(kernels) > 3 and all(k.comparison is not None and k.right for k in kernels), kernels

    scope = compiled.region.run.__globals__
    original = scope["segment_1"]
    scope["segment_1"] = lambda *tensors: [t * 1.01 for t in original(*tensors)]
    with pytest.raises(inferno.CheckError, match="error .* over the bound .*Every kernel computes what its IR says: it is the IR of one of"):
        check_first_call(compiled, pieces)(x)


@pytest.mark.parametrize("dtype, eps", [(torch.float32, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64)])
def test_the_reference_has_the_epsilon_of_the_types_given(dtype, eps):
    x = torch.randn(1, 64).to(dtype) * 1e-4
    wanted = x.double() / (x.double().square().mean(-1, keepdim=True) + torch.finfo(eps).eps).sqrt()
    for norm in (nn.RMSNorm(64, dtype=dtype), lambda x: nn.functional.rms_norm(x, (64,)), lambda x: torch.rms_norm(x, (64,))):
        torch.testing.assert_close(reference(norm, (x,)), wanted)


class Masked(nn.Linear):
    """As CANINE masks its scores: 0 times what is infinite in float32, where float64's least number is."""

    def forward(self, x):
        scores = super().forward(x)
        return torch.softmax(scores + (1.0 - (x > 0).float()) * torch.finfo(scores.dtype).min, -1)


class Narrow(nn.Conv1d):
    def forward(self, x):
        return super().forward(x.to(torch.float32))


@pytest.mark.parametrize("model, shape", [(Masked(6, 6), (4, 6)), (Narrow(4, 5, 3), (2, 4, 9))], ids=["mask", "cast"])
def test_the_reference_of_a_model_that_names_types(model, shape):
    x = torch.randn(shape).clamp(min=-1.0)
    exact = reference(model, (x,))
    assert exact.dtype == torch.float64 and exact.isfinite().all()
    torch.testing.assert_close(exact.float(), model(x))


def test_the_reference_keeps_what_is_infinite():
    assert reference(lambda x: torch.log(x), (torch.tensor([0.0, 1.0]),)).tolist() == [-torch.inf, 0.0]


def test_graphs_of_torch_compile():
    torch._dynamo.reset()
    layer = nn.Linear(8, 4)

    @torch.compile(backend="inferno", options={"check": True, "target": "cpu"})
    def step(x):
        return torch.relu(layer(x)).pow(2).sum()

    x = torch.randn(5, 8)
    loss = step(x)
    loss.backward()
    expected = torch.relu(layer(x)).pow(2).sum()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(layer.weight.grad, torch.autograd.grad(expected, layer.weight)[0])


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("function", [
    lambda x: x @ x.mH, lambda x: (x.conj() * x).sum(1), lambda x: torch.view_as_complex(torch.view_as_real(x) * 2).to(torch.complex128) @ x.mT.cdouble(),
])
def test_complex_numbers_are_held_against_two_of_float64(function):
    torch.manual_seed(0)
    x = torch.randn(8, 530, dtype=torch.complex64)
    inferno.compile(function, (x,), check=True)(x)
    exact = reference(lambda x: x @ x.mH, (x,))
    assert exact.dtype == torch.complex128
    assert not compare_leaf("off", (x @ x.mH) * (1 + 1e-5), x @ x.mH, exact).right


def test_float64_is_allowed_what_another_order_of_sums_costs():
    x = torch.randn(3, 5000, dtype=torch.float64)
    model = lambda x: (x.var(1), x.sum(), torch.softmax(x, -1))  # noqa: E731
    compiled = inferno.compile(model, (x,), target="cpu")
    assert check_call(compiled, model, (x,), {}).right
    assert all(k.right for k in check_kernels(compiled, (x,), {}))
    assert not check_call(lambda_of(compiled, 1 + 1e-12), model, (x,), {}).right


class lambda_of:
    """A compiled module whose results are off by a factor."""

    def __init__(self, compiled, factor):
        self.program, self.device, self._compiled, self._factor = compiled.program, compiled.device, compiled, factor

    def __call__(self, *args):
        return tuple(r * self._factor for r in self._compiled(*args))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layer", [nn.Conv2d(3, 4, 3), nn.LSTM(6, 5), nn.GRU(6, 5, batch_first=True)], ids=lambda layer: type(layer).__name__)
def test_layers_that_look_at_types_themselves(layer):
    x = torch.randn(2, 3, 6, 6) if isinstance(layer, nn.Conv2d) else torch.randn(4, 2, 6)
    compiled = inferno.compile(layer, (x,), target="cpu", check=True)
    compiled(x)
    assert all(p.dtype is torch.float32 for p in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_results_in_float8(dtype):
    """torch itself cannot say where a float8 is infinite."""
    def scaled(x):
        return (x * 3).to(dtype)

    x = torch.randn(40, 32)
    fast = inferno.compile(scaled, (x,), target="cpu", check=True)
    assert fast(x).dtype == dtype
    assert compare_leaf("r", scaled(x), scaled(x), (x.double() * 3)).right
    wrong = compare_leaf("r", scaled(x * 1.5), scaled(x), x.double() * 3)
    assert not wrong.right and "over the bound" in wrong.problem
    if dtype == torch.float8_e5m2:
        far = torch.full((4,), torch.inf).to(dtype)
        assert "NaN or infinity" in compare_leaf("r", torch.ones(4).to(dtype), far, torch.full((4,), torch.inf)).problem


def test_eager_may_overflow_on_the_way():
    """What float64 has a number for, and the type too, is held against that."""
    x, exact = torch.tensor([1.0, 11.8], dtype=torch.float16), torch.tensor([1.0, 11.8], dtype=torch.float64)
    overflowed = torch.tensor([1.0, torch.inf], dtype=torch.float16)
    assert compare_leaf("r", x, overflowed, exact).right
    assert compare_leaf("r", x * 1.5, overflowed, exact).error > 0.4
    assert "NaN or infinity" in compare_leaf("r", overflowed, x, exact).problem
    assert "NaN or infinity" in compare_leaf("r", x, overflowed, exact * torch.tensor([1.0, 1e9])).problem


def flex(x):
    q = x.view(1, 1, 4, 4)
    return flex_attention(q, q, q, score_mod=lambda score, *_: score * 2)


HIGHER_ORDER = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos() * 2, (x,)),
    "map": lambda x: map_(lambda row: row.softmax(-1) * 2, x),
    "while_loop": lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x)),
    "scan": lambda x: scan(lambda total, row: (total + row, total * row), torch.zeros(4), x),
    "with_effects": lambda x: torch.linalg.inv(x @ x.mT + torch.eye(4)),
    "flex_attention": flex,
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", HIGHER_ORDER)
def test_operations_of_functions(name):
    """Branches and loops run under the check, in float64 and with perturbed roundings too, and what they close over is not written to."""
    torch.manual_seed(0)
    function, x = HIGHER_ORDER[name], torch.randn(4, 4)
    expected = tree_leaves(function(x))
    for mine, eager in zip(tree_leaves(inferno.compile(function, (x,), target="cpu", check=True)(x)), expected, strict=True):
        torch.testing.assert_close(mine, eager)
    double, _ = run_isolated(lambda given: function(given(x)), [], torch.float64)
    assert all(d.dtype == torch.float64 for d, e in zip(tree_leaves(double), expected, strict=True) if e.is_floating_point())
    for run in run_perturbed(lambda: function(x)):
        errors = [((a - b).norm() / b.norm()).item() for a, b in zip(tree_leaves(run), expected, strict=True) if b.is_floating_point()]
        assert all(0 < e < 1e-5 for e in errors), errors
