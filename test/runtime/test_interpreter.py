"""The interpreter of launch plans does what the native code does, with functions of ours in the driver's place."""

import ctypes
import random
import threading

import pytest
from fake_driver import FakeDriver

from inferno.errors import PlanError
from inferno.mlir import ExecutionEngine, ir, idle_context
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STEP, STREAM, WORKSPACE, host_program
from inferno.runtime.launch.interpreter import interpreter, sized_interpreter
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan, Scalar, TensorMap
from inferno.symbolic import Symbol, ceildiv, size_of

ARGUMENT, OTHER, SCRATCH, RESULT = (
    Buffer("argument", 0, (64, 64), "bf16"), Buffer("argument", 1, (8,), "f32"), Buffer("workspace", 512, (64,), "f32"),
    Buffer("result", 1, (64,), "f32"),
)
MAP = TensorMap(ARGUMENT, (64, 32), (2, 128), (64, 8), "bf16", 128, 256)
FLAT = TensorMap(SCRATCH, (64,), (4,), (32,), "f32", 0, 0)
STEPS = (
    Launch("k::k", (4, 2, 1), (128, 1, 1), (1, 1, 1), 1000, (MAP, SCRATCH, RESULT)),
    Launch("none::none", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, ()),
    Launch("m::m", (7, 1, 3), (64, 2, 1), (1, 1, 1), 0, (OTHER, MAP, FLAT, RESULT, ARGUMENT)),
)
PLAN = Plan(STEPS, (ARGUMENT, OTHER), (Output((8,), "f32", argument=1), Output((64,), "f32", result=1)), 1024)
FUNCTIONS, WORDS = [0x1234, 0x5678, 0x9ABC], {1: ARGUMENTS + 2}
COUNTS = {f: len(s.parameters) for f, s in zip(FUNCTIONS, STEPS)}


def make_state(addresses: list[int], stream: int = 0x57, workspace: int = 0x10000):
    state = (ctypes.c_int64 * (ARGUMENTS + len(addresses)))(0, 0, 0, 0, stream, workspace, *addresses)
    assert (state[STREAM], state[WORKSPACE]) == (stream, workspace)
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    return state, base


def call(run, addresses: list[int], **rest) -> list[int]:
    """The state after a call."""
    state, base = make_state(addresses, **rest)
    run(base)
    return list(state)


def native(plan, driver, early):
    text = host_program(plan, FUNCTIONS, driver.launch, driver.encode, WORDS, early)
    with idle_context(), ir.Location.unknown():
        engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
        engine.initialize()
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))
    entry.engine = engine
    return entry


def seen(driver):
    """The launches with the tensor maps in their places: what the driver was asked for."""
    maps = driver.maps
    return [
        (*head, [maps[v] if isinstance(p, TensorMap) else v for v, p in zip(values, STEPS[FUNCTIONS.index(head[0])].parameters)])
        for *head, values in driver.launches
    ]


@pytest.mark.parametrize("early", [True, False])
def test_it_launches_what_the_native_code_launches(early):
    ours, theirs = FakeDriver(COUNTS), FakeDriver(COUNTS)
    run, reference = interpreter(PLAN, FUNCTIONS, ours.launch, ours.encode, WORDS, early), native(PLAN, theirs, early)
    generator = random.Random(0)
    for _ in range(3):
        addresses, stream = [16 * generator.randrange(2**40) for _ in range(4)], generator.randrange(2**40)
        for f in (run, reference):
            assert call(f, addresses[:3], stream=stream, workspace=addresses[3])[ERROR] == 0
    assert seen(ours) == seen(theirs) and len(ours.launches) == 9
    assert [x[3] for x in ours.launches[:3]] == [[(6, 1)] if early else []] * 3


def test_a_tensor_map_is_made_again_where_its_buffer_has_moved_alone():
    driver = FakeDriver(COUNTS)
    run = interpreter(PLAN, FUNCTIONS, driver.launch, driver.encode, WORDS, True)
    for addresses, workspace, made in ([16, 32, 48], 0, 2), ([16, 64, 80], 0, 2), ([96, 64, 80], 0, 3), ([96, 64, 80], 256, 4):
        call(run, addresses, workspace=workspace)
        assert len(driver.maps) == made
    assert [m[1] for m in driver.maps] == [16, 512, 96, 768]
    assert all(slot % 64 == 0 for slot in driver.slots)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_nothing_is_launched_behind_a_failure(step):
    driver = FakeDriver(COUNTS, launch_fails_at=step)
    state = call(interpreter(PLAN, FUNCTIONS, driver.launch, driver.encode, WORDS, True), [16, 32, 48])
    assert (state[ERROR], state[STEP]) == (719, step) and len(driver.launches) == step


@pytest.mark.parametrize(("map_", "step"), [(0, 0), (1, 2)])
def test_a_tensor_map_that_fails_is_an_error_and_is_tried_again(map_, step):
    driver = FakeDriver(COUNTS, encode_fails_at=map_)
    run = interpreter(PLAN, FUNCTIONS, driver.launch, driver.encode, WORDS, True)
    for _ in range(2):
        state = call(run, [16, 32, 48])
        assert (state[ERROR], state[STEP]) == (1, step) and not driver.launches


def test_threads_do_not_see_each_other():
    driver = FakeDriver(COUNTS)
    run = interpreter(PLAN, FUNCTIONS, driver.launch, driver.encode, WORDS, True)

    def work(number):
        for i in range(50):
            call(run, [1600 * number + 16 * i, number, number], stream=number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(driver.launches) == 4 * 50 * 3
    for function, _, stream, _, values in driver.launches:
        if function == FUNCTIONS[2]:
            assert values[0] == values[3] == stream
            assert driver.maps[values[1]][1] == values[4] and values[4] // 1600 == stream


def test_a_plan_without_steps_does_nothing():
    driver = FakeDriver({})
    state = call(interpreter(Plan((), (), (), 0), [], driver.launch, driver.encode, {}, True), [])
    assert state[ERROR] == 0 and not driver.launches


def test_numbers_are_parameters_too():
    driver = FakeDriver({0x11: 3})
    plan = Plan((Launch("k::k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (Scalar(77), ARGUMENT, Scalar(2**40))),), (ARGUMENT,), (), 0)
    call(interpreter(plan, [0x11], driver.launch, driver.encode, {}, True), [16])
    assert driver.launches[0][-1] == [77, 16, 2**40]


def sized_plan(workspace) -> Plan:
    """A kernel over n rows of 64, by a tensor map, and one that copies what is behind them in the workspace."""
    n = size_of(Symbol("s0", 0, 4096))
    x, scratch = Buffer("argument", 0, (n, 64), "bf16"), Buffer("workspace", ceildiv(128 * n, 256) * 256, (n,), "f32")
    rows = TensorMap(x, (64, n), (2, 128), (64, 8), "bf16", 128, 256)
    steps = (
        Launch("a::a", (ceildiv(n, 8), 1, 1), (128, 1, 1), (1, 1, 1), 0, (rows, scratch, Scalar(n))),
        Launch("b::b", (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (Scalar(2 * n + 1),)),
    )
    return Plan(steps, (x,), (), workspace(n), (Symbol("s0", 0, 4096),))


def test_sizes_that_vary():
    driver = FakeDriver({0x11: 3, 0x22: 1}, launch_fails_at=3)
    at = sized_interpreter(sized_plan(lambda n: ceildiv(128 * n, 256) * 256 + 256 * n), [0x11, 0x22], driver.launch, driver.encode, {}, True)
    assert at((20,)) is at((20,))
    call(at((20,)), [16], workspace=0x10000)
    assert [(x[0], x[1][0], x[-1]) for x in driver.launches] == [(0x11, 3, [0, 0x10000 + 2560, 20]), (0x22, 1, [41])]
    assert driver.maps[0][2] == [64, 20]
    assert call(at((0,)), [16])[ERROR] == 0  # no rows, no blocks
    assert [(x[0], x[-1]) for x in driver.launches[2:]] == [(0x22, [1])]
    state = call(at((0,)), [16])
    assert (state[ERROR], state[STEP]) == (719, 1)


def test_sizes_at_which_a_plan_does_not_fit_together_are_refused():
    driver = FakeDriver({0x11: 3, 0x22: 1})
    at = sized_interpreter(sized_plan(lambda n: 4096), [0x11, 0x22], driver.launch, driver.encode, {}, True)
    call(at((4,)), [16])
    with pytest.raises(PlanError, match="400 bytes at 12800 are not in a workspace of 4096"):
        at((100,))
