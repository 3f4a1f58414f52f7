"""Programs that sort and select, for the simulator and for a GPU."""

import torch

from inferno.schedule.sorts import select, short_sorts, sorts
from inferno.schedule.sorts.kernel import parse_sort_kernel
from inferno.schedule.sorts.select import Select
from inferno.schedule.sorts.short_sorts import ShortSorts
from inferno.schedule.sorts.sorts import Sorts

nan, inf = float("nan"), float("inf")
PASSES = "fuse-sorts{target=sm_90a}"


def numbers(*shape, dtype=torch.float32):
    """Numbers of which many are equal, zeros of both signs, infinities and NaN."""
    x = torch.randn(shape).mul(4).round().div(4)
    special = torch.tensor([nan, -0.0, 0.0, inf, -inf, -nan, 1.5])
    return torch.where(torch.rand(shape) < 0.3, special[torch.randint(0, len(special), shape)], x).to(dtype)


def whole(*shape, dtype=torch.int64):
    return torch.randint(-100, 100, shape).to(dtype)


def sort(dim=-1, descending=False):
    return lambda x: torch.sort(x, dim=dim, descending=descending, stable=True)


def values(dim=-1, descending=False):
    """Sorted elements, whose places nobody reads."""
    return lambda x: torch.sort(x, dim=dim, descending=descending, stable=True)[0]


def first(count, dim=-1, descending=True):
    """The first of a stable sort, which tells the places of equal elements too."""
    return lambda x: [y.narrow(dim, 0, count) for y in torch.sort(x, dim=dim, descending=descending, stable=True)]


def choose(schedule=None):
    """A way to choose schedules: what the generators would pick for selections and sorts, or ``schedule``."""
    def chosen(kernel):
        c = parse_sort_kernel(kernel)
        return None if c is None else schedule or select.pick(c.example) or short_sorts.pick(c.example) or sorts.pick(c.example)

    return chosen


# The model, its input, the schedule (None: as picked), and the number of launches.
CASES = {
    "sort": (sort(), lambda: numbers(5, 64), None, 1),
    "sort, descending": (sort(-1, True), lambda: numbers(5, 100), None, 1),
    "sort f16": (sort(), lambda: numbers(4, 300, dtype=torch.float16), None, 1),
    "sort bf16 along the first": (sort(0, True), lambda: numbers(37, 3, dtype=torch.bfloat16), None, 1),
    "sort f64 along the middle": (sort(1), lambda: numbers(4, 50, 3, dtype=torch.float64), None, 1),
    "sort i64": (sort(1, True), lambda: whole(4, 50), None, 1),
    "sort i32": (sort(1), lambda: whole(4, 50, dtype=torch.int32), None, 1),
    "sort i8": (sort(1), lambda: whole(4, 50, dtype=torch.int8), None, 1),
    "sort bool": (sort(1), lambda: numbers(4, 50) > 0, None, 1),
    "values": (lambda x: sort(1)(x)[0], lambda: numbers(4, 300), None, 1),
    "argsort": (lambda x: torch.argsort(x, dim=-1, stable=True), lambda: numbers(4, 300), None, 1),
    "one row": (sort(), lambda: numbers(1, 300), None, 1),
    "one after the other": (first(5, 1), lambda: numbers(4, 90, 1), None, 1),
    "two columns": (sort(), lambda: numbers(600, 2), None, 1),
    "short rows": (sort(), lambda: numbers(4100, 8), None, 1),
    "short rows of 7, descending": (sort(-1, True), lambda: numbers(300, 7, dtype=torch.float16), ShortSorts(64, 2), 1),
    "short rows of 31 f64": (sort(), lambda: numbers(70, 31, dtype=torch.float64), ShortSorts(32, 1), 1),
    "short rows of 12 i8": (sort(-1, True), lambda: whole(200, 12, dtype=torch.int8), ShortSorts(32, 2), 1),
    "short rows of i64": (sort(), lambda: whole(260, 6), ShortSorts(64, 1), 1),
    "values of short rows": (values(), lambda: numbers(4100, 8), None, 1),
    "values of pairs": (values(-1, True), lambda: numbers(2000, 2, dtype=torch.bfloat16), None, 1),
    "values of rows of 3": (values(), lambda: numbers(1001, 3, dtype=torch.bfloat16), None, 1),
    "values of rows of 17": (values(-1, True), lambda: numbers(131, 17, dtype=torch.float16), ShortSorts(32, 2), 1),
    "values of rows of 32 f64": (values(), lambda: numbers(70, 32, dtype=torch.float64), ShortSorts(32, 1), 1),
    "values of rows of 24": (values(), lambda: numbers(300, 24), ShortSorts(128, 1), 1),
    "values of i8": (values(), lambda: whole(300, 16, dtype=torch.int8), ShortSorts(64, 2), 1),
    "values of i16": (values(-1, True), lambda: whole(300, 5, dtype=torch.int16), ShortSorts(64, 1), 1),
    "places of short rows": (lambda x: torch.argsort(x, dim=-1, stable=True), lambda: numbers(513, 5), ShortSorts(128, 2), 1),
    "first of short rows": (first(2), lambda: numbers(900, 4), None, 1),
    "middle of short rows": (lambda x: x.kthvalue(4, -1), lambda: torch.randn(300, 9), ShortSorts(64, 1), 1),
    "values of the middle of short rows": (lambda x: values()(x)[:, 2:5], lambda: numbers(400, 8), ShortSorts(64, 1), 1),
    "short columns": (sort(0), lambda: numbers(8, 400), ShortSorts(32, 4, True), 1),
    "values of short columns": (values(1, True), lambda: numbers(3, 12, 40, dtype=torch.bfloat16), ShortSorts(64, 8, True), 1),
    "short columns of odd numbers": (sort(1), lambda: numbers(3, 4, 33), None, 1),
    "short rows between others": (sort(1, True), lambda: numbers(70, 4, 3), None, 1),
    "values between others": (values(1), lambda: numbers(70, 5, 2, dtype=torch.bfloat16), ShortSorts(32, 4), 1),
    "a whole tile": (sort(), lambda: numbers(2, 4096), None, 1),
    "merged": (sort(), lambda: numbers(2, 900), Sorts(32, 8), 3),
    "merged, descending bf16": (sort(-1, True), lambda: numbers(3, 511, dtype=torch.bfloat16), Sorts(32, 4), 3),
    "merged, f64 along the middle": (sort(1), lambda: numbers(3, 700, 2, dtype=torch.float64), Sorts(32, 4), 4),
    "first of a sort that is merged": (first(100), lambda: numbers(3, 1200), Sorts(32, 4), 5),
    "select by warps": (first(7), lambda: numbers(9, 300), None, 1),
    "select along the first": (first(3, 0, False), lambda: numbers(50, 6), None, 1),
    "select by blocks": (first(8), lambda: numbers(3, 2000), None, 1),
    "select bf16": (first(64), lambda: numbers(3, 2048, dtype=torch.bfloat16), None, 1),
    "select integers": (first(5, -1, False), lambda: whole(3, 700, dtype=torch.int32), None, 1),
    "select many": (first(200), lambda: numbers(2, 4096), None, 1),
    "select of equal ones": (first(70), lambda: torch.zeros(2, 4096), None, 1),
    "select of parts": (first(50), lambda: numbers(2, 20001), None, 2),
    "select of small parts": (first(8), lambda: torch.randn(2, 20000), Select(128, 128, 4, 64), 2),
    "topk": (lambda x: x.topk(8, -1), lambda: torch.randn(4, 1000), None, 1),
    "values of topk": (lambda x: x.topk(8, -1)[0] * 2, lambda: torch.randn(4, 1000), None, 2),
    "kthvalue": (lambda x: x.kthvalue(30, -1), lambda: torch.randn(9, 500), None, 1),
    "kthvalue in the middle": (lambda x: x.kthvalue(300, -1, keepdim=True), lambda: torch.randn(3, 500), None, 1),
}

# Those whose rows may be any number, by the first size.
OF_ANY_NUMBER = [
    "sort", "sort f64 along the middle", "values", "argsort", "two columns", "short rows of 7, descending", "short rows of i64", "values of rows of 3",
    "values of i16", "first of short rows", "middle of short rows", "values of short columns", "short columns of odd numbers", "values between others",
    "a whole tile", "select by warps", "select by blocks", "select of parts", "topk", "kthvalue",
]


def other_rows(x):
    """The same with other numbers of rows."""
    return [torch.cat([x.roll(1, -1)] * 3)[: max(2, n)] for n in (len(x) + 1, 2, len(x) * 2 + 3, len(x) - 1)]
