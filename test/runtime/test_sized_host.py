"""The native code that launches a plan whose sizes vary does for each size what that of a plan with these sizes does."""

import ctypes
import sys
from pathlib import Path

import pytest

from inferno.mlir import ExecutionEngine, ir, new_context
from inferno.runtime.launch.host import ARGUMENTS, STREAM, WORKSPACE, host_program
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan, Scalar, TensorMap, at_sizes
from inferno.symbolic import Symbol, ceildiv, maximum, minimum, size_of

sys.path.insert(0, str(Path(__file__).parent))
from test_host import ENCODE, LAUNCH

B, S = Symbol("s0", 0, 64, 1, 4), Symbol("s1", 1, 4096, 1, 100)
b, s = size_of(B), size_of(S)
X, OUT = Buffer("argument", 0, (b, s, 64), "bf16"), Buffer("result", 0, (b * s, 32), "f32")
SCRATCH = Buffer("workspace", ceildiv(b * s * 128, 256) * 256, (b * s, 32), "f32")
STEPS = (
    Launch("k::k", (ceildiv(b * s, 128), 2, 1), (128, 1, 1), (1, 1, 1), 0, (X, SCRATCH, Scalar(b * s), Scalar(minimum(s, 7) + maximum(b, 3) * 2))),
    Launch("k::l", (132, 1, 1), (128, 1, 1), (1, 1, 1), 1000, (
        TensorMap(SCRATCH, (32, b * s), (4, 128), (32, 64), "f32", 128, 256), OUT, Scalar(b),
        TensorMap(X, (64, s, b), (2, 128, s * 128), (64, 64, 1), "bf16", 128, 256),
    )),
)
PLAN = Plan(STEPS, (X,), (Output(OUT.shape, "f32", -1, 0),), SCRATCH.index + 10000, (B, S))


def record(plan: Plan, values: tuple[int, ...], result: int = 0x30000) -> tuple[list, list]:
    launches, encoded = [], []

    def launch(config, function, parameters, extra):
        c = config.contents
        kinds = [isinstance(p, TensorMap) for p in plan.steps[function - 1].parameters]
        found = [None if is_map else ctypes.c_int64.from_address(parameters[i]).value for i, is_map in enumerate(kinds)]
        launches.append((function, c.gx, c.gy, c.gz, c.bx, c.shared, found))
        return 0

    def encode(target, element, rank, address, sizes, strides, box, steps, *rest):
        encoded.append((element, address, sizes[:rank], strides[: rank - 1], box[:rank], steps[:rank], rest))
        return 0

    driver = LAUNCH(launch), ENCODE(encode)
    addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in driver]
    text = host_program(plan, [1, 2], *addresses, {0: ARGUMENTS + 1}, True)
    with new_context(), ir.Location.unknown():
        engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
        engine.initialize()
    state = (ctypes.c_int64 * (ARGUMENTS + 4))()
    state[STREAM], state[WORKSPACE], state[ARGUMENTS], state[ARGUMENTS + 1] = 0x57, 0x10000, 0x20000, result
    state[ARGUMENTS + 2], state[ARGUMENTS + 3] = values
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))(base)
    return launches, encoded


@pytest.mark.parametrize("values", [(4, 100), (1, 1), (64, 4096), (3, 5)])
def test_as_a_plan_of_numbers(values):
    assert record(PLAN, values) == record(at_sizes(PLAN, dict(zip(("s0", "s1"), values))), (0, 0))


def test_a_tensor_without_elements_has_no_map():
    map_ = TensorMap(OUT, (32, b * s), (4, 128), (32, 64), "f32", 128, 256)
    empty = Plan((Launch("k::k", (b, 1, 1), (128, 1, 1), (1, 1, 1), 0, (map_,)),), (X,), PLAN.outputs, 0, (B, S))
    launches, encoded = record(empty, (0, 5), result=0)
    assert not launches and not encoded


def test_an_empty_grid_is_no_launch():
    launches, encoded = record(PLAN, (0, 7))
    assert [at[0] for at in launches] == [2]
    assert encoded[0][2] == [32, 1]  # the driver takes no size of 0
