"""``inferno.compile`` as a user meets it, on the cpu target."""

import functools
import threading
from collections import namedtuple

import pytest
import torch
from checks import assert_right
from torch import nn

import inferno
from inferno.capture import capture
from inferno.mlir import ir, idle_context
from inferno.runtime.build import build_from
from inferno.target import find_target


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)
        self.register_buffer("offset", torch.ones(32), persistent=False)

    def forward(self, x, scale=None):
        y = torch.relu(self.norm(self.linear(x))) + self.offset
        return y if scale is None else y * scale


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def compiled(net):
    return inferno.compile(net, (torch.randn(4, 16),))


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_no_more_is_done_than_a_stage_needs(net, target):
    text, stages = capture(net, (torch.randn(4, 16),)).text, ["torch", "linalg", "fused", "scheduled", "gpu"]
    made = [build_from("torch", text, find_target(target), last=stage) for stage in stages]
    assert [list(program.stages) for program in made] == [stages[: i + 1] for i in range(len(stages))]
    assert len({program.stages["fused"] for program in made[2:]}) == 1 and [bool(program.kernels) for program in made] == [False] * 4 + [True]
    later = build_from("fused", made[2].stages["fused"], find_target(target), last="scheduled")
    assert later.stages["scheduled"] == made[3].stages["scheduled"]


def test_a_module_is_right(net):
    assert_right(net, (torch.randn(4, 16),))


def test_every_stage_prints_and_parses_back(compiled):
    for stage in ("torch", "linalg", "fused", "scheduled", "gpu"):
        text = compiled.ir(stage)
        with idle_context():
            assert str(ir.Module.parse(text)) == text
    assert "llvm.func" in compiled.ir("llvm")


def test_weights_are_arguments_not_literals(compiled):
    for stage in ("torch", "linalg", "fused"):
        text = compiled.ir(stage)
        assert "linear.weight" in text and "offset" in text and "dense<" not in text


@pytest.mark.parametrize("inputs, kwargs, message", [
    ((), {"scale": 2.0}, r"signature \(x, scale=None\): missing a required argument: 'x'"),
    ((torch.ones(4, 16), 2.0, 3.0), None, "too many positional arguments"),
    ((torch.ones(4, 16),), {"shift": 1.0}, "unexpected keyword argument 'shift'"),
    ((torch.ones(4, 16),), [1], r"kwargs: expected a dict .*, got list \[1\]"),
    ((torch.ones(4, 16),), {1: 2}, "kwargs: expected a dict"),
])
def test_examples_that_the_model_does_not_take(net, inputs, kwargs, message):
    """They went to Dynamo, which captures at the first call."""
    with pytest.raises(inferno.InputError, match=message):
        inferno.compile(net, inputs, kwargs=kwargs)


def test_a_decorator_takes_more_than_what_it_wraps():
    """As those of transformers do, which take ``return_dict``."""
    def doubled(function):
        @functools.wraps(function)
        def wrapper(*args, double=False, **kwargs):
            return function(*args, **kwargs) * (2 if double else 1)
        return wrapper

    class Model(nn.Module):
        @doubled
        def forward(self, x):
            return x + 1

    x = torch.ones(3)
    assert inferno.compile(Model(), (x,), kwargs={"double": True})(x, double=True).tolist() == [4, 4, 4]


def test_unknown_stage_lists_the_stages(compiled):
    with pytest.raises(inferno.OptionError, match="unknown stage 'nope'; the stages are torch, linalg"):
        compiled.ir("nope")
    with pytest.raises(inferno.OptionError, match="for GPUs"):
        compiled.ir("ptx")


def test_unknown_target_lists_the_targets(net):
    with pytest.raises(inferno.OptionError, match="unknown target 'sm_1'; the targets are sm_80"):
        inferno.compile(net, (torch.randn(4, 16),), target="sm_1")


@pytest.mark.parametrize("bad, message", [
    (torch.randn(5, 16), r"argument x: expected \(4, 16\) torch.float32 on cpu, got \(5, 16\)"),
    (torch.randn(4, 16).double(), r"argument x: expected .*float32.*got .*float64"),
    ([1, 2], "nested differently|argument x"),
    (3, "argument x: expected a tensor"),
    (torch.randn(4, 16).to_sparse(), r"argument x: expected a dense tensor, got one of layout sparse_coo; pass x.to_dense\(\)"),
])
def test_inputs_that_do_not_fit_are_named(compiled, bad, message):
    with pytest.raises(inferno.InputError, match=message):
        compiled(bad)


def test_what_is_compiled_is_no_model(compiled):
    with pytest.raises(inferno.InputError, match="model: expected an nn.Module.*, got CompiledModule.*, which is compiled"):
        inferno.compile(compiled, (torch.randn(2, 16),))


def test_a_package_needs_a_path(compiled):
    with pytest.raises(inferno.PackageError, match="path: expected a path to write the package to, got None"):
        compiled.save(None)


def test_too_many_arguments(compiled):
    with pytest.raises(inferno.InputError):
        compiled(torch.randn(4, 16), torch.randn(4, 16), torch.randn(4, 16))


def test_arguments_by_name(net, compiled):
    x = torch.randn(4, 16)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x=x), compiled(x))


def test_keyword_inputs(net):
    assert_right(net, (torch.randn(4, 16),), {"scale": torch.randn(32)})


class Variadic(nn.Module):
    def forward(self, x, y=None, *others, scale=1, **named):
        return x - y * 2 + sum(others) * scale + sum(named.values())


def test_any_number_of_arguments():
    """A call may give by name what the example gave by position, and the other way round, also beside ``*others``."""
    x, model = torch.randn(4), Variadic()
    by_position, by_name = inferno.compile(model, (x, x)), inferno.compile(model, (x,), kwargs={"y": x, "w": x})
    assert_same = torch.testing.assert_close
    assert_same(by_position(y=x * 2, x=x), x - x * 4)
    assert_same(by_position(x, y=x * 2), x - x * 4)
    assert_same(by_name(x, x * 2, w=x), x - x * 4 + x)
    assert_same(inferno.compile(model, (x, x, x), kwargs={"scale": x})(x, x, x * 3, scale=x), x - x * 2 + x * 3 * x)
    with pytest.raises(inferno.InputError, match="argument y: expected a tensor of .* got NoneType None"):
        by_position(x)
    for call in (lambda: by_position(x, x, x), lambda: by_name(x, x, x, w=x)):
        with pytest.raises(inferno.InputError, match="nested differently from the example's: expected x, y"):
            call()


def test_defaults_may_be_said_or_not():
    def f(x, y=None, *, scale=1.0, shift=0.0):
        return (x if y is None else x + y) * scale + shift

    x = torch.randn(4)
    short, long = inferno.compile(f, (x,)), inferno.compile(f, (x, None), kwargs={"scale": 1.0, "shift": 2.0})
    for result in (short(x, None), short(x, scale=1.0), short(x=x, y=None, shift=0.0)):
        torch.testing.assert_close(result, x)
    for result in (long(x, shift=2.0), long(x, None, shift=2.0), long(x=x, y=None, scale=1.0, shift=2.0)):
        torch.testing.assert_close(result, x + 2)
    with pytest.raises(inferno.InputError, match="expected x, got x, scale"):
        short(x, scale=2.0)
    with pytest.raises(inferno.InputError, match="argument shift: expected 2.0, which the program was compiled for, got 0.0"):
        long(x)
    with pytest.raises(inferno.InputError, match="expected x, got x, y"):
        short(x, x)


def test_inputs_that_need_gradients_are_refused(compiled):
    with pytest.raises(inferno.InputError, match="argument x.*requires_grad"):
        compiled(torch.randn(4, 16, requires_grad=True))
    with torch.no_grad():
        compiled(torch.randn(4, 16, requires_grad=True))


def test_weights_are_read_at_every_call(net, compiled):
    x = torch.randn(4, 16)
    with torch.no_grad():
        old = net.linear.bias.clone()
        net.linear.bias.add_(1)
        torch.testing.assert_close(compiled(x), net(x))
        net.linear.bias = nn.Parameter(old)
        torch.testing.assert_close(compiled(x), net(x))


def test_strides_and_offsets_of_inputs(net, compiled):
    wide = torch.randn(16, 9)
    with torch.no_grad():
        for x in (wide[:, 1:5].t(), torch.randn(8, 16)[::2], torch.randn(65)[1:].reshape(4, 16), torch.randn(1, 16).expand(4, 16)):
            torch.testing.assert_close(compiled(x), net(x))


def test_the_model_is_not_changed():
    net = Net().train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    seed = torch.random.get_rng_state()
    inferno.compile(net, (torch.randn(4, 16, generator=torch.Generator().manual_seed(1)),))
    assert torch.equal(torch.random.get_rng_state(), seed)
    assert net.training and all(torch.equal(before[k], v) for k, v in net.state_dict().items())


def test_mutated_buffers_are_written_back():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(x)
            return self.count * 2

    ours, eager = Counter(), Counter()
    compiled = inferno.compile(ours, (torch.ones(3),))
    assert torch.equal(ours.count, torch.zeros(3))
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(3)), eager(torch.ones(3)))
    assert torch.equal(ours.count, eager.count)


def test_mutated_inputs_are_written_back():
    def double(x):
        x.mul_(2)
        return x + 1

    x = torch.ones(4, 6).t()
    y = inferno.compile(double, (torch.ones(6, 4),))(x)
    assert torch.equal(x, torch.full((6, 4), 2.0)) and torch.equal(y, torch.full((6, 4), 3.0))


Pair = namedtuple("Pair", "first second")


def test_nested_inputs_and_outputs():
    def f(batch, pair):
        total = batch["a"] + pair[0]
        return {"sum": total, "rest": (pair[1], [total * 2, None, 3]), "pair": Pair(total, batch["a"])}

    a, b = torch.randn(3), torch.randn(3)
    compiled = inferno.compile(f, ({"a": a}, (b, "text")))
    out, expected = compiled({"a": a}, (b, "text")), f({"a": a}, (b, "text"))
    assert out["rest"][0] == "text" and out["rest"][1][1:] == [None, 3] and isinstance(out["pair"], Pair)
    torch.testing.assert_close(out["rest"][1][0], expected["rest"][1][0])
    with pytest.raises(inferno.InputError, match=r"argument pair\[1\]: expected 'text'.*got 'other'"):
        compiled({"a": a}, (b, "other"))
    with pytest.raises(inferno.InputError, match=r"argument batch\['a'\]: expected \(3,\)"):
        compiled({"a": torch.randn(4)}, (b, "text"))


def test_sizes_are_results():
    compiled = inferno.compile(lambda x: {"shape": x.shape, "pair": Pair(x * 2, x.shape[1:])}, (torch.randn(3, 4),))
    found = compiled(torch.randn(3, 4))
    for size, expected in ((found["shape"], (3, 4)), (found["pair"].second, (4,))):
        assert type(size) is torch.Size and size == expected


def test_inputs_that_torch_takes_apart_in_its_own_way():
    x = torch.randn(6, 4)
    compiled = inferno.compile(lambda x, size: x.view(size) * 2, (x, torch.Size([2, 12])))
    torch.testing.assert_close(compiled(x, torch.Size([2, 12])), x.view(2, 12) * 2)
    with pytest.raises(inferno.InputError, match=r"argument size\[0\]: expected 2.*got 3"):
        compiled(x, torch.Size([3, 8]))
    for module in (nn.ReLU(), nn.Linear(4, 3)):
        compiled = inferno.compile(lambda x, f: f(x) + 1, (x, module))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, module), module(x) + 1)
            torch.testing.assert_close(compiled(x, nn.Tanh()), torch.tanh(x) + 1)


def test_a_function_finds_the_parameters_it_closes_over():
    layer = nn.Linear(4, 4)
    x = torch.randn(2, 4)
    compiled = inferno.compile(lambda x: torch.tanh(layer(x)), (x,))
    with torch.no_grad():
        layer.weight.zero_()
        torch.testing.assert_close(compiled(x), torch.tanh(layer(x)))


def test_an_exported_program(net):
    x = torch.randn(4, 16)
    with torch.no_grad():
        torch.testing.assert_close(inferno.compile(torch.export.export(net, (x,)), (x,))(x), net(x))


def test_decorator_on_a_function_and_on_a_class():
    x = torch.randn(3, 5)

    @inferno.compile(inputs=(x,))
    def f(x):
        return torch.sigmoid(x) * 2

    assert f.__name__ == "f"
    torch.testing.assert_close(f(x), torch.sigmoid(x) * 2)

    @inferno.compile(inputs=(x,))
    class Small(nn.Linear):
        def __init__(self):
            super().__init__(5, 2)

    small = Small()
    assert isinstance(small, nn.Linear) and Small.__name__ == "Small"
    with torch.no_grad():
        torch.testing.assert_close(small(x), nn.functional.linear(x, small.weight, small.bias))
    assert "func.func @main" in small.ir("linalg")


@pytest.mark.parametrize("shape", [(0, 16), (4, 0)])
def test_empty_tensors(shape):
    x = torch.randn(shape)
    assert_right(lambda x: (torch.relu(x), x.sum(0), x @ x.t()), (x,))


def test_scalars_and_results_that_are_inputs():
    x = torch.randn(())
    compiled = inferno.compile(lambda x, y: (x * 2, y, y.view(6)), (x, torch.randn(2, 3)))
    y = torch.randn(2, 3)
    out = compiled(x, y)
    torch.testing.assert_close(out[0], x * 2)
    assert torch.equal(out[1], y) and torch.equal(out[2], y.view(6))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    net = Net().eval().to(dtype)
    assert_right(net, (torch.randn(4, 16).to(dtype),))


def test_integers_and_booleans():
    i = torch.randint(-9, 9, (4, 5))
    assert_right(lambda i: (i * 3 - 1, i > 2, (i > 2) & (i % 2 == 0), i.to(torch.int32) // 2, i.sum(), i.to(torch.uint8)), (i,))


def test_several_threads(net, compiled):
    xs = [torch.randn(4, 16) for _ in range(8)]
    with torch.no_grad():
        expected = [net(x) for x in xs]
    wrong = []

    def work(i):
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(compiled(xs[i]), expected[i], atol=1e-5):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_model_that_branches_on_data_is_a_capture_error():
    def f(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(inferno.CaptureError, match="test_compile.py"):
        inferno.compile(f, (torch.randn(3),), fallback=False)


def test_an_operation_that_is_not_known_is_named():
    with pytest.raises(inferno.UnsupportedOperation, match=r"cholesky.*test_compile.py:\d+.*float32\[3, 3\]"):
        inferno.compile(lambda x: torch.linalg.cholesky(x), (torch.eye(3),), fallback=False)


def test_missing_inputs_and_wrong_models():
    with pytest.raises(inferno.InputError, match="example_inputs is missing"):
        inferno.compile(nn.Linear(2, 2))
    with pytest.raises(inferno.InputError, match="expected an nn.Module"):
        inferno.compile(3, (torch.randn(2),))
    with pytest.raises(inferno.InputError, match="TorchScript.*compile the nn.Module or function"):
        inferno.compile(torch.jit.script(nn.Linear(2, 2)), (torch.randn(2),))


def test_explain_names_what_a_kernel_fuses(compiled):
    text = str(compiled.explain())
    assert "linear (test_compile.py:" in text and "relu (test_compile.py:" in text and "target cpu" in text


def test_explain_names_library_calls_by_their_kernels():
    def two(x, w, v, image, filters):
        return torch.relu(x @ w) + 1, x @ v, torch.conv2d(image, filters)

    example = (torch.randn(64, 32), torch.randn(32, 48), torch.randn(32, 16), torch.randn(2, 8, 40, 40), torch.randn(4, 8, 3, 3))
    compiled = inferno.compile(two, example, target="cpu")
    rows = {row.kernel: row for row in compiled.explain().rows}
    assert set(rows) == set(compiled.program.kernels) and len(rows) == 3
    assert all(row.generator == "library" and row.flops and row.bytes for row in rows.values())
    fused = sorted(sorted(source.split()[0] for source in row.fuses) for row in rows.values())
    assert fused == [["add", "matmul", "relu"], ["conv2d"], ["matmul"]]


def test_code_for_a_machine_that_is_not_here(net):
    compiled = inferno.compile(net, (torch.randn(4, 16),), target="sm_90a")
    assert ".target sm_90a" in compiled.ir("ptx")
    with pytest.raises(inferno.LaunchError, match="compiled for sm_90a"):
        compiled(torch.randn(4, 16))
