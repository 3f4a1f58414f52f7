"""A cuBLASLt of ours: it keeps what it is told of products and matrices, writes down the calls, computes them where the memory is the host's,
and fails where it is told to."""

import ctypes
import threading

import torch

from inferno.runtime.launch.cublaslt import _RESULT_WORDS, _SIGNATURES, CublasLt

_ATTRIBUTES = {
    "MatmulDesc": {3: ("transpose_a", ctypes.c_int32), 4: ("transpose_b", ctypes.c_int32), 7: ("epilogue", ctypes.c_uint32), 8: ("bias", ctypes.c_uint64)},
    "MatrixLayout": {5: ("batch", ctypes.c_int32), 6: ("step", ctypes.c_int64)},
    "MatmulPreference": {
        1: ("workspace", ctypes.c_uint64), 3: ("reductions", ctypes.c_uint32), **{5 + i: (f"aligned_{x}", ctypes.c_uint32) for i, x in enumerate("abcd")},
    },
}


class FakeCublasLt:
    """``library`` is a CublasLt.  ``calls`` has a dictionary for each product: the descriptions and matrices as they were then, addresses,
    factors, the algorithm's number, the stream; ``asked`` those of each question to the heuristic, with the preference; ``alive`` what is not
    given back.  ``offers``: how many algorithms there are; ``fails``: the statuses of functions by name; ``computes``: whether addresses are
    of tensors on the CPU, to be multiplied."""

    def __init__(self, offers: int = 1, fails: dict[str, int] | None = None, log: list | None = None, computes: bool = False) -> None:
        self.fails, self.calls, self.asked, self.alive = fails or {}, [] if log is None else log, [], {}
        lock, count = threading.Lock(), iter(range(1, 1 << 30))

        def create(kind):
            def function(place, *arguments):
                with lock:
                    handle = 16 * next(count)
                    self.alive[handle] = {"kind": kind, "made of": arguments}
                ctypes.c_uint64.from_address(place).value = handle
                return self.fails.get(f"cublasLt{kind}Create", 0)
            return function

        def set_(kind):
            def function(handle, attribute, value, size):
                name, type_ = _ATTRIBUTES[kind][attribute]
                assert self.alive[handle]["kind"] == kind and size == ctypes.sizeof(type_)
                self.alive[handle][name] = type_.from_address(value).value
                return self.fails.get(f"cublasLt{kind}SetAttribute", 0)
            return function

        def destroy(kind):
            def function(handle):
                assert self.alive.pop(handle)["kind"] == kind
                return 0
            return function

        def heuristic(handle, description, a, b, c, d, preference, count, results, found):
            self.asked.append({
                "description": dict(self.alive[description]), "matrices": [dict(self.alive[x]) for x in (a, b, c, d)],
                "preference": dict(self.alive[preference]), "count": count,
            })
            for i in range(min(offers, count)):
                ctypes.c_uint64.from_address(results + 8 * _RESULT_WORDS * i).value = 1000 + i
            ctypes.c_int.from_address(found).value = min(offers, count)
            return self.fails.get("cublasLtMatmulAlgoGetHeuristic", 0)

        def matmul(handle, description, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, workspace, size, stream):
            assert self.alive[handle]["kind"] == "handle"
            with lock:
                self.calls.append({
                    "description": dict(self.alive[description]), "matrices": [dict(self.alive[x]) for x in (la, lb, lc, ld)],
                    "addresses": [a, b, c, d], "workspace": (workspace, size), "factors": self._factors(description, alpha, beta),
                    "algorithm": ctypes.c_uint64.from_address(algorithm).value, "stream": stream,
                })
            if computes:
                _compute(self.calls[-1])
            return self.fails.get("cublasLtMatmul", 0)

        made = {"cublasLtCreate": create("handle"), "cublasLtMatmulAlgoGetHeuristic": heuristic, "cublasLtMatmul": matmul}
        for kind in _ATTRIBUTES:
            made |= {f"cublasLt{kind}Create": create(kind), f"cublasLt{kind}SetAttribute": set_(kind), f"cublasLt{kind}Destroy": destroy(kind)}
        self._kept = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(made[name]) for name, types in _SIGNATURES.items()}
        self.library = CublasLt(lambda name: ctypes.cast(self._kept[name], ctypes.c_void_p).value)

    def _factors(self, description, alpha, beta):
        type_ = {0: ctypes.c_float, 1: ctypes.c_double, 10: ctypes.c_int32}[self.alive[description]["made of"][1]]
        return type_.from_address(alpha).value, type_.from_address(beta).value


_TYPES = {0: torch.float32, 1: torch.float64, 2: torch.float16, 3: torch.int8, 10: torch.int32, 14: torch.bfloat16}


def _seen(address: int, made_of: tuple, batch: int, step: int) -> torch.Tensor:
    """A matrix by columns, or a batch of them, at an address."""
    kind, rows, columns, ld = made_of
    count = (batch - 1) * step + (columns - 1) * ld + rows
    memory = (ctypes.c_char * (count * _TYPES[kind].itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=_TYPES[kind]).as_strided((batch, rows, columns), (step, 1, ld))


def _compute(call: dict) -> None:
    """What cublasLtMatmul is documented to do, in float64."""
    description = call["description"]
    batches = [(m.get("batch", 1), m.get("step", 0)) for m in call["matrices"]]
    a, b, c, d = (_seen(address, m["made of"], *batch) for address, m, batch in zip(call["addresses"], call["matrices"], batches))
    a, b = (x.double().mT if description[t] else x.double() for x, t in ((a, "transpose_a"), (b, "transpose_b")))
    alpha, beta = call["factors"]
    result = alpha * (a @ b) + (beta * c.double() if beta else 0)
    if description["epilogue"] & 4:
        result += _seen(description["bias"], (call["matrices"][3]["made of"][0], d.shape[1], 1, d.shape[1]), 1, 0).double()
    if description["epilogue"] & 32:
        result = torch.nn.functional.gelu(result, approximate="tanh")
    d.copy_(result)
