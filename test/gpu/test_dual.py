"""Two contractions of one operand that meet elementwise, as one kernel, against float64, with every kind of schedule."""

import copy
import sys
from pathlib import Path

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

import inferno
from inferno.runtime.check.comparison import compare
from inferno.schedule import assign, spaces
from inferno.schedule.matmul import dual, dual_bf16x6, dual_vectors
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")
ALWAYS = "fuse-duals{target=sm_90a always=1}"

pytestmark = on_hopper


def best(kernel) -> list[dual.Dual]:
    """The best schedule for each tile."""
    pair, found = dual.parse_pair(kernel), {}
    for _, s in sorted(dual.candidates(kernel, pair, TARGET), key=lambda x: x[0]) if pair is not None else ():
        found.setdefault((s.tile_m, s.tile_n, s.split, s.lhs_rows > 0), s)
    return list(found.values())


def measured(kernel) -> list[dual.Dual]:
    """Of all that may be measured one for each form: ping-pong, clusters of either kind, parts."""
    found = {}
    for _, s in spaces.find("dual").space(kernel, TARGET):
        found.setdefault((s.pingpong, s.cluster, s.across, s.split), s)
    return list(found.values())


def float32(kernel) -> list:
    """All for a pair of float32."""
    pair = dual.parse_pair(kernel)
    found = [*dual_bf16x6.candidates(kernel, pair, TARGET), *dual_vectors.candidates(kernel, pair, TARGET)] if pair is not None else []
    return [s for _, s in sorted(found, key=lambda x: x[0])]


def right(function, *args, schedules=best, dtype=torch.bfloat16, most: int = 3):
    """``args`` are tensors or shapes of normal ones; each of the first ``most`` schedules is right, and there are some."""
    torch.manual_seed(0)
    args = tuple(a if isinstance(a, torch.Tensor) else torch.randn(a, device="cuda").to(dtype) for a in args)
    number, count = 0, 1
    while number < count:
        count = one_right(function, args, schedules, number, most)
        number += 1


def one_right(function, args: tuple, schedules, number: int, most: int) -> int:
    """The result with the ``number``-th schedule is right; returns how many there are."""
    counts = []

    def choose(kernel):
        found = schedules(kernel)[:most]
        counts.append(len(found))
        return found[number] if found else assign.choose(kernel, TARGET)

    compiled = compile_universal(function, args, torch.device("cuda"), TARGET.name, choose, passes=ALWAYS)
    assert sum(name.startswith("dual_") for name in compiled.program.kernels) == 1
    poison_memory()
    verdict = check(compiled, function, args)
    assert verdict.right, f"{compiled.ir('scheduled')[:3000]}\n{verdict}"
    return max(counts)


def swiglu(x, g, u):
    return F.silu(F.linear(x, g)) * F.linear(x, u)


def geglu(x, a, b):
    return F.gelu(x @ a) * (x @ b)


@pytest.mark.parametrize("m", [1, 4, 16, 64, 200, 256, 1024, 2048])
def test_rows(m):
    right(swiglu, (m, 512), (1032, 512), (1032, 512), most=2)
    right(geglu, (m, 512), (512, 1032), (512, 1032), most=2)


@pytest.mark.parametrize("m, k, n", [(77, 200, 264), (300, 72, 1000), (130, 1024, 8), (16, 4096, 520)])
def test_ragged(m, k, n):
    right(swiglu, (m, k), (n, k), (n, k), dtype=torch.float16, most=2)
    right(geglu, (m, k), (k, n), (k, n), dtype=torch.float16, most=2)


def test_any_number_of_columns():
    right(swiglu, (33, 264), (515, 264), (515, 264))
    right(swiglu, (300, 264), (5003, 264), (5003, 264))


@pytest.mark.parametrize("function, shapes", [(swiglu, ((1024, 1024), (2048, 1024), (2048, 1024))), (geglu, ((1024, 1024), (1024, 2048), (1024, 2048)))])
def test_all_forms(function, shapes):
    right(function, *shapes, schedules=measured, most=8)


def test_bias_on_both():
    right(lambda x, a, b, c, d: F.gelu(F.linear(x, a, c)) * F.linear(x, b, d), (200, 136), (264, 136), (264, 136), (264,), (264,))


@pytest.mark.parametrize("m, k, n", [(1, 512, 1032), (3, 136, 515), (4, 264, 264), (9, 512, 1032), (64, 264, 515), (600, 1536, 520), (256, 1024, 11008)])
def test_float32(m, k, n):
    right(swiglu, (m, k), (n, k), (n, k), schedules=float32, dtype=torch.float32, most=8)


@pytest.mark.parametrize("m, k, n", [(1, 512, 1032), (2, 136, 516)])
def test_float32_with_columns_together(m, k, n):
    right(geglu, (m, k), (k, n), (k, n), schedules=float32, dtype=torch.float32, most=4)


def test_float32_that_is_not_finite():
    x, g, u = torch.randn(70, 256, device="cuda"), torch.randn(96, 256, device="cuda"), torch.randn(96, 256, device="cuda")
    x[3, 5], g[7, 9], u[11, 13], x[33, 40] = torch.inf, -torch.inf, torch.nan, 3e38
    right(swiglu, x, g, u, schedules=float32, dtype=torch.float32, most=8)


def test_scalars_and_a_residual():
    right(lambda x, a, b, r: (x @ a) * 2 - torch.tanh(x @ b) * 0.5 + r, (200, 136), (136, 264), (136, 264), (200, 264))


def test_a_float32_result():
    right(lambda x, a, b: (x @ a).float() * torch.sigmoid((x @ b).float()), (200, 136), (136, 264), (136, 264))


def test_three_results():
    def parts(x, a, b):
        g, u = F.linear(x, a), F.linear(x, b)
        return F.silu(g) * u, g, u

    for m in (9, 200, 1024):
        right(parts, (m, 136), (264, 136), (264, 136))


def halves(h):
    g, u = h.chunk(2, -1)
    return F.silu(g) * u


@pytest.mark.parametrize("m", [1, 2, 16, 77, 200, 1024])
def test_chunks_of_one_weight(m):
    right(lambda x, w: halves(F.linear(x, w)), (m, 520), (2064, 520))
    right(lambda x, w: halves(x @ w), (m, 520), (520, 2064))


def test_chunks_with_all_around_them():
    right(lambda x, w, b: halves(F.linear(x, w, b)), (3, 130, 136), (528, 136), (528,))
    right(lambda x, w: torch.tanh((x @ w)[:, 264:]) - (x @ w)[:, :264], (200, 136), (136, 528))
    right(lambda x, w: F.gelu((x @ w)[:, 528:]) * (x @ w)[:, :264], (200, 136), (136, 792))
    right(lambda x, w, r, s: halves(x @ w) * s + r, (2, 65, 136), (136, 528), (2, 65, 264), (264,))
    right(lambda x, w, r: halves(torch.relu(x @ w) + r), (200, 136), (136, 528), (200, 528), dtype=torch.float16)


@pytest.mark.parametrize("function, shapes", [
    (lambda x, w: halves(F.linear(x, w)), ((1024, 1024), (4096, 1024))), (lambda x, w: halves(x @ w), ((1024, 1024), (1024, 4096)))])
def test_chunks_in_all_forms(function, shapes):
    right(function, *shapes, schedules=measured, most=8)


def test_batches():
    right(geglu, (3, 130, 64), (3, 64, 136), (3, 64, 136))


def test_a_scaled_operand():
    right(lambda x, s, a, b: F.silu((x * s) @ a) * ((x * s) @ b), (130, 512), (130, 1), (512, 264), (512, 264))


def test_a_narrowed_operand():
    x = torch.randn(130, 512, device="cuda")
    right(lambda x, a, b: F.silu(x.to(a.dtype) @ a) * (x.to(b.dtype) @ b), x, (512, 264), (512, 264))


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (torch.nn.Linear(*s, bias=False) for s in ((512, 1408), (512, 1408), (1408, 512)))

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def test_a_model():
    model = Mlp().cuda().bfloat16()
    for rows in (1, 100):
        right(model, (2, rows, 512))


def test_it_is_chosen():
    model, x = Mlp().cuda().bfloat16(), torch.randn(2, 100, 512, device="cuda").bfloat16()
    compiled, lazily = inferno.compile(model, (x,)), torch.compile(model, backend="inferno")
    with torch.no_grad():
        for call, report in ((compiled, compiled.explain()), (lazily, inferno.explain(lazily, x))):
            assert sorted(row.generator for row in report.rows) == ["dual", "wgmma"]
            verdict = check(call, model, (x,))
            assert verdict.right, str(verdict)


def test_training():
    model, x = Mlp().cuda().bfloat16(), torch.randn(200, 512, device="cuda").bfloat16()
    ours, eager, exact = torch.compile(model, backend="inferno"), model, copy.deepcopy(model).double()
    found = []
    for call, given in ((ours, x), (eager, x), (exact, x.double())):
        for p in (*model.parameters(), *exact.parameters()):
            p.grad = None
        call(given).square().sum().backward()
        of = exact if call is exact else model
        found.append([p.grad for p in of.parameters()])
    verdict = compare(*found)
    assert verdict.right, str(verdict)
