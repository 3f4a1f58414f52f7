"""Programs whose results show what is rounded to 16 bits on the way."""

import torch

CASTS = {
    "there and back": lambda x: x.bfloat16().float() * 2,
    "overflow": lambda x: (x * 1e5).half().float(),
    "rest": lambda x: x - x.bfloat16().float(),
    "rest, promoted": lambda x: (x - x.half()).half(),
    "in a conversion to another's type": lambda x: x - x.type_as(x.new_empty(0, dtype=torch.float16)),
    "integers": lambda x: (x * 1e5).long().half().float(),
    "between two": lambda x: x.half().bfloat16().float(),
}
SHARED = {
    "greatest of a column": lambda x, r: ((y := x * r) == y.amax(0)).sum(0),
    "no less than it": lambda x, r: ((y := x * r).amax(0) - y).sqrt().isnan().sum(),
    "first of a row": lambda x, r: (y := x * r) - y[:, :1] == 0,
    "picked": lambda x, r: (y := x * r) == y.gather(0, y.argmax(0, keepdim=True)),
    "flipped twice": lambda x, r: (y := x * r) == y.flip(0).flip(0),
    "greater of two": lambda x, r: (torch.maximum(y := x * r, x + r) == y).sum(0),
    "of a row and of a column": lambda x, r: ((y := x * r) == y.amax(0)) | (y == y.amax(1, keepdim=True)),
}
# Of a greatest element that is in memory; the last is what a gradient divides by.
COMPARED = {
    "equal": lambda x, r, m: x * r == m,
    "no less": lambda x, r, m: m <= x * r,
    "one or the other": lambda x, r, m: torch.where(x * r < m, x, m),
    "how many": lambda x, r, m: (x * r == m).sum(0),
    "shares": lambda x, r, m: (x * r == m) / (x * r == m).sum(0),
}
# Of several elements that rounding makes equal the first is the greatest.
PLACED = {
    "greatest of a row": lambda x: (x + 500).argmax(1),
    "least of a column": lambda x: (x + 500).argmin(0),
    "greatest and its place": lambda x: torch.max(x + 500, 1),
    "least and its place": lambda x: torch.min(500 - x, 0),
    "of all": lambda x: (x + 500).argmax(),
    "of what is chosen": lambda x: torch.where(x > 0, x + 500, 0).argmax(1),
}
