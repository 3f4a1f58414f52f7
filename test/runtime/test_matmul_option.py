"""The option matmul: what multiplies matrices, on a GPU and on the CPU, and what explain() and packages say of it."""

import pytest
import torch
from checks import check
from torch import nn

import inferno
from inferno.errors import OptionError
from inferno.runtime import build
from inferno.runtime.plan.data import check_plan
from inferno.runtime.plan.plan import Launch, LibraryCall


class Net(nn.Module):
    """A call of cuBLASLt's, a ReLU, which is none of its, and a call with an epilogue that is none of its."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64, bias=False)

    def forward(self, x):
        return torch.tanh(self.down(torch.relu(self.up(x))).bfloat16())


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    return Net().eval(), torch.randn(32, 64)


def generators(compiled):
    return {row.kernel: row.generator for row in compiled.explain().rows}


@pytest.mark.parametrize("matmul", ["auto", "generated"])
def test_a_gpu_multiplies_by_kernels_of_ours(case, matmul):
    model, x = case
    compiled = inferno.compile(model, (x,), target="sm_90a", matmul=matmul)
    assert "cublaslt" not in generators(compiled).values() and not any(r.no_library for r in compiled.explain().rows)
    assert all(isinstance(s, Launch) for s in compiled.program.launch_plan().steps)


def test_auto_weighs_a_library_that_is_there(monkeypatch):
    x, w = torch.randn(520, 4096).bfloat16(), torch.randn(4096, 4096).bfloat16()
    for path, matmul, expected in (("libcublasLt.so", "auto", "cublaslt"), ("libcublasLt.so", "generated", "wgmma"), (None, "auto", "wgmma")):
        monkeypatch.setattr(build, "library_path", lambda path=path: path)
        compiled = inferno.compile(lambda x, w: torch.tanh(x @ w), (x, w), target="sm_90a", matmul=matmul)
        assert list(generators(compiled).values()) == [expected]


def test_the_library_is_asked_for(case):
    model, x = case
    compiled = inferno.compile(model, (x,), target="sm_90a", matmul="library")
    rows = compiled.explain().rows
    up, down = [r for r in rows if r.generator == "cublaslt"]
    assert up.fuses[0].startswith("linear") and up.flops >= 2 * 32 * 64 * 96 and up.grid == down.grid == ()
    # what lies between two products is a kernel of its own, what is behind one is its second launch
    assert sorted(r.generator for r in rows) == ["cublaslt", "cublaslt", "elementwise"]
    plan = compiled.program.launch_plan()
    assert [isinstance(s, LibraryCall) for s in plan.steps] == [True, False, True, False]
    step, _ = [s for s in plan.steps if isinstance(s, LibraryCall)]
    assert step.options["activation"] == "none" and step.options["sizes"] == [1, 32, 96, 64]
    check_plan(plan)
    assert f".entry {up.kernel}(" not in compiled.ir("ptx")


def test_what_the_library_does_not_multiply_is_told(case):
    x = torch.ones(32, 64, dtype=torch.int64)
    compiled = inferno.compile(lambda x: x @ x.t(), (x,), target="sm_90a", matmul="library")
    (refused,) = [r for r in compiled.explain().rows if r.no_library]
    assert refused.no_library == "sums of i64" and refused.generator != "cublaslt"
    assert f"{refused.kernel}: not computed by the library: sums of i64" in str(compiled.explain())
    assert f".entry {refused.kernel}(" in compiled.ir("ptx")


def test_a_program_of_calls_alone_has_no_code(tmp_path):
    x = torch.randn(32, 64)
    compiled = inferno.compile(nn.Linear(64, 96).eval(), (x,), target="sm_90a", matmul="library")
    assert compiled.ir("ptx") == compiled.ir("llvm") == "" and "inferno.library" in compiled.ir("gpu")
    compiled.save(tmp_path / "net.inferno")
    loaded = inferno.load(tmp_path / "net.inferno", device="cpu")
    assert loaded.program.launch_plan() == compiled.program.launch_plan() and str(loaded.explain()) == str(compiled.explain())


def test_the_cpu_multiplies_by_loops_where_it_is_told_to(case):
    model, x = case
    for matmul, expected in (("auto", True), ("library", True), ("generated", False)):
        compiled = inferno.compile(model, (x,), target="cpu", matmul=matmul)
        assert ("library" in generators(compiled).values()) == expected
        assert check(compiled, model, (x,)).right


def test_under_torch_compile(case):
    model, x = case
    fast = torch.compile(model, backend="inferno", options={"matmul": "generated"})
    with torch.no_grad():
        fast(x)
    assert not [r for r in inferno.explain(fast).rows if r.generator == "library"]


def test_another_value_is_an_error(case):
    model, x = case
    with pytest.raises(OptionError, match="option matmul: expected one of auto, generated, library, got 'fast'"):
        inferno.compile(model, (x,), matmul="fast")
