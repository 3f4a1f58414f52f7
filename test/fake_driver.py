"""A CUDA driver of ours: it writes down the launches and the tensor maps, and fails where it is told to."""

import ctypes
import threading


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
            if encode_fails_at == len(self.maps):
                return 1
            with lock:
                ctypes.c_int64.from_address(target).value = len(self.maps)
                self.slots.append(target)
                self.maps.append((element, address, sizes[:rank], strides[:rank - 1], box[:rank], steps[:rank], rest))
            return 0

        def pixels(target, element, rank, address, sizes, strides, lower, upper, channels, count, steps, *rest):
            with lock:
                ctypes.c_int64.from_address(target).value = len(self.maps)
                corners = lower[:rank - 2], upper[:rank - 2]
                self.maps.append((element, address, sizes[:rank], strides[:rank - 1], *corners, channels, count, steps[:rank], rest))
            return 0

        self._kept = _LAUNCH(launch), _ENCODE(encode), _PIXELS(pixels)
        self.launch, self.encode, self.pixels = (ctypes.cast(f, ctypes.c_void_p).value for f in self._kept)
