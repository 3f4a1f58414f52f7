"""Maps of pixels (the copy engine's im2col mode) in launch plans: as data, and on their way to the driver."""

import ctypes
import json
from dataclasses import replace

import pytest
from fake_driver import FakeDriver

from inferno.errors import PlanError
from inferno.mlir import ExecutionEngine, ir, idle_context
from inferno.runtime.launch import host
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STREAM, WORKSPACE, host_program
from inferno.runtime.launch.interpreter import interpreter
from inferno.runtime.plan.data import check_plan, plan_from_dict
from inferno.runtime.plan.plan import Buffer, Launch, Output, PixelMap, Plan, TensorMap

IMAGE, RESULT = Buffer("argument", 0, (2, 9, 11, 72), "bf16"), Buffer("result", 0, (64,), "f32")
FLAT = PixelMap(IMAGE, (72, 11, 9, 2), (2, 144, 1584, 14256), (64, 128), "bf16", 128, 256, (-1, -2), (-3, 4), (2, 3))
LINE = PixelMap(IMAGE, (72, 99, 2), (2, 144, 14256), (32, 64), "bf16", 64, 0, (-300,), (7,), (1,))
DEEP = PixelMap(IMAGE, (72, 11, 3, 3, 2), (2, 144, 1584, 4752, 14256), (64, 1024), "bf16", 128, 128, (-1, -16, 2), (15, -2, 0), (8, 1, 1))
TILES = TensorMap(IMAGE, (72, 198), (2, 144), (64, 8), "bf16", 128, 256)
PLAN = Plan((Launch("k::k", (4, 1, 1), (128, 1, 1), (1, 1, 1), 0, (FLAT, TILES, LINE, DEEP, RESULT)),), (IMAGE,), (Output((64,), "f32", result=0),), 0)
# The driver's arguments but for the map: bf16 is 9, no interleave, the swizzle, the promotion to L2, zeros outside.
MADE = [
    (9, 0x20000, [72, 11, 9, 2], [144, 1584, 14256], [-1, -2], [-3, 4], 64, 128, [1, 2, 3, 1], (0, 3, 3, 0)),
    (9, 0x20000, [72, 198], [144], [64, 8], [1, 1], (0, 3, 3, 0)),
    (9, 0x20000, [72, 99, 2], [144, 14256], [-300], [7], 32, 64, [1, 1, 1], (0, 2, 0, 0)),
    (9, 0x20000, [72, 11, 3, 3, 2], [144, 1584, 4752, 14256], [-1, -16, 2], [15, -2, 0], 64, 1024, [1, 8, 1, 1, 1], (0, 3, 2, 0)),
]


@pytest.mark.parametrize("form", ["rows", "straight-line", "interpreter"])
def test_the_driver_makes_them(form, monkeypatch):
    driver = FakeDriver({0x1234: 5})
    given = PLAN, [0x1234], driver.launch, driver.encode, {0: ARGUMENTS + 1}, True, driver.pixels
    state = (ctypes.c_int64 * (ARGUMENTS + 2))()
    state[STREAM], state[WORKSPACE], state[ARGUMENTS], state[ARGUMENTS + 1] = 0x57, 0x10000, 0x20000, 0x30000
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    if form == "interpreter":
        interpreter(*given)(base)
    else:
        if form == "straight-line":
            monkeypatch.setattr(host, "rows_of", lambda *args: None)
        with idle_context(), ir.Location.unknown():
            engine = ExecutionEngine(ir.Module.parse(host_program(*given)), opt_level=0)
            engine.initialize()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))(base)
    assert state[ERROR] == 0 and driver.maps == MADE
    assert driver.launches[0][-1] == [0, 1, 2, 3, 0x30000]


def test_they_are_plain_data():
    check_plan(PLAN)
    assert plan_from_dict(json.loads(json.dumps(PLAN.as_dict()))) == PLAN


@pytest.mark.parametrize(("change", "says"), [
    ({"box": (64, 1025)}, r"box \(64, 1025\); 1 to 256 channels of 1 to 1024 pixels"), ({"box": (64, 8, 1, 1)}, "box"),
    ({"lower": (-129, 0)}, r"from \(-129, 0\) to"), ({"steps": (9, 1)}, r"by \(9, 1\)"), ({"upper": (0,)}, r"corners \(-1, -2\), \(0,\)"),
    ({"upper": (-12, 4)}, "without any"), ({"sizes": (72, 11), "strides": (2, 144)}, "map of pixels of 2 sizes"),
    ({"sizes": (72, 11, 9, 3)}, "beyond|bytes of a buffer"),
])
def test_wrong_ones_are_refused(change, says):
    launch = PLAN.steps[0]
    wrong = replace(PLAN, steps=(replace(launch, parameters=(replace(FLAT, **change), *launch.parameters[1:])),))
    with pytest.raises(PlanError, match=says):
        check_plan(wrong)
