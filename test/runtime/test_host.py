"""The native code that launches a plan, with functions of ours in the driver's place."""

import ctypes

import pytest

from inferno.mlir import ExecutionEngine, ir, new_context
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STEP, STREAM, WORKSPACE, host_program
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan, TensorMap


class Config(ctypes.Structure):
    """CUlaunchConfig, as cuda.h has it."""

    _fields_ = [
        *((n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(ctypes.c_uint64)), ("count", ctypes.c_uint),
    ]


LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Config), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int] * 4,
)
ARGUMENT, SCRATCH, RESULT = (
    Buffer("argument", 0, (64, 64), "bf16"), Buffer("workspace", 512, (64,), "f32"), Buffer("result", 0, (64,), "f32"),
)
STEP_ = Launch(
    "k::k", (4, 2, 1), (128, 1, 1), (1, 1, 1), 1000,
    (TensorMap(ARGUMENT, (64, 32), (2, 128), (64, 8), "bf16", 128, 256), SCRATCH, RESULT),
)


def run(early: bool = True, fails_at: int = 99) -> tuple[list, list, list[int]]:
    """The launches, the tensor maps, and the state afterwards, of a plan with two kernels."""
    launches, encoded = [], []

    def launch(config, function, parameters, extra):
        c = config.contents
        values = [ctypes.c_int64.from_address(parameters[i]).value for i in range(3)]
        sizes = (c.gx, c.gy, c.gz, c.bx, c.by, c.bz, c.shared)
        launches.append((function, sizes, c.stream, [c.attributes[i] for i in range(2)] if c.count else [], c.count, values, extra))
        return 719 if len(launches) > fails_at else 0

    def encode(target, element, rank, address, sizes, strides, box, steps, *rest):
        encoded.append((element, address, sizes[:rank], strides[:rank - 1], box[:rank], steps[:rank], rest))
        ctypes.c_int64.from_address(target).value = 0x77
        return 0

    driver = LAUNCH(launch), ENCODE(encode)
    plan = Plan((STEP_, STEP_), (ARGUMENT,), (Output((64,), "f32", -1, 0),), 1024)
    addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in driver]
    text = host_program(plan, [0x1234, 0x5678], *addresses, {0: ARGUMENTS + 1}, early)
    with new_context(), ir.Location.unknown():
        engine = ExecutionEngine(ir.Module.parse(text), opt_level=0)
        engine.initialize()
    state = (ctypes.c_int64 * (ARGUMENTS + 2))()
    state[STREAM], state[WORKSPACE], state[ARGUMENTS], state[ARGUMENTS + 1] = 0x57, 0x10000, 0x20000, 0x30000
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))(base)
    return launches, encoded, list(state)


@pytest.mark.parametrize("early", [True, False])
def test_every_kernel_is_launched(early):
    launches, encoded, state = run(early)
    assert [x[0] for x in launches] == [0x1234, 0x5678] and state[ERROR] == 0
    for _, sizes, stream, attributes, count, values, extra in launches:
        assert sizes == (4, 2, 1, 128, 1, 1, 1000) and stream == 0x57 and extra is None
        assert values == [0x77, 0x10000 + 512, 0x30000]
        # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, allowed
        assert (count, attributes) == ((1, [6, 1]) if early else (0, []))
    # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; no interleave; the swizzle of 128 bytes, promotion to 256 in L2, zeros outside
    assert encoded == [(9, 0x20000, [64, 32], [128], [64, 8], [1, 1], (0, 3, 3, 0))] * 2


def test_nothing_is_launched_behind_a_failure():
    launches, _, state = run(fails_at=0)
    assert len(launches) == 1 and (state[ERROR], state[STEP]) == (719, 0)
    launches, _, state = run(fails_at=1)
    assert len(launches) == 2 and (state[ERROR], state[STEP]) == (719, 1)
