"""The suite ``rows``: softmax, norms and cross entropy along rows of 64 to 1M columns, in as many rows as make 256 MiB, and in few."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import TYPES, case, whole_numbers

F = torch.nn.functional
_BYTES = 1 << 28
COLUMNS = (64, 256, 1024, 2048, 4096, 5120, 8192, 16384, 32768, 50257, 65536, 131072, 262144, 1 << 20)
_CORE_COLUMNS = (256, 1024, 8192, 65536, 1 << 20)


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, w.shape, w)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, w.shape, w, b)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, -1)


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target)


def residual_norm_float8(x: Tensor, residual: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Of a decoder layer whose next linear layer is in float8: the new residual, and its norm times a scale."""
    h = x + residual
    return h, (rms_norm(h, w) * scale).to(torch.float8_e4m3fn)


def softmax_first(x: Tensor) -> Tensor:
    return torch.softmax(x, 0)


def normalize(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def logsumexp(x: Tensor) -> Tensor:
    return torch.logsumexp(x, -1)


def variance(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.var_mean(x, -1)


def norm_of(rows: int, columns: int, type_: str, operation: str, core: bool, group: str) -> Case:
    """A case of one of the five operations."""
    x, line = (rows, columns), (columns,)
    if operation == "cross_entropy":
        return case(group, operation, cross_entropy, type_, x, whole_numbers(columns, rows), core=core, rate="read")
    function, others = _OPERATIONS[operation]
    return case(group, operation, function, type_, x, *[line] * others, core=core)


_OPERATIONS: dict[str, tuple[Callable, int]] = {
    "rms_norm": (rms_norm, 1), "layer_norm": (layer_norm, 2), "softmax": (softmax, 0), "log_softmax": (log_softmax, 0),
}
OPERATIONS = (*_OPERATIONS, "cross_entropy")


def _cases() -> list[Case]:
    cases = [norm_of(16384, 8192, "bf16", "softmax", True, "rows")]
    for operation in OPERATIONS:
        for t in ("f32", "bf16"):
            for columns in COLUMNS:
                rows = -(-_BYTES // (columns * TYPES[t].itemsize))
                if (operation, t, columns, rows) == ("softmax", "bf16", 8192, 16384):
                    continue
                # One operation a length and type in turn.
                core = columns in _CORE_COLUMNS and (OPERATIONS.index(operation) + _CORE_COLUMNS.index(columns) + (t == "f32")) % 5 in (0, 2)
                cases.append(norm_of(rows, columns, t, operation, core, "rows" if columns <= 65536 else "long rows"))
            for rows, columns in ((1, 65536), (8, 131072), (64, 262144), (1, 1 << 20), (16, 1 << 20)):
                core = t == "bf16" and (OPERATIONS.index(operation), rows) in ((0, 1), (2, 8), (3, 64), (2, 1)) and columns != 65536
                cases.append(norm_of(rows, columns, t, operation, core, "few rows"))
    for t in ("bf16", "f32"):
        for columns in (4096, 8192, 5120):
            x, line = (_BYTES // columns // TYPES[t].itemsize, columns), (columns,)
            core = (t, columns) == ("bf16", 4096)
            cases.append(case("to float8", "residual, rms_norm, scale", residual_norm_float8, t, x, x, line, (1,), core=core))
        cases += [
            case("other rows", "softmax, first dimension", softmax_first, t, (8192, 8192), core=False),
            case("other rows", "normalize", normalize, t, (16384, 4096), core=False),
            case("other rows", "logsumexp", logsumexp, t, (16384, 4096), core=False, rate="read"),
            case("other rows", "var_mean", variance, t, (16384, 4096), core=False, rate="read"),
            case("other rows", "softmax of a layer's heads", softmax, t, (8, 16, 1024, 1000), core=False),
        ]
    return cases


SUITES: dict[str, list[Case]] = {"rows": _cases()}
