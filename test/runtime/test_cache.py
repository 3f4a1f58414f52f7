"""The cache: what comes back, what compiles again, and that a second process compiles nothing."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.export import exported_program

import inferno
from inferno.capture import capture
from inferno.errors import CompileError, UnsupportedOperation
from inferno.runtime.cache import cache
from inferno.runtime.cache import recall
from inferno.runtime.workers import pool as workers
from inferno.runtime import build
from inferno.runtime.build import build_program, build_text, text_key
from inferno.runtime.plan.kernel import Kernel
from inferno.runtime.cache.store import Store
from inferno.runtime.cache.versions import versions
from inferno.target import find_target
from inferno.targets.resources import Resources

CPU, HOPPER = find_target("cpu"), find_target("sm_90a")


class Model(torch.nn.Module):
    """A parameter, a buffer that is written to, a constant, and an output with a constant in it."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 16)
        self.register_buffer("count", torch.zeros(()))
        self.scale = torch.arange(16.0)

    def forward(self, x, flag=True):
        self.count.add_(1)
        return {"y": torch.relu(self.linear(x)) * self.scale, "flag": flag, "nothing": None}


@pytest.fixture
def nothing_compiles(monkeypatch):
    """A job for a worker, or a decomposition, is a failure from now on."""

    def forbid():
        monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
        monkeypatch.setattr(exported_program, "_decompose_exported_program", lambda *args, **kwargs: pytest.fail("the graph was decomposed"))

    return forbid


def entries(folder):
    return {e.path: e.kind for e in Store(folder, 1 << 30).entries()}


@pytest.mark.parametrize("target", [CPU, HOPPER], ids=lambda t: t.name)
def test_a_program_comes_back_as_it_was(cache_folder, target):
    captured = capture(Model().eval(), (torch.randn(8, 32),))
    made = build_program(captured, target)
    found = cache.open_cache().load_program(text_key(captured.text, target, tf32=False), target)
    assert replace(made, signature=None, passes=[replace(p, after=None) for p in made.passes]) == found
    assert found.launch_plan() == found.plan and found.plan.steps
    assert target is CPU or all(k.cubin and k.resources for k in found.kernels.values())


def test_a_kernel_comes_back_as_it_was(tmp_path):
    kept = cache.Cache(Store(tmp_path, 1 << 20))
    kernel = Kernel(
        "k", "module {}", "k_gpu", "; llvm", "// ptx", b"\x7fELF\x00", {"k": Resources(32, 1024, 0, 8)}, 0.25, '{generator = "simt"}', 7, 8, "why", True,
    )
    for each in (kernel, Kernel("empty", "module {}")):
        kept.save_kernel("ab" * 20, each, HOPPER)
        assert kept.load_kernel("ab" * 20) == each


def test_the_second_compile_does_nothing(cache_folder, nothing_compiles):
    model, x = Model().eval(), torch.randn(8, 32)
    first = inferno.compile(model, (x,))
    nothing_compiles()
    second = inferno.compile(model, (x,))
    for compiled in (first, second):
        count = model.count.item()
        found, expected = compiled(x), torch.relu(model.linear(x)) * model.scale
        torch.testing.assert_close(found["y"], expected)
        assert found["flag"] is True and found["nothing"] is None and model.count.item() == count + 1
    assert str(first.explain()).splitlines()[:-1] == str(second.explain()).splitlines()[:-1]  # the last line has the time
    assert second.ir("fused") == first.ir("fused")


def test_views_and_strides_of_outputs_are_recalled(cache_folder, nothing_compiles):
    def function(x):
        return (x + 1).t(), x[1:], x

    x = torch.randn(4, 6)
    for again in (False, True):
        if again:
            nothing_compiles()
        moved, view, same = inferno.compile(function, (x,))(x)
        torch.testing.assert_close(moved, (x + 1).t())
        assert moved.stride() == (x + 1).t().stride() and view.data_ptr() == x[1:].data_ptr() and same is x


def test_weights_are_the_models_own(cache_folder, nothing_compiles):
    x = torch.randn(8, 32)
    inferno.compile(Model().eval(), (x,))
    nothing_compiles()
    model = Model().eval()
    compiled = inferno.compile(model, (x,))
    with torch.no_grad():
        model.linear.weight.mul_(2)
    torch.testing.assert_close(compiled(x)["y"], torch.relu(model.linear(x)) * model.scale)


def test_another_model_is_another_program(cache_folder):
    x = torch.randn(4, 8)
    for function in (
        lambda x: x + 1, lambda x: x + 2, lambda x: x + 1.5, lambda x: x - 1, lambda x: 1 - x, lambda x: x.sum(0), lambda x: x.sum(1),
    ):
        torch.testing.assert_close(inferno.compile(function, (x,))(x), function(x))
    for other in (x.double(), torch.randn(8, 4), torch.randn(2, 4, 8)):
        torch.testing.assert_close(inferno.compile(lambda x: x + 1, (other,))(other), other + 1)


def test_precision_and_target_are_in_the_keys(cache_folder):
    captured = capture(lambda x, w: x @ w, (torch.randn(64, 64), torch.randn(64, 64)))
    texts = {build_program(captured, HOPPER, tf32=tf32).ir("scheduled") for tf32 in (False, True)}
    build_program(captured, CPU)
    assert len(texts) == 2
    assert list(entries(cache_folder).values()).count("program") == 3


def test_the_versions_are_in_the_keys(monkeypatch):
    keys = set()
    for text in (versions(), versions().replace("llvmlite", "llvmlite 1."), versions() + "x"):
        monkeypatch.setattr(cache, "versions", lambda text=text: text)
        keys |= {cache.kernel_key("module {}", CPU), cache.program_key("module {}", CPU, {})}
    assert len(keys) == 6
    for name in ("inferno", "torch", "torch-mlir", "llvmlite", "ptxas", "libdevice"):
        assert name in versions()


def test_a_line_further_down_is_a_new_program_of_the_same_kernels(cache_folder):
    for space in ("", "\n\n"):
        scope = {"torch": torch}
        exec(compile(f"{space}def forward(x):\n    return torch.relu(x) + 1\n", "model.py", "exec"), scope)
        compiled = inferno.compile(scope["forward"], (torch.randn(4, 4),))
        assert f"model.py:{2 + len(space)}" in str(compiled.explain())
    kinds = list(entries(cache_folder).values())
    assert (kinds.count("program"), kinds.count("kernel")) == (2, 1)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("damage", [lambda d: d[: len(d) // 2], lambda d: b"\0" * len(d)], ids=["cut", "zeros"])
def test_damaged_entries_compile_again(cache_folder, caplog, damage):
    model, x = Model().eval(), torch.randn(8, 32)
    inferno.compile(model, (x,))
    for path in entries(cache_folder):
        path.write_bytes(damage(path.read_bytes()))
    caplog.clear()
    found = inferno.compile(model, (x,))(x)["y"]
    torch.testing.assert_close(found, torch.relu(model.linear(x)) * model.scale)
    said = [r.getMessage() for r in caplog.records if "damaged" in r.getMessage()]
    assert len(said) == len(set(said)) == len(entries(cache_folder))
    caplog.clear()
    inferno.compile(model, (x,))
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


def test_what_changes_a_program_is_in_its_key(monkeypatch):
    keys = {text_key("module {}", HOPPER, False), text_key("module {}", HOPPER, True), text_key("module {}", HOPPER, False, tune=True)}
    for name, value in (("SIBLINGS", "0"), ("BUNDLES", "0"), ("ATTENTION", "0"), ("UNMEASURED", "1")):
        with monkeypatch.context() as patch:
            patch.setenv(f"INFERNO_{name}", value)
            keys.add(text_key("module {}", HOPPER, False))
    for path in ("libcublasLt.so", None):
        monkeypatch.setattr(build, "library_path", lambda path=path: path)
        keys.add(text_key("module {}", HOPPER, False))
    assert len(keys) == 8


def test_an_entry_with_other_contents_compiles_again(cache_folder, caplog):
    """Its checksum holds, but it is not what the key promises."""
    captured = capture(lambda x: x * 2, (torch.randn(4),))
    made = build_program(captured, CPU)
    store, key = cache.open_cache().store, text_key(captured.text, CPU, tf32=False)
    header, parts = store.read("program", key)
    facts = parts["facts"].replace(b'"Launch"', b'"Lunch"')
    assert facts != parts["facts"]
    for wrong in ({**parts, "facts": facts}, {**parts, "facts": b"[1]"}, {**parts, "facts": b"{"}, {"facts": parts["facts"]}):
        store.write("program", key, header, wrong)
        caplog.clear()
        again = build_program(captured, CPU)
        assert again.stages == made.stages and again.plan == made.plan
        assert "damaged" in caplog.text


def test_an_evicted_program_is_made_of_its_kernels(cache_folder, monkeypatch):
    captured = capture(Model().eval(), (torch.randn(8, 32),))
    made = build_program(captured, CPU)
    for path, kind in entries(cache_folder).items():
        if kind == "program":
            path.unlink()
    asked = []
    submit = workers.Pool.submit
    monkeypatch.setattr(workers.Pool, "submit", lambda self, label, name, **given: asked.append(name) or submit(self, label, name, **given))
    assert build_program(captured, CPU).kernels == made.kernels
    assert asked == ["lower_to_linalg", "fuse", "plan"]


def test_the_cache_can_be_off(cache_folder, monkeypatch):
    monkeypatch.setenv("INFERNO_CACHE", "0")
    inferno.compile(lambda x: x + 1, (torch.randn(4),))
    assert not cache_folder.exists()


def test_a_failure_is_kept_too(cache_folder, monkeypatch):
    with pytest.raises(CompileError) as first:
        build_text("module {", CPU)
    monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
    with pytest.raises(type(first.value)) as second:
        build_text("module {", CPU)
    assert str(second.value) == str(first.value)


def test_a_passing_failure_is_not_kept(cache_folder, monkeypatch):
    text = capture(lambda x: x + 1, (torch.randn(4),)).text
    run = workers.Worker.run

    def killed(self, *args):
        self._process.kill()
        return run(self, *args)

    monkeypatch.setattr(workers.Worker, "run", killed)
    with pytest.raises((CompileError, UnsupportedOperation)):
        build_text(text, CPU)
    monkeypatch.setattr(workers.Worker, "run", run)
    assert not entries(cache_folder)
    assert build_text(text, CPU).kernels


def test_a_kernel_whose_compiler_was_killed_is_not_kept(cache_folder, monkeypatch, caplog):
    captured = capture(lambda x: x + 1, (torch.randn(512),))
    run = workers.Worker.run

    def killed(self, label, name, arguments):
        if name == "build":
            self._process.kill()
        return run(self, label, name, arguments)

    monkeypatch.setattr(workers.Worker, "run", killed)
    assert all("signal 9" in k.note for k in build_program(captured, HOPPER).kernels.values())
    assert not entries(cache_folder)
    monkeypatch.setattr(workers.Worker, "run", run)
    assert not any(k.note for k in build_program(captured, HOPPER).kernels.values())


def test_torch_compile_starts_from_the_cache(cache_folder, monkeypatch):
    def function(x, y):
        return torch.relu(x @ y).sum(-1)

    x, y = torch.randn(16, 16), torch.randn(16, 16)
    expected = function(x, y)
    torch.testing.assert_close(torch.compile(function, backend="inferno")(x, y), expected)
    torch._dynamo.reset()
    monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
    torch.testing.assert_close(torch.compile(function, backend="inferno")(x, y), expected)


def test_programs_whose_sizes_vary_come_back(cache_folder, monkeypatch):
    batch = torch.export.Dim("batch", min=2, max=64)
    for again in (False, True):
        if again:
            monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
        compiled = inferno.compile(lambda x: torch.relu(x).sum(-1) + 1, (torch.randn(4, 8),), dynamic_shapes=({0: batch},), fallback=False)
        for size in (2, 5, 64):
            x = torch.randn(size, 8)
            torch.testing.assert_close(compiled(x), torch.relu(x).sum(-1) + 1)


def test_graphs_with_custom_operations_are_not_recalled(cache_folder):
    """What a custom operation decomposes to is somebody's Python, which no key holds."""
    from inferno.capture import export_model

    @torch.library.custom_op("inferno_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    x = torch.randn(4)
    assert recall.capture_key(export_model(lambda x: twice(x) + 1, (x,)), CPU, {}) is None
    assert recall.capture_key(export_model(lambda x: x * 2 + 1, (x,)), CPU, {})


SECOND = """
import torch, inferno
from inferno.runtime.workers import pool as workers
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
x = torch.randn(4, 8)
compiled = inferno.compile(model, (x,), target="cpu")
torch.testing.assert_close(compiled(x), model(x))
print("workers" if workers._pool is not None else "no workers", len(compiled.program.kernels))
"""


@pytest.mark.thorough
def test_a_second_process_starts_no_worker(cache_folder):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    first = inferno.compile(model, (torch.randn(4, 8),), target="cpu")
    assert entries(cache_folder)
    done = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"no workers {len(first.program.kernels)}\n"


@pytest.mark.thorough
def test_many_processes_and_kills():
    """The script does more of it by hand: 8 processes of two workers each, 50 kills, and GPU targets.  This seed kills about halfway."""
    script = Path(__file__).with_name("stress_cache.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "INFERNO_WORKERS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), "--processes", "2", "--kills", "1", "--seed", "9"],
        capture_output=True, text=True, check=False, timeout=500, env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
