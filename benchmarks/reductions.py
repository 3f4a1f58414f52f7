"""The suites ``reductions``, over any dimensions of 64M elements, and ``norms``, over the channels of images."""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import TYPES, case

F = torch.nn.functional


def batch_norm(x: Tensor, mean: Tensor, variance: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, mean, variance.abs(), w, b)


def batch_norm_training(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, w, b, training=True)


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 32, w, b)


def instance_norm(x: Tensor) -> Tensor:
    return F.instance_norm(x)


def _reductions() -> list[Case]:
    cases, cube, square = [], (256, 512, 512), (8192, 8192)
    for t in ("f32", "bf16"):
        for name, dims, shape, core in (
            ("first", (0,), square, True), ("last", (1,), square, True), ("all", (0, 1), square, True), ("middle", (1,), cube, True),
            ("first and last", (0, 2), cube, False), ("last two", (1, 2), cube, False), ("first of few", (0,), (1 << 22, 16), False),
            ("last of few", (1,), (1 << 22, 16), False), ("last of one", (1,), (1, 1 << 26), False),
        ):
            cases.append(case("reductions", f"sum, {name}", lambda x, d=dims: x.sum(d), t, shape, core=core, rate="read"))
        for name, function, core in (
            ("argmax, last", lambda x: x.argmax(-1), True), ("argmax, first", lambda x: x.argmax(0), False),
            ("argmax, all", lambda x: x.argmax(), False), ("max, last", lambda x: x.max(-1), False), ("amax, first", lambda x: x.amax(0), False),
            ("mean, last", lambda x: x.mean(-1), False), ("var, last", lambda x: x.var(-1), False), ("std, first", lambda x: x.std(0), False),
            ("prod, last", lambda x: x.prod(-1), False), ("norm, all", lambda x: x.norm(), False), ("any, last", lambda x: (x > 4).any(-1), False),
            ("count_nonzero, last", lambda x: x.count_nonzero(-1), False), ("sum, amax, last", lambda x: (x.sum(-1), x.amax(-1)), False),
            ("sum, amax, first", lambda x: (x.sum(0), x.amax(0)), False), ("aminmax, all", lambda x: (x.amin(), x.amax()), False),
        ):
            cases.append(case("reductions", name, function, t, square, core=core, rate="read"))
    return cases


def _norms() -> list[Case]:
    cases = []
    for t in ("f32", "bf16"):
        for shape, main in (((64, 256, 64, 64), True), ((32, 64, 128, 128), False), ((128, 512, 28, 28), False)):
            for layout in ("NCHW", "NHWC"):
                def image(device: torch.device, shape=shape, layout=layout, t=t) -> Tensor:
                    x = torch.randn(shape, dtype=TYPES[t], device=device)
                    return x.contiguous(memory_format=torch.channels_last) if layout == "NHWC" else x

                line, place = (shape[1],), f"{layout} {'x'.join(map(str, shape))}"
                for number, (name, function, lines) in enumerate((
                    ("batch_norm", batch_norm, 4), ("batch_norm, training", batch_norm_training, 2), ("group_norm", group_norm, 2),
                    ("instance_norm", instance_norm, 0),
                )):
                    core = main and (t == "bf16") == ((number + (layout == "NHWC")) % 2 == 0)
                    cases.append(case("norms", f"{name} {place}", function, t, image, *[line] * lines, core=core))
    return cases


SUITES: dict[str, list[Case]] = {"reductions": _reductions(), "norms": _norms()}
