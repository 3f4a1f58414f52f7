"""The native code that launches a plan, with functions of ours in the driver's place."""

import ctypes
from dataclasses import replace

import pytest
from fake_driver import FakeDriver

from inferno.mlir import ExecutionEngine, ir, idle_context
from inferno.runtime.launch import host
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STEP, STREAM, WORKSPACE, host_program
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan, TensorMap


ARGUMENT, SCRATCH, RESULT = (
    Buffer("argument", 0, (64, 64), "bf16"), Buffer("workspace", 512, (64,), "f32"), Buffer("result", 0, (64,), "f32"),
)
STEP_ = Launch(
    "k::k", (4, 2, 1), (128, 1, 1), (1, 1, 1), 1000,
    (TensorMap(ARGUMENT, (64, 32), (2, 128), (64, 8), "bf16", 128, 256), SCRATCH, RESULT),
)


def run(early: bool = True, fails_at: int = -1) -> tuple[FakeDriver, list[int]]:
    """The driver, and the state afterwards, of a plan with two kernels."""
    driver = FakeDriver({0x1234: 3, 0x5678: 3}, launch_fails_at=fails_at)
    plan = Plan((STEP_, STEP_), (ARGUMENT,), (Output((64,), "f32", -1, 0),), 1024)
    text = host_program(plan, [0x1234, 0x5678], driver.launch, driver.encode, {0: ARGUMENTS + 1}, early)
    with idle_context(), ir.Location.unknown():
        engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
        engine.initialize()
    state = (ctypes.c_int64 * (ARGUMENTS + 2))()
    state[STREAM], state[WORKSPACE], state[ARGUMENTS], state[ARGUMENTS + 1] = 0x57, 0x10000, 0x20000, 0x30000
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))(base)
    return driver, list(state)


@pytest.fixture(params=["rows", "straight-line"], autouse=True)
def form(request, monkeypatch):
    """Both forms of the code; plans with sizes that vary are straight-line alone."""
    if request.param == "straight-line":
        monkeypatch.setattr(host, "rows_of", lambda *args: None)


@pytest.mark.parametrize("early", [True, False])
def test_every_kernel_is_launched(early):
    driver, state = run(early)
    assert [x[0] for x in driver.launches] == [0x1234, 0x5678] and state[ERROR] == 0
    for i, (_, sizes, stream, attributes, values) in enumerate(driver.launches):
        assert sizes == (4, 2, 1, 128, 1, 1, 1000) and stream == 0x57
        assert values == [i, 0x10000 + 512, 0x30000]
        # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, allowed
        assert attributes == ([(6, 1)] if early else [])
    # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; no interleave; the swizzle of 128 bytes, promotion to 256 in L2, zeros outside
    assert driver.maps == [(9, 0x20000, [64, 32], [128], [64, 8], [1, 1], (0, 3, 3, 0))] * 2


def test_parts_of_arguments_and_results(monkeypatch):
    whole = replace(STEP_.parameters[0], buffer=replace(ARGUMENT, offset=256))
    monkeypatch.setitem(globals(), "STEP_", replace(STEP_, parameters=(whole, SCRATCH, replace(RESULT, offset=32))))
    driver, state = run()
    assert state[ERROR] == 0 and [x[4] for x in driver.launches] == [[i, 0x10000 + 512, 0x30000 + 32] for i in range(2)]
    assert [m[1] for m in driver.maps] == [0x20000 + 256] * 2


def test_kernels_whose_blocks_wait_for_each_other(monkeypatch):
    monkeypatch.setitem(globals(), "STEP_", replace(STEP_, cooperative=True))
    driver, state = run()
    assert state[ERROR] == 0 and [x[3] for x in driver.launches] == [[(2, 1)]] * 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE


@pytest.mark.parametrize("fails_at", [0, 1])
def test_nothing_is_launched_behind_a_failure(fails_at):
    driver, state = run(fails_at=fails_at)
    assert driver.calls == fails_at + 1 and (state[ERROR], state[STEP]) == (719, fails_at)


def test_a_plan_of_nothing():
    text = host_program(Plan((), (ARGUMENT,), (), 0), [], 1, 2, {}, True)
    with idle_context(), ir.Location.unknown():
        engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
    state = (ctypes.c_int64 * (ARGUMENTS + 1))()
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))(base)
    assert state[ERROR] == 0
