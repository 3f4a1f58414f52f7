"""A fixed slice of torch's OpInfo database; ``python -m benchmarks.opinfo`` runs all of it."""

import contextlib
import subprocess
import sys
import time

import pytest
import torch

from benchmarks.opinfo import sweep, table
from benchmarks.opinfo.judge import fresh, judge
from benchmarks.opinfo.samples import Sample, dtypes, family, operators, samples

# Of each kind of operator some, in the dtypes where faults were found.
WHOLE = {
    "add": "float32 int64", "clamp": "float32", "maximum": "float32 bool", "floor_divide": "float32 int64", "fmod": "bfloat16",
    "isclose": "bool", "erfc": "bfloat16", "lgamma": "float32", "polygamma:polygamma_n_1": "float32", "i0": "float16", "sinh": "float32",
    "frexp": "float32", "sort": "bfloat16 bool", "topk": "float32", "mode": "int64", "median": "float32", "cummax": "float32",
    "cumprod": "int64", "logcumsumexp": "float32", "searchsorted": "float32", "scatter_add": "bool float32", "scatter_reduce:mean": "int64",
    "index_put": "float32", "index_reduce:amax": "float32", "masked_scatter": "float32", "nonzero_static": "float32", "histc": "float32",
    "broadcast_tensors": "float32", "meshgrid:list_of_tensors": "float32", "cdist": "float32", "softmax": "float32",
    "native_batch_norm": "float32", "nn.functional.embedding_bag": "float32",
    "nn.functional.max_pool2d": "float32", "nn.functional.conv2d": "bfloat16", "nn.functional.layer_norm": "float16", "masked.mean": "float32",
}
IN_PART = {"linalg.inv": "float32", "as_strided": "float32"}


def sample_of(name, dtype, number=-1, gradients=False):
    return samples(operators()[name], getattr(torch, dtype), count=2, gradients=gradients)[number][1]


@pytest.mark.covering(most=5)
@pytest.mark.parametrize("name,dtype", [(n, d) for n, all_ in WHOLE.items() for d in all_.split()])
def test_whole(name, dtype):
    outcome = judge(name, sample_of(name, dtype), "cpu", "inferno.compile")
    assert outcome.verdict == "whole", outcome


@pytest.mark.covering
@pytest.mark.parametrize("name", ["add", "cumsum", "sort", "nn.functional.conv2d", "gather"])
def test_whole_through_torch_compile(name):
    outcome = judge(name, sample_of(name, "float32"), "cpu")
    assert outcome.verdict == "whole" and outcome.strides, outcome


TRAINED = [
    *(f"nn.functional.{name}" for name in ("multi_head_attention_forward", "soft_margin_loss", "layer_norm", "rrelu")), "kthvalue", "complex", "chalf",
]


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", TRAINED)
def test_gradients(name):
    outcome = judge(name, sample_of(name, "float32", gradients=True), "cpu")
    assert outcome.verdict in ("whole", "part"), outcome


def test_the_judge_sees_a_wrong_gradient(monkeypatch):
    from benchmarks.opinfo import judge as module

    sample = sample_of("sin", "float32", gradients=True)
    for function, verdict in ((torch.sin, "whole"), (lambda x: x.sin() + (x - x.detach()) / 10000, "wrong")):
        monkeypatch.setattr(module, "compiled", lambda *_, function=function: (function, lambda: ""))
        assert judge("sin", sample, "cpu").verdict == verdict


@pytest.mark.parametrize("name", IN_PART)
def test_in_part(name):
    outcome = judge(name, sample_of(name, IN_PART[name]), "cpu")
    assert outcome.verdict == "part" and outcome.detail, outcome


def test_the_judge_sees_what_is_wrong(monkeypatch):
    from benchmarks.opinfo import judge as module

    off = {"by a digit": lambda x: x.sin() * (1 + 1e-5), "in type": lambda x: x.sin().double(), "in place": lambda x: x.sin_()}
    for how, function in off.items():
        monkeypatch.setattr(module, "compiled", lambda *_, function=function: (function, lambda: ""))
        assert judge("sin", sample_of("sin", "float32"), "cpu").verdict == "wrong", how

    def fails(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(module, "compiled", fails)
    assert judge("sin", sample_of("sin", "float32"), "cpu").verdict == "crash"


@pytest.mark.parametrize("places,verdict", [("flipped", "whole"), ("one", "wrong")])
def test_any_of_equal_elements(monkeypatch, places, verdict):
    from benchmarks.opinfo import judge as module

    def ours(x):
        values, indices = x.flip(0).sort(dim=0, stable=True)
        return values, len(x) - 1 - indices if places == "flipped" else indices * 0

    def sort(x):
        return tuple(x.sort(stable=True))

    monkeypatch.setattr(module, "compiled", lambda *_: (ours, lambda: ""))
    assert judge("sort", Sample([torch.tensor([1.0, 0.0, 1.0, 2.0, 0.0])], sort, sort, (), {}), "cpu").verdict == verdict


@pytest.mark.parametrize("value,place,verdict", [(2, 2, "whole"), (3, 4, "whole"), (3, 2, "wrong"), (1, 0, "wrong")])
def test_any_of_equally_frequent_elements(monkeypatch, value, place, verdict):
    from benchmarks.opinfo import judge as module

    def mode(x):
        return x.mode()

    monkeypatch.setattr(module, "compiled", lambda *_: (lambda x: (torch.tensor(value), torch.tensor(place)), lambda: ""))
    assert judge("mode", Sample([torch.tensor([1, 2, 2, 3, 3])], mode, mode, (), {}), "cpu").verdict == verdict


def test_the_median_of_everything():
    """Its one result has no dimension to be looked for along."""
    assert judge("median", Sample([torch.tensor([[3, 1], [2, 2]])], torch.median, torch.median, (), {}), "cpu").verdict == "whole"


def test_seeds_are_no_results(monkeypatch):
    from benchmarks.opinfo import judge as module

    def attention(x):
        return x * 2, x + 1, torch.tensor(1), torch.tensor(2)

    for factor, seed, verdict in ((2, 5, "whole"), (1, 1, "wrong")):
        def ours(x, factor=factor, seed=seed):
            return x * factor, x + 1, torch.tensor(seed), torch.tensor(2)

        monkeypatch.setattr(module, "compiled", lambda *_, ours=ours: (ours, lambda: ""))
        outcome = judge("torch.ops.aten._efficient_attention_forward", Sample([torch.ones(3)], attention, attention, (), {}), "cpu")
        assert outcome.verdict == verdict


def test_a_seeded_function_is_one_graph():
    assert judge("nn.functional.scaled_dot_product_attention", sample_of("nn.functional.scaled_dot_product_attention", "float32"), "cpu").verdict == "whole"


def test_luck_is_no_error_of_integers_either(monkeypatch):
    from benchmarks.opinfo import judge as module

    def total(x):
        return (x * 0.1).sum()

    x = torch.randint(-9, 10, (20000,), generator=torch.Generator().manual_seed(0))
    for ours, verdict in ((lambda x: total(x) * (1 + 1e-5), "wrong"), (lambda x: (x * 0.1).double().sum().float(), "whole")):
        monkeypatch.setattr(module, "compiled", lambda *_, ours=ours: (ours, lambda: ""))
        assert judge("sum", Sample([x], total, total, (), {}), "cpu").verdict == verdict


def test_a_stuck_compiler_is_told_from_an_error(monkeypatch):
    """Also where Dynamo has wrapped it: whoever runs many samples goes on in another process then."""
    from benchmarks.opinfo import judge as module

    def sleeps(*_):
        try:
            time.sleep(5)
        except TimeoutError as error:
            raise RuntimeError("the backend raised") from error

    monkeypatch.setattr(module, "compiled", sleeps)
    outcome = judge("sin", sample_of("sin", "float32"), "cpu", seconds=1)
    assert outcome.verdict == "crash" and outcome.timed_out


def test_luck_is_no_error(monkeypatch):
    """A single number may be further off than eager's, if that is not so over several inputs; a bias is wrong nevertheless."""
    from benchmarks.opinfo import judge as module

    def total(x):
        return x.sum()

    def biased(x):
        return x.sum() * (1 + 1e-5)

    x = torch.randn(20000, generator=torch.Generator().manual_seed(0))
    for ours, verdict in ((biased, "wrong"), (lambda x: x.double().sum().float(), "whole")):
        monkeypatch.setattr(module, "compiled", lambda *_, ours=ours: (ours, lambda: ""))
        assert judge("sum", Sample([x], total, total, (), {}), "cpu").verdict == verdict


def test_overflow_on_the_way_is_no_result(monkeypatch):
    from benchmarks.opinfo import judge as module

    def loss(x):
        return torch.log1p(torch.exp(x))

    for ours, verdict in ((lambda x: loss(x.float()).half(), "whole"), (lambda x: loss(x.float()).half() * 2, "wrong")):
        monkeypatch.setattr(module, "compiled", lambda *_, ours=ours: (ours, lambda: ""))
        assert judge("softplus", Sample([torch.tensor([1.0, 20.0]).half()], loss, loss, (), {}), "cpu").verdict == verdict


def test_copies_alias_as_the_originals():
    base = torch.arange(12.0).reshape(3, 4)
    a, b, c = fresh([base, base[1], base.t()])
    assert a.stride() == base.stride() and b.storage_offset() == 4 and c.stride() == (1, 4)
    a[1, 0] = 50
    assert b[0] == 50 and c[0, 1] == 50 and base[1, 0] == 4


def test_families_and_dtypes():
    assert family("linalg.inv") == "linalg" and family("add") == "tensor" and family("nn.functional.relu") == "nn.functional"
    assert dtypes(operators()["bitwise_and"]) == [torch.int64, torch.bool]
    assert sum(family(n) == "fft" for n in operators()) > 10


CHILD = """
import json, sys, os, time
for line in sys.stdin:
    name, dtype = json.loads(line)
    print("a warning")
    for verdict in {"abs": ["begin", "whole", "end"], "cos": ["begin"], "sin": ["begin", "part", "end"]}[name]:
        print(json.dumps({"op": name, "dtype": dtype, "sample": 0, "verdict": verdict, "detail": ""}), flush=True)
    if name == "cos":
        os._exit(1)
"""


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_sweep_goes_on_where_it_stopped(tmp_path, monkeypatch, jobs):
    """A case that ends the process is recorded as a crash, and done cases are not run again."""
    path, todo = tmp_path / "results.jsonl", [(n, "float32") for n in ("abs", "cos", "sin")]

    @contextlib.contextmanager
    def child(*_):
        with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield process

    monkeypatch.setattr(sweep, "_child", child)
    for _ in range(2):
        sweep.sweep(todo, path, 1, "cpu", "torch.compile", jobs=jobs)
    found = {k[0]: r["verdict"] for k, r in table.worst(sweep.read(path)).items()}
    assert found == {"abs": "whole", "cos": "crash", "sin": "part"}
    path.write_text(path.read_text() + '{"op": "tan", "dty')
    assert len(sweep.read(path)) == 6
    assert "| tensor | 3 | 1 (33%) | 1 (33%) | 3 | 1 | 1 | 1 | 0 |" in table.by_family(sweep.read(path))
