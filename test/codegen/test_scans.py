"""Scans that read each element once: their numbers on a simulated GPU with every kind of schedule, and what they are made of."""

import pytest
import torch
from checks import check, scheduled
from scan_cases import FUSED, PASSES
from universal_program import SimulatedModel, assert_assembles

import inferno
from inferno.capture.running import recurrence
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.scans import scans
from inferno.schedule.scans.scan_schedule import Scans
from inferno.target import find_target

TARGET = find_target("sm_90a")
randn, bf16 = torch.randn, torch.bfloat16


def cumsum(dim):
    return lambda x: x.cumsum(dim)


def simulated(model, args, schedule=None, launches=0):
    """The model with a schedule for its scans, or with the chosen ones."""
    used = []

    def choose(kernel):
        found = scans.read(kernel, TARGET)
        if found is None:
            return None
        used.append(schedule or scans.pick(found, TARGET))
        return used[-1]

    made = SimulatedModel(model, args, choose=choose, passes=PASSES)
    assert used and launches in (0, len(made.program.plan.steps))
    return made


CASES = {
    "one element": (cumsum(1), lambda: randn(1, 1)),
    "rows of one element": (cumsum(1), lambda: randn(6, 1)),
    "rows of one element, of several each": (cumsum(1), lambda: randn(6, 1, 4)),
    "short rows": (cumsum(-1), lambda: randn(7, 64)),
    "an odd length": (cumsum(-1), lambda: randn(3, 999)),
    "a row a block": (cumsum(-1), lambda: randn(3, 5000)),
    "integers": (cumsum(-1), lambda: torch.randint(-9, 9, (5, 1000))),
    "products": (lambda x: x.cumprod(-1), lambda: 1 + randn(3, 700) / 50),
    "products of integers": (lambda x: x.cumprod(-1), lambda: torch.randint(-1, 2, (5, 100))),
    "sums of exponentials": (lambda x: x.logcumsumexp(0), lambda: randn(200, 5) * 9),
    "maxima, and where they are": (lambda x: x.cummax(-1), lambda: torch.randint(-9, 9, (5, 300)) / 2.0),
    "a recurrence": (lambda a, b: recurrence(a, b, 1), lambda: (torch.rand(2, 70, 40), randn(2, 70, 40))),
    "a recurrence along memory": (lambda a, b: recurrence(a, b, -1), lambda: (torch.rand(3, 700), randn(3, 700))),
    "a recurrence with infinite factors": (lambda a, b: recurrence(a / 0, b, 0), lambda: (torch.ones(9, 4), torch.ones(9, 4))),
    "a recurrence with infinite states": (lambda a, b: recurrence(a, b / 0, 0), lambda: (randn(9, 4), torch.ones(9, 4))),
    "the first dimension": (cumsum(0), lambda: randn(70, 64)),
    "the first, odd sizes": (cumsum(0), lambda: randn(300, 51)),
    "the middle, few columns": (cumsum(1), lambda: randn(3, 300, 3)),
    "the middle, f16": (cumsum(1), lambda: randn(3, 70, 64).half()),
}


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    torch.manual_seed(0)
    model, make = CASES[name]
    made = make()
    args = made if isinstance(made, tuple) else (made,)
    found = check(simulated(model, args), model, args)
    assert found.right, str(found)


SCHEDULES = [
    ((2, 3000), 1, torch.float32, Scans(64, 64, 4, 2, 1)),
    ((2, 3000), 1, bf16, Scans(64, 64, 8, 2, 4)),
    ((1, 9000), 1, torch.float32, Scans(64, 64, 2, 2, 64)),
    ((2, 3000), 1, torch.int64, Scans(128, 128, 2, 2, 4)),
    ((2, 200, 64), 1, torch.float32, Scans(128, 8, 4, 2)),
    ((2, 200, 64), 1, torch.float32, Scans(128, 8, 2, 2, 1)),
    ((2, 200, 64), 1, torch.float32, Scans(128, 8, 4, 2, 4)),
    ((2, 150, 300), 1, bf16, Scans(128, 64, 2, 4)),
    ((600, 3), 0, torch.float32, Scans(64, 4, 1, 2, 16)),
    ((900, 64), 0, bf16, Scans(256, 16, 4, 16, 16)),
    ((2, 3000), 1, torch.float32, Scans(64, 64, 4, 2, 0, 2)),
    ((2, 200, 64), 1, torch.float32, Scans(64, 8, 4, 2, 4, stages=1)),
    ((900, 48), 0, bf16, Scans(64, 4, 8, 4, 16, stages=1, resident=6)),
    ((700, 6), 0, torch.int64, Scans(64, 4, 2, 3, 2, stages=1)),
    ((300, 5), 0, bf16, Scans(64, 8, 1, 2, 4, stages=1)),
    ((5000, 16), 0, torch.float32, Scans(512, 2, 4, 8, 8)),
    ((1200, 64), 0, bf16, Scans(256, 16, 4, 16, stages=1)),
]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("shape, dim, dtype, schedule", SCHEDULES, ids=lambda v: str(v).replace("torch.", ""))
def test_schedules(shape, dim, dtype, schedule):
    torch.manual_seed(0)
    args = (torch.randint(-9, 9, shape) if dtype == torch.int64 else randn(shape).to(dtype),)
    found = check(simulated(cumsum(dim), args, schedule), cumsum(dim), args)
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shape, dim, schedule", [
    ((3, 5000), 1, None), ((1, 30000), 1, Scans(256, 256, 4, 8, 128)), ((500, 64), 0, None), ((500, 64), 0, Scans(256, 16, 4, 8, 16)),
])
def test_assembles(shape, dim, schedule):
    assert_assembles(simulated(cumsum(dim), (randn(shape),), schedule).program.gpu, TARGET)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", FUSED)
def test_one_kernel(name):
    torch.manual_seed(0)
    model, make, schedule = FUSED[name]
    args = make()
    launches = 2 if schedule is not None and schedule.group else 1
    found = check(simulated(model, args, schedule, launches), model, args)
    assert found.right, str(found)


def test_packed():
    """Numbers of 16 bits stay as they were read until it is known what is in front of them."""
    torch.manual_seed(0)
    args = (randn(2, 8800).to(bf16),)
    found = check(simulated(cumsum(1), args, Scans(64, 64, 8, 2, 4, packed=True)), cumsum(1), args)
    assert found.right, str(found)
    with pytest.raises(CompileError, match="does not fit"):
        simulated(cumsum(1), (randn(2, 8800),), Scans(64, 64, 4, 2, 4, packed=True))


def test_what_stays_apart():
    """A transposed operand would be read element by element, and what something else reads is written anyway."""
    args = (randn(40, 40),)
    for model in (lambda x: (x.t() * 2).cumsum(-1), lambda x: ((y := x * 2).cumsum(-1), y.sum(0))):
        found = check(simulated(model, args, launches=2), model, args)
        assert found.right, str(found)


def test_not_a_number_and_infinity():
    x = randn(4, 900)
    x[0, 5], x[1, 700], x[2, 3], x[2, 9] = torch.nan, torch.inf, torch.inf, -torch.inf
    torch.testing.assert_close(simulated(cumsum(1), (x,))(x), x.cumsum(1), equal_nan=True)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dim, schedule", [(1, Scans(64, 64, 4, 2, 4)), (0, Scans(64, 2, 4, 2))])
def test_logarithms_of_sums(dim, schedule):
    """Of numbers that grow, fall, are far apart, infinite or no number."""
    torch.manual_seed(0)
    x = randn(8, 1200) * 30
    x[0, 5], x[1, 7], x[2, 3], x[3, 100:], x[4] = torch.nan, torch.inf, -torch.inf, -torch.inf, x[4] * 1e5
    x[5, :50], x[5, 60], x[6], x[7] = -torch.inf, torch.inf, torch.linspace(-3e3, 3e3, 1200), torch.linspace(3e3, -3e3, 1200)
    x = x if dim else x.t().contiguous()
    model = simulated(lambda x: x.logcumsumexp(dim), (x,), schedule)
    assert "math.log1p" not in model.program.gpu
    torch.testing.assert_close(model(x).double(), x.double().logcumsumexp(dim), rtol=5e-7, atol=1e-6, equal_nan=True)


def test_zeros_keep_their_sign():
    x = torch.tensor([[-0.0, -0.0, 0.0, -0.0]] * 3)
    assert simulated(cumsum(1), (x,))(x).signbit().tolist() == [[True, True, False, False]] * 3


def scan(shape: str, length: str, dim: int) -> str:
    return f"""func.func private @scan(%a: tensor<{shape}xf32>, %o: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
      %e = tensor.empty() : tensor<{length}xf32>
      %r:2 = tm_tensor.scan dimension({dim}) inclusive(true) ins(%a : tensor<{shape}xf32>) outs(%o, %e : tensor<{shape}xf32>, tensor<{length}xf32>) {{
      ^bb0(%x: f32, %y: f32):
        %s = arith.addf %x, %y : f32
        tm_tensor.yield %s : f32 }} -> tensor<{shape}xf32>, tensor<{length}xf32>
      return %r#0 : tensor<{shape}xf32> }}"""


@pytest.mark.parametrize("shape, length, dim, group", [
    ("8192x8192", "8192", 1, False), ("64x1048576", "64", 1, True), ("1024x65536", "1024", 1, False), ("256x512x512", "256x512", 1, False),
    ("1048576x64", "64", 0, True), ("8192x8192", "8192", 0, False),
])
def test_few_rows_are_many_blocks(shape, length, dim, group):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(scan(shape, length, dim))
        assert (scans.pick(scans.read(kernels(module)[0], TARGET), TARGET).group > 0) == group


@pytest.mark.covering
@pytest.mark.parametrize("shape, dtype, expected", [
    ((65536, 1024), torch.float32, Scans(256, 8, 4, 8, 8, resident=4)),
    ((65536, 1024), bf16, Scans(256, 16, 4, 16, 8, stages=1, resident=5)),
    ((65536, 1000), bf16, Scans(256, 16, 4, 16, 16)),  # whose lines are not whole
    ((16384, 4096), torch.float32, Scans(256, 8, 4, 8, stages=1)), ((16384, 4096), bf16, Scans(256, 8, 4, 16, stages=1)),
    ((1 << 20, 64), torch.float32, Scans(512, 2, 4, 8, 8)), ((1 << 20, 64), bf16, Scans(256, 8, 4, 16, 32)),
    ((1000, 96), bf16, Scans(512, 4, 4, 8)), ((500, 96), bf16, Scans(512, 8, 4, 8)),  # of few columns as many as have one tile
])
def test_what_columns_ask_for(shape, dtype, expected):
    """Of many columns blocks walk, of fewer they look back, of a few in narrow groups."""
    assert chosen(cumsum(0), shape, dtype) == expected


def test_small_numbers_and_where_they_are_wait():
    assert chosen(lambda x: x.cummax(0), (65536, 1024), bf16) == Scans(256, 16, 2, 16, 8, stages=1)


def chosen(model, shape, dtype):
    text = scheduled(model, (torch.empty(shape, dtype=dtype),)).stages["scheduled"]
    with idle_context(), ir.Location.unknown():
        made = [from_attribute(k.attributes[ATTRIBUTE]) for k in kernels(ir.Module.parse(text))]
        return next(s for s in made if isinstance(s, Scans))


def test_schedules_that_do_not_fit():
    with pytest.raises(CompileError, match="does not fit"):
        simulated(cumsum(1), (randn(3, 50),), Scans(64, 64, 4, 1))
    with pytest.raises(CompileError, match="does not fit"):
        simulated(cumsum(0), (randn(300, 256),), Scans(64, 64, 4, 1, 1))  # a thread for each column asks for what is in front of it
    with pytest.raises(CompileError, match="does not fit"):
        simulated(cumsum(1), (randn(3, 50000),), Scans(512, 512, 4, 8, 0, 3))  # more than 160 KB


def test_what_each_row_has_once_is_computed_once():
    """The steps of a state space are a softplus of its width, which all of its states share: a kernel in front of the scan makes them."""
    def model(u, a, b, x, w):
        dt = torch.nn.functional.softplus(u.float() + w)
        states = recurrence(torch.exp(-torch.exp(a) * dt[..., None]), dt[..., None] * b[:, 16:].float()[:, None] * x[..., None].float(), 0)
        return states.to(bf16)

    args = randn(1024, 2048).to(bf16), randn(2048, 16), randn(1024, 32).to(bf16), randn(1024, 2048).to(bf16), randn(2048)
    rows = inferno.compile(model, args, target="sm_90a").explain().rows
    assert [r.generator for r in rows] == ["elementwise", "scans"]
    assert "items=16" in rows[1].schedule and "threads=64" in rows[1].schedule


def test_pairs_are_not_written_where_states_are_summed():
    """A recurrence runs over pairs of numbers; the states of them are its kernel's, and not of the kernel that sums them."""
    def model(a, b, c):
        return (recurrence(a, b, 0).to(bf16) @ c.unsqueeze(-1))[..., 0] * 2

    args = torch.rand(1024, 2048, 16), randn(1024, 2048, 16), randn(1024, 16).to(bf16)
    compiled = inferno.compile(model, args, target="sm_90a")
    assert [r.generator for r in compiled.explain().rows] == ["scans", "short_vectors"]
    assert not any("xi64" in line for line in compiled.ir("scheduled").splitlines() if " call @" in line)


def test_recurrences_of_many_rows():
    """By few threads that walk 16 places each: more than one tile, the last one not full, and columns that do not fill blocks."""
    model, args = lambda a, b: recurrence(a, b, 1), (torch.rand(2, 150, 40), randn(2, 150, 40))
    found = check(simulated(model, args, Scans(64, 16, 2, 16)), model, args)
    assert found.right, str(found)
