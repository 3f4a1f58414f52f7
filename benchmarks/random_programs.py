"""The suite ``random``: programs of operations, shapes and types drawn from a seed, which no table holds.

A program begins with a tensor of rows and columns and applies three to seven operations, each to the last result; what else an operation takes is
made for its shape.  It gives its last result, and sometimes an earlier one.
"""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.memory_bound import ALL, TYPES

F = torch.nn.functional
COUNT = 24
_LARGEST = 1 << 25  # elements
# Of the last result and of another tensor of its shape, which costs nothing where it is not used.  No casts: in float64 they would round as well.
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "x * y": lambda x, y: x * y,
    "x + y": lambda x, y: x + y,
    "x + row": lambda x, y: x + y[0],
    "x * column": lambda x, y: x * y[:, :1],
    "gelu": lambda x, y: F.gelu(x),
    "silu(x) * y": lambda x, y: F.silu(x) * y,
    "tanh": lambda x, y: torch.tanh(x),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: x.clamp(-2, 2),
    "softmax": lambda x, y: torch.softmax(x, -1),
    "softmax, first": lambda x, y: torch.softmax(x, 0),
    "log_softmax": lambda x, y: torch.log_softmax(x, -1),
    "layer_norm": lambda x, y: F.layer_norm(x, x.shape[1:], y[0]),
    "rms_norm": lambda x, y: F.rms_norm(x, x.shape[1:], y[0]),
    "normalize": lambda x, y: F.normalize(x, dim=-1),
    "x - mean": lambda x, y: x - x.mean(0, keepdim=True),
    "x * sum": lambda x, y: x * y.sum(-1, keepdim=True) / x.shape[1],
    "x - amax": lambda x, y: x - x.amax(-1, keepdim=True),
    "cumsum": lambda x, y: x.cumsum(-1) / x.shape[1],
    "transpose": lambda x, y: x.t(),
    "flip": lambda x, y: x.flip(-1),
    "cat": lambda x, y: torch.cat((x, y), -1),
    "half": lambda x, y: x[:, : x.shape[1] // 2 + 1],
    "take rows": lambda x, y: x[y[:, 0].abs().mul(100).long() % x.shape[0]],
}
_LAST: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "": lambda x, y: x, "sum": lambda x, y: x.sum(-1), "sum, first": lambda x, y: x.sum(0), "amax": lambda x, y: x.amax(-1),
    "logsumexp": lambda x, y: x.logsumexp(-1), "mean of squares": lambda x, y: (x * x).mean(), "transposed": lambda x, y: x.t().contiguous(),
}


def draw(seed: int, number: int) -> Case:
    """Program ``number`` of a seed."""
    choice = random.Random(f"{seed} {number}")
    elements = 2 ** choice.uniform(10, 25)
    columns = max(2, min(int(elements / 4), int(2 ** choice.uniform(4, 17))))
    columns = columns // 64 * 64 if columns >= 64 and choice.random() < 0.6 else columns
    rows = max(2, min(_LARGEST, int(elements)) // columns)
    type_ = choice.choice(("f32", "bf16", "bf16", "f16"))
    steps = choice.choices(list(OPERATIONS), k=choice.randint(3, 7))
    last, kept = choice.choice(list(_LAST)), choice.randrange(len(steps)) if choice.random() < 0.3 else None
    if (steps[-1], last) == ("log_softmax", "logsumexp"):
        last = ""  # it is 0 but for rounding, of which no version has a right digit
    # The shapes that others have, for each step its own.
    shapes, shape = [], (rows, columns)
    for step in steps:
        shapes.append(shape)
        shape = {"transpose": shape[::-1], "cat": (shape[0], 2 * shape[1]), "half": (shape[0], shape[1] // 2 + 1)}.get(step, shape)

    def program(x: Tensor, *others: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        early = None
        for i, (step, other) in enumerate(zip(steps, others)):
            x = OPERATIONS[step](x, other)
            early = x if i == kept else early
        x = _LAST[last](x, x)
        return x if early is None else (x, early)

    def make(device: torch.device) -> tuple:
        return program, tuple(torch.randn(s, dtype=TYPES[type_], device=device) for s in ((rows, columns), *shapes)), {}

    name = f"random {seed}/{number}: {', '.join(s for s in (*steps, last) if s)} {rows}x{columns} {type_}"
    return Case(name, make, ALL, rate="copy", group="random")


def cases(seed: int) -> list[Case]:
    return [draw(seed, number) for number in range(COUNT)]


SUITES: dict[str, Callable[[int], list[Case]]] = {"random": cases}
