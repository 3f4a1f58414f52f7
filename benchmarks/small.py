"""The suite ``small``: the operations of the other suites on 1K to 1M elements, where launches decide."""

import torch

from benchmarks.case import Case
from benchmarks.elementwise import multiply_add_sigmoid, swiglu
from benchmarks.memory_bound import case, selected, whole_numbers
from benchmarks.moves import embedding, put_rows
from benchmarks.reductions import batch_norm_training, group_norm
from benchmarks.rows import OPERATIONS, norm_of, normalize, residual_norm_float8

F = torch.nn.functional


def _cases() -> list[Case]:
    cases = []
    for number, (rows, columns) in enumerate(((1, 1024), (32, 32), (16, 1024), (128, 768), (32, 4096), (2048, 64), (256, 4096))):
        x, line = (rows, columns), (columns,)
        for t in ("f32", "bf16"):
            group, core = "small", (number % 3 == 0) == (t == "bf16") and number in (2, 3, 6)
            cases += [
                case(group, "sigmoid(x * y + z)", multiply_add_sigmoid, t, x, x, x, core=core),
                case(group, "silu(x) * y", swiglu, t, x, x, core=False),
                *(norm_of(rows, columns, t, o, core and o in ("softmax", "layer_norm", "cross_entropy"), group) for o in OPERATIONS),
                case(group, "residual, rms_norm, scale", residual_norm_float8, t, x, x, line, (1,), core=False),
                case(group, "normalize", normalize, t, x, core=False),
                case(group, "sum, first", lambda x: x.sum(0), t, x, core=False),
                case(group, "sum, all", lambda x: x.sum(), t, x, core=core),
                case(group, "argmax, last", lambda x: x.argmax(-1), t, x, core=core),
                case(group, "cumsum, last", lambda x: x.cumsum(-1), t, x, core=core),
                case(group, "sort", lambda x: x.sort(-1), t, x, core=core, seen=selected),
                case(group, "topk of 8", lambda x: x.topk(8, -1), t, x, core=core, seen=selected),
                case(group, "transpose", lambda x: x.t().contiguous(), t, x, core=core),
                case(group, "cat", lambda x, y: torch.cat((x, y), -1), t, x, x, core=False),
                case(group, "embedding", embedding, t, x, whole_numbers(rows, rows), core=core),
                case(group, "index_put", put_rows, t, x, whole_numbers(1, 1), (1, columns), core=False),
            ]
    for t in ("f32", "bf16"):
        cases += [
            case("small", "batch_norm, training", batch_norm_training, t, (8, 64, 28, 28), (64,), (64,), core=t == "f32"),
            case("small", "group_norm", group_norm, t, (2, 64, 56, 56), (64,), (64,), core=t == "bf16"),
            case("small", "max_pool2d 2", lambda x: F.max_pool2d(x, 2), t, (8, 64, 28, 28), core=t == "f32"),
            case("small", "adaptive_avg_pool2d 1", lambda x: F.adaptive_avg_pool2d(x, 1), t, (8, 512, 7, 7), core=False),
        ]
    return cases


SUITES: dict[str, list[Case]] = {"small": _cases()}
