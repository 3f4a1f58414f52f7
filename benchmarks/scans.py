"""The suites ``scans`` and ``sorts``: what depends on order, along the first and the last dimension, of 64M elements."""

import torch

from benchmarks.case import Case
from benchmarks.memory_bound import case, selected, whole_numbers


def _scans() -> list[Case]:
    cases, square = [], (8192, 8192)
    for t in ("f32", "bf16"):
        cases += [
            case("scans", "cumsum, last", lambda x: x.cumsum(-1), t, square),
            case("scans", "cumsum, first", lambda x: x.cumsum(0), t, square),
            case("scans", "cumsum, last", lambda x: x.cumsum(-1), t, (1 << 20, 64), core=False),
            case("scans", "cumsum, last", lambda x: x.cumsum(-1), t, (64, 1 << 20), core=False),
            case("scans", "cumsum, middle", lambda x: x.cumsum(1), t, (256, 512, 512), core=False),
            case("scans", "cumsum, first", lambda x: x.cumsum(0), t, (65536, 1024), core=False),
            case("scans", "relu, cumsum, add", lambda x: torch.relu(x).cumsum(-1) + 1, t, square, core=False),
            case("scans", "softmax, cumsum", lambda x: x.softmax(-1).cumsum(-1), t, square, core=False),
            case("scans", "softmax, cumsum", lambda x: x.softmax(-1).cumsum(-1), t, (512, 1 << 17), core=False),
            case("scans", "cumsum of one", lambda x: x.cumsum(-1), t, (1 << 26,), core=False),
            case("scans", "cumprod, last", lambda x: x.cumprod(-1), t, square, core=False),
            case("scans", "cummax, last", lambda x: x.cummax(-1), t, square, core=False),
            case("scans", "cummax, first", lambda x: x.cummax(0), t, square, core=False),
            case("scans", "logcumsumexp, last", lambda x: x.logcumsumexp(-1), t, square, core=False),
        ]
    return cases


def _middle(args: tuple, found: tuple[torch.Tensor, torch.Tensor]) -> tuple:
    """What a median is compared by: the value, and the one where its index points to, of which several may be equal."""
    return found[0], args[0].gather(-1, found[1][..., None])[..., 0]


def _sorts() -> list[Case]:
    cases = []
    for t in ("f32", "bf16"):
        for columns in (1024, 8192, 65536, 1 << 20):
            shape, core = ((1 << 26) // columns, columns), t == "f32" and columns in (1024, 65536)
            cases += [
                case("sorts", "sort", lambda x: x.sort(-1), t, shape, core=core),
                case("sorts", "argsort, stable", lambda x: torch.argsort(x, dim=-1, stable=True), t, shape, core=False),
                case("sorts", "topk of 8", lambda x: x.topk(8, -1), t, shape, core=core, rate="read", seen=selected),
                case("sorts", "topk of 64", lambda x: x.topk(64, -1), t, shape, core=False, rate="read", seen=selected),
            ]
        cases.append(case("sorts", "median", lambda x: x.median(-1), t, (8192, 8192), core=False, rate="read", seen=_middle))
    cases.append(case("sorts", "topk of 8 experts", lambda x: x.topk(8, -1), "bf16", (65536, 256), core=False, rate="read", seen=selected))
    cases.append(case("sorts", "searchsorted", lambda b, x: torch.searchsorted(b.sort()[0], x), "f32", (4096,), (1 << 24,), core=False))
    cases.append(case("sorts", "bincount", lambda x: torch.bincount(x, minlength=1024), "i64", whole_numbers(1024, 1 << 24), core=False, rate="read"))
    return cases


SUITES: dict[str, list[Case]] = {"scans": _scans(), "sorts": _sorts()}
