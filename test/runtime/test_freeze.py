"""Frozen weights: what is prepared, when it is prepared again, and that results are those of the weights as they are."""

import copy
import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import safetensors
import safetensors.torch
import torch
from checks import assert_right, check
from torch import nn

import inferno
from inferno.errors import OptionError
from inferno.runtime.prepared import Prepared, prepared_bytes
from inferno.target import find_target


class Scaled(nn.Module):
    """A weight that is scaled at each call, and a batch norm: two tensors that depend on weights alone."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)
        self.scale = nn.Parameter(torch.rand(size, 1) + 0.5)
        with torch.no_grad():
            self.norm.running_var.uniform_(0.5, 2)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x @ (self.linear.weight * self.scale).t() + self.linear.bias)


@pytest.fixture
def prepared(monkeypatch) -> list:
    """One entry for each time that anything is prepared."""
    found: list = []
    original = Prepared._prepare

    def count(self, *args):
        found.append(self)
        return original(self, *args)

    monkeypatch.setattr(Prepared, "_prepare", count)
    return found


def compiled(model: nn.Module, x: torch.Tensor, **options):
    return inferno.compile(model, (x,), **{"freeze": True, "fallback": False, **options})


X = torch.randn(8, 64)


def test_prepared_once_and_right(prepared):
    model = Scaled()
    fast = assert_right(model, (X,), freeze=True)
    assert len(prepared) == 1 and fast._fast is not None
    outputs = fast.program.preparation.plan.outputs
    assert [(o.shape, o.element) for o in outputs] == [((64, 64), "f32"), ((64,), "f32")]
    assert "rsqrt" not in fast.ir("fused").partition("@prepare")[0] and prepared_bytes(fast.program) == 64 * 64 * 4 + 64 * 4
    lines = [line for line in str(fast.explain()).splitlines() if line.startswith("frozen: ")]
    assert lines == ["frozen: 2 tensors, 16.2 KB, made of 3 weights (linear.weight, scale, norm.running_var) by 2 launches when they change"]


def load(model):
    state = {k: torch.rand_like(v) + 0.5 if v.is_floating_point() else v for k, v in model.state_dict().items()}
    model.load_state_dict(state)


def assign(model):
    state = {k: torch.rand_like(v) + 0.5 if v.is_floating_point() else v for k, v in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def step(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()


def in_place(model):
    with torch.no_grad():
        model.scale.mul_(2)


def in_inference_mode(model):
    with torch.inference_mode():
        model.scale.mul_(2)


def replaced(model):
    model.scale = nn.Parameter(torch.rand(64, 1))


def moved(model):
    model.double().float()
    model.scale.data = torch.rand(64, 1)


def transposed(model):
    model.linear.weight.data = model.linear.weight.data.t()


def inference_tensor(model):
    with torch.inference_mode():
        model.scale = nn.Parameter(torch.rand(64, 1))


def buffer(model):
    model.norm.running_var.fill_(3)


def through_a_view(model):
    model.scale.detach().view(-1)[3:5] = 7


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("change", [
    load, assign, step, in_place, in_inference_mode, replaced, moved, transposed, inference_tensor, buffer, through_a_view,
], ids=lambda f: f.__name__)
def test_a_change_is_seen_at_the_next_call(change, prepared):
    model = Scaled()
    fast = compiled(model, X)
    fast(X)
    before = len(prepared)
    old = fast(X)
    assert len(prepared) == before
    change(model)
    assert check(fast, model, (X,)).right and not torch.equal(fast(X), old)
    count = len(prepared)
    assert count > before
    fast(X)
    assert len(prepared) - count == (change is inference_tensor)  # of which torch counts no writes: prepared at each call


def test_addresses_that_come_again_are_other_weights():
    """Weights that are set one after the other take each other's memory; the memory of those that were prepared is held."""
    model = Scaled()
    fast = compiled(model, X)
    for _ in range(20):
        model.scale.data = torch.rand(64, 1)
        model.scale.data = torch.rand(64, 1)
        assert check(fast, model, (X,)).right


def test_refresh_is_for_writes_that_are_not_counted():
    model = Scaled()
    fast = compiled(model, X)
    fast(X)
    model.scale.data.mul_(3)
    fast.refresh()
    assert check(fast, model, (X,)).right


def test_a_function_and_what_it_names():
    w = torch.rand(16)
    fast = compiled(lambda x: x * torch.sqrt(w), torch.randn(3, 16))
    x = torch.ones(3, 16)
    for change in (lambda: None, lambda: w.mul_(4), lambda: (w.data.mul_(4), fast.refresh())):
        change()
        assert torch.allclose(fast(x), w.sqrt().expand(3, 16))


def test_copies_and_pickles_have_weights_of_their_own():
    model = Scaled()
    fast = compiled(model, X)
    before = fast(X)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        in_place(other._model)
        assert check(other, other._model, (X,)).right and not torch.equal(other(X), before)
        assert torch.equal(fast(X), before)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x))) * self.a.weight.sum()


def test_tied_weights():
    model, x = Tied().eval(), torch.randn(4, 16)
    fast = assert_right(model, (x,), freeze=True)
    with torch.no_grad():
        model.a.weight.mul_(-2)
    assert check(fast, model, (x,)).right


class Counting(nn.Module):
    """Writes one buffer, and reads the root of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
        self.register_buffer("kept", torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * torch.sqrt(self.count) + torch.sqrt(self.kept)


def test_what_the_model_writes_is_not_frozen():
    model, x = Counting(), torch.randn(3, 4)
    fast = compiled(model, x)
    assert [fast.program.signature.arguments[n].name for n in fast.program.preparation.arguments] == ["kept"]
    for i in range(1, 4):
        assert torch.allclose(fast(x), x * i**0.5 + model.kept.sqrt()) and model.count[0] == i


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.rand(4, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        root = torch.sqrt(self.w)
        return x @ root, root, self.w[1:3] * 1


def test_a_prepared_tensor_that_is_a_result_is_copied():
    model, x = Weights(), torch.randn(2, 4)
    fast = compiled(model, x)
    first = fast(x)
    expected = [t.clone() for t in first]
    for t in first:
        t.zero_()
    assert all(torch.equal(a, b) for a, b in zip(fast(x), expected))


def test_the_limit_holds():
    model = Scaled()
    assert prepared_bytes(compiled(model, X, freeze=300).program) == 256
    assert prepared_bytes(compiled(model, X, freeze="17K").program) == 16640
    assert compiled(model, X, freeze=0).program.preparation is None and compiled(model, X, freeze=False).program.preparation is None


@pytest.mark.parametrize("value", [-1, "much", 1.5, None])
def test_a_limit_that_is_none_is_an_error(value):
    with pytest.raises(OptionError, match="option freeze"):
        compiled(Scaled(), X, freeze=value)


def test_with_a_size_that_varies():
    model = Scaled()
    fast = inferno.compile(model, (X,), freeze=True, fallback=False, dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=100)}})
    for n in (8, 33):
        x = torch.randn(n, 64)
        assert check(fast, model, (x,)).right
        in_place(model)
        assert check(fast, model, (x,)).right
    assert fast.program.preparation is not None


class Pieces(nn.Module):
    """Two compiled pieces around an operation that has no lowering."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Scaled(), Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return self.second(y * (torch.linalg.svdvals(y)[:, None] > 0))


@pytest.mark.thorough
def test_in_pieces(prepared):
    model = Pieces().eval()
    fast = inferno.compile(model, (X,), freeze="1M")
    assert len(fast.programs) == 2 and all(p.preparation is not None for p in fast.programs)
    for change in (lambda: None, lambda: in_place(model.second), lambda: replaced(model.first)):
        change()
        count = len(prepared)
        assert check(fast, model, (X,)).right
        fast(X)
        assert len(prepared) - count <= 2
    model.first.scale.data.mul_(2)
    fast.refresh()
    assert check(fast, model, (X,)).right


def test_under_torch_compile(prepared):
    torch._dynamo.reset()
    model = Scaled()
    fast = torch.compile(model, backend="inferno", options={"freeze": True})
    with torch.no_grad():
        for change in (lambda m: None, in_place, load, step):
            change(model)
            count = len(prepared)
            assert check(fast, model, (X,)).right
            assert len(prepared) - count == 1
    torch._dynamo.reset()


def test_training_graphs_freeze_nothing(prepared):
    torch._dynamo.reset()
    model = Scaled()
    fast = torch.compile(model, backend="inferno", options={"freeze": True})
    fast(X).sum().backward()
    assert not prepared and model.scale.grad is not None
    torch._dynamo.reset()


def test_from_several_threads():
    model = Scaled()
    fast = compiled(model, X)
    right = {}
    for i in range(6):
        with torch.no_grad():
            model.scale.fill_(i + 1)
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: fast(X), range(16)))
        right[i] = found[0]
        assert all(torch.equal(f, found[0]) for f in found)
    assert check(fast, model, (X,)).right and len({float(r.sum()) for r in right.values()}) == 6


def test_checked_and_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERNO_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("INFERNO_CACHE", "1")
    model = Scaled()
    first = compiled(model, X, check=True)
    first(X)
    again = compiled(model, X)
    assert again.program.preparation == first.program.preparation and torch.equal(again(X), first(X))
    in_place(model)
    assert check(again, model, (X,)).right


def test_a_package_keeps_the_preparation(tmp_path):
    model = Scaled()
    fast = compiled(model, X, target="sm_90a")
    assert fast.program.target == find_target("sm_90a")
    for name, options, version in (("frozen", {"freeze": True}, "2"), ("plain", {}, "1")):
        path = tmp_path / name
        inferno.compile(model, (X,), target="sm_90a", fallback=False, **options).save(path)
        loaded = inferno.load(path, device="cpu")
        with safetensors.safe_open(path, framework="pt") as file:
            assert file.metadata()["version"] == version
        assert loaded.program.preparation == (fast.program.preparation if options else None)
        assert torch.equal(loaded.state_dict()["scale"], model.scale)


def test_a_package_whose_preparation_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "package"
    compiled(Scaled(), X, target="sm_90a").save(path)
    with safetensors.safe_open(path, framework="pt") as file:
        tensors, metadata = {k: file.get_tensor(k) for k in file.keys()}, file.metadata()
    good = bytes(tensors["__inferno__/program"].numpy())
    for damage in (
        lambda p: None, lambda p: p["arguments"].append(0), lambda p: p["arguments"].__setitem__(0, 99), lambda p: p["plan"]["outputs"].pop(),
        lambda p: p["plan"]["steps"][0].__setitem__("kernel", "none::none"),
    ):
        content = json.loads(good)
        damage(content["preparation"])
        text = json.dumps(content).encode()
        tensors["__inferno__/program"] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        safetensors.torch.save_file(tensors, path, {**metadata, "sha256": hashlib.sha256(text).hexdigest()})
        if content == json.loads(good):
            inferno.load(path, device="cpu")
            continue
        with pytest.raises(inferno.PackageError):
            inferno.load(path, device="cpu")


class Image(nn.Module):
    """Weight normalisation, batch norm, groups, a mask that is sliced, and a buffer without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3, padding=1))
        self.norm, self.second, self.last = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, groups=2), nn.Linear(8, 5)
        self.register_buffer("none", torch.empty(0, 4))
        self.register_buffer("mask", torch.ones(16, 20).tril().bool())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(self.norm(self.first(x))).masked_fill(~self.mask[:, :16], 0)
        return self.last(self.second(y).mean((2, 3))), torch.sqrt(self.none)


class Layer(nn.Module):
    """A transformer's layer with a table of sines, embeddings of fixed places, and integers as weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.places = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True), nn.Embedding(64, 32)
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(0, 32, 2) / 32))
        self.register_buffer("numbers", torch.arange(10))
        self.quantised, self.scale = nn.Parameter(torch.randint(-8, 8, (32, 32), dtype=torch.int8), False), nn.Parameter(torch.rand(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(x.shape[1])[:, None] * self.frequencies
        y = self.layer(x + torch.cat([angles.cos(), angles.sin()], -1) + self.places(self.numbers))
        return y @ (self.quantised.float() * self.scale).t()


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model, shape, kept", [(Image, (2, 3, 16, 16), 3), (Layer, (2, 10, 32), 2)])
def test_models(model, shape, kept):
    model = model().eval()
    fast = assert_right(model, (torch.randn(shape),), freeze=True)
    assert len(fast.program.preparation.plan.outputs) == kept
