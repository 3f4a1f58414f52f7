"""Tuning on a GPU: the results are right and used, and neither a fault nor a kernel that never ends hurts who asked."""

from dataclasses import replace

import pytest
import torch
from checks import assert_right

import inferno
from inferno.runtime.database import gpu_name, own_folder, read
from inferno.runtime.device import target_of
from inferno.runtime.plan.plan import Buffer, Launch, Plan
from inferno.runtime.workers.pool import pool
from inferno.tune import measurer, search

F = torch.nn.functional


def randn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


@pytest.fixture
def quick(monkeypatch, cache_folder):
    """Few candidates, and a database of the test's own."""
    monkeypatch.setattr(search, "MOST", 6)
    monkeypatch.setattr("inferno.runtime.database.SHIPPED", cache_folder)


def entries():
    path = own_folder() / f"{gpu_name(torch.device('cuda', 0))}.json"
    return read(path).get(target_of(torch.device("cuda")).name, {})


CASES = {
    "bf16": (lambda x, w: torch.relu(x @ w), ((256, 512), (512, 384)), torch.bfloat16),
    "f32": (lambda x, w: torch.relu(x @ w), ((256, 512), (512, 384)), torch.float32),
    "f64": (lambda x, w: x @ w, ((65, 130), (130, 33)), torch.float64),
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), ((33, 100), (50, 100), (50,)), torch.float16),
    "elementwise": (lambda x, y: torch.sigmoid(x * y), ((1000, 777), (1000, 777)), torch.float32),
    "transposed": (lambda x, y: x.t() + y, ((1024, 768), (768, 1024)), torch.float32),
    "norm": (lambda x: F.layer_norm(x, (777,)), ((500, 777),), torch.float32),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_measured_best_is_right_and_used(quick, case):
    function, shapes, dtype = CASES[case]
    args = tuple(randn(*s, dtype=dtype) for s in shapes)
    if dtype == torch.float64:  # eager is its own reference there: whole numbers, whose sums are the same in any order
        args = tuple(a.mul(4).round() for a in args)
    compiled = assert_right(function, args, tune=True)
    found = entries()
    assert found and all(e.time > 0 and e.measured > 1 for e in found.values())
    assert all(e.model_time is not None and e.time <= e.model_time for e in found.values()), "the model's choice is right, and one of them"
    assert all(e.schedule in compiled.ir("scheduled") for e in found.values())
    again = inferno.compile(function, args)
    assert all(e.schedule in again.ir("scheduled") for e in found.values()), "also of later compiles"


def test_torch_compile_tunes(quick):
    fast = torch.compile(lambda x, w: torch.relu(x @ w), backend="inferno", options={"tune": True})
    x, w = randn(64, 96), randn(96, 128)
    assert (fast(x, w) - torch.relu(x @ w)).abs().max() < 1
    assert len(entries()) == 1


@pytest.fixture(scope="module")
def problem():
    """A matmul, and one GPU to measure it on."""
    made = inferno.compile(lambda x, w: torch.relu(x @ w), (randn(256, 256), randn(256, 256)))
    target = made.program.target
    fused = pool().run("test", "fuse", text=made.ir("fused"), target=target.name, stage="fused")
    (name, key), = fused.keys.items()
    found = pool().run("test", "tuning_problem", text=fused.kernels[name], key=key, target=target.name)
    one = measurer.Measurer(0)
    one.begin(found)
    yield found, one
    one.close()


def built(problem, schedule=None):
    return pool().run("test", "build_alone", text=problem.with_schedule(schedule or problem.chosen), alone=problem.alone, target=problem.target)


def works(problem, one):
    found = one.measure(*built(problem), None)
    return not found.failure and found.time > 0


def test_times_are_repeatable(problem):
    found, one = problem
    kernel, plan = built(found)
    times = [one.measure(kernel, plan, None, thorough=True).time for _ in range(3)]
    assert max(times) < 1.2 * min(times)


def test_a_wrong_result_does_not_count(problem):
    found, one = problem
    other = replace(found, text=found.text.replace("arith.cmpf ugt", "arith.cmpf ult"))
    assert other.text != found.text
    assert "its result is wrong" in one.measure(*built(other), None).failure
    assert works(found, one)


def test_a_fault_is_a_failure_of_the_candidate(problem):
    found, one = problem
    kernel, plan = built(found, '{generator = "simt", tile_m = 32 : i64, tile_n = 32 : i64, tile_k = 64 : i64, thread_m = 4 : i64, thread_n = 4 : i64, '
                                'slices = 4 : i64, stages = 2 : i64, chunk = 64 : i64}')
    step = plan.steps[0]
    broken = tuple(replace(p, place="workspace", index=1 << 45) if isinstance(p, Buffer) else p for p in step.parameters)
    assert broken != step.parameters
    assert one.measure(kernel, replace(plan, steps=(replace(step, parameters=broken),)), None).failure
    assert works(found, one) and torch.ones(4, device="cuda").sum() == 4


def test_a_kernel_that_never_ends_is_ended(problem, monkeypatch):
    found, one = problem
    kernel, plan = built(found)
    target = f".version 8.0\n.target {kernel.ptx.partition('.target ')[2].split()[0].strip(',')}\n.address_size 64\n"
    endless = target + ".visible .entry forever() { .reg .b64 %r; loop: mov.u64 %r, %clock64; bra loop; }\n"
    step = Launch("code::forever", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, ())
    assert works(found, one)  # so that all is ready, and the limit is the kernel's alone
    monkeypatch.setattr(measurer, "MEASURE", 3.0)
    stuck = Plan((step,), plan.arguments, plan.outputs, 0)
    assert "did not end within 3 s" in one.measure(replace(kernel, code="code", ptx=endless, cubin=None), stuck, None).failure
    monkeypatch.setattr(measurer, "MEASURE", 30.0)
    assert works(found, one)
