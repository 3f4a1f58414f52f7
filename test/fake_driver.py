"""A CUDA driver of ours: it writes down the launches and the tensor maps, and fails where it is told to."""

import ctypes
import threading

from inferno.mlir import ExecutionEngine, ir, idle_context
from inferno.runtime.launch.host import ARGUMENTS, ERROR, STREAM, WORKSPACE, host_program
from inferno.runtime.launch.interpreter import sized_interpreter
from inferno.runtime.plan.plan import Plan, at_sizes


class Config(ctypes.Structure):
    """CUlaunchConfig, as cuda.h has it."""

    _fields_ = [
        *((n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(ctypes.c_uint64)), ("count", ctypes.c_uint),
    ]


_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Config), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int] * 4,
)
_PIXELS = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint64), *[ctypes.POINTER(ctypes.c_int)] * 2, *[ctypes.c_uint] * 2, ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int] * 4,
)


def _refused(address, sizes, strides) -> bool:
    """Whether a tensor map is none, as the driver's documentation has it."""
    return not address or address % 16 != 0 or any(not 1 <= n <= 2**32 for n in sizes) or any(n % 16 or not 16 <= n < 2**40 for n in strides)


class FakeDriver:
    """``launch``, ``encode`` and ``pixels`` (cuTensorMapEncodeIm2col) are addresses to call; ``parameters`` gives the number of a function's parameters.

    ``launches`` holds (function, sizes, stream, attributes, first 8 bytes of each parameter); a tensor map's first 8 bytes are
    its number in ``maps``, which holds what each was made of.  ``calls`` counts the launches that were asked for, failed ones too.
    """

    def __init__(self, parameters: dict[int, int], launch_fails_at: int = -1, encode_fails_at: int = -1) -> None:
        self.launches, self.maps, self.slots, self.calls = [], [], [], 0
        lock = threading.Lock()

        def launch(config, function, values, extra):
            c = config.contents
            self.calls += 1
            if launch_fails_at == len(self.launches):
                return 719
            attributes = [(c.attributes[9 * i], c.attributes[9 * i + 1]) for i in range(c.count)]
            self.launches.append((
                function, (c.gx, c.gy, c.gz, c.bx, c.by, c.bz, c.shared), c.stream, attributes,
                [ctypes.c_int64.from_address(values[i]).value for i in range(parameters[function])],
            ))
            return 1 if extra else 0

        def encode(target, element, rank, address, sizes, strides, box, steps, *rest):
            if encode_fails_at == len(self.maps) or _refused(address, sizes[:rank], strides[:rank - 1]):
                return 1
            with lock:
                ctypes.c_int64.from_address(target).value = len(self.maps)
                self.slots.append(target)
                self.maps.append((element, address, sizes[:rank], strides[:rank - 1], box[:rank], steps[:rank], rest))
            return 0

        def pixels(target, element, rank, address, sizes, strides, lower, upper, channels, count, steps, *rest):
            if _refused(address, sizes[:rank], strides[:rank - 1]):
                return 1
            with lock:
                ctypes.c_int64.from_address(target).value = len(self.maps)
                corners = lower[:rank - 2], upper[:rank - 2]
                self.maps.append((element, address, sizes[:rank], strides[:rank - 1], *corners, channels, count, steps[:rank], rest))
            return 0

        self._kept = _LAUNCH(launch), _ENCODE(encode), _PIXELS(pixels)
        self.launch, self.encode, self.pixels = (ctypes.cast(f, ctypes.c_void_p).value for f in self._kept)


def launched(plan: Plan, values: tuple[int, ...], interpret: bool = False) -> FakeDriver:
    """The driver after a call of a plan at these values of its symbols; its functions are 1, 2, ..., and tensors without elements are nowhere."""
    driver = FakeDriver({i: len(step.parameters) for i, step in enumerate(plan.steps, 1)})
    fixed = at_sizes(plan, dict(zip((s.name for s in plan.symbols), values)))
    fresh = [i for i, o in enumerate(plan.outputs) if o.result == i]
    words = {i: ARGUMENTS + len(plan.arguments) + n for n, i in enumerate(fresh)}
    tensors = [*fixed.arguments, *(fixed.outputs[i] for i in fresh)]
    addresses = [0 if 0 in t.shape else 0x20000 + 0x10000 * i for i, t in enumerate(tensors)]
    state = (ctypes.c_int64 * (ARGUMENTS + len(addresses) + len(values)))(*[0] * ARGUMENTS, *addresses, *values)
    state[STREAM], state[WORKSPACE] = 0x57, 0x10000 if fixed.workspace_bytes else 0
    base = ctypes.addressof(state)
    state[0], state[1] = base + 8, base
    rest = [*range(1, len(plan.steps) + 1)], driver.launch, driver.encode, words, True, driver.pixels
    if interpret:
        sized_interpreter(plan, *rest)(values)(base)
    else:
        with idle_context(), ir.Location.unknown():
            engine = ExecutionEngine(ir.Module.parse(host_program(plan, *rest)), opt_level=0)
            engine.initialize()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("run"))(base)
    assert state[ERROR] == 0
    return driver
