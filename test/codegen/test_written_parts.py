"""Writes to parts of arguments by elementwise kernels, on the simulator: what is new is stored where it belongs, and nothing else is touched."""

import pytest
import torch
from test_cache_writes import OnGpu

F32, BF16, I64 = torch.float32, torch.bfloat16, torch.int64


def of(shape, dtype=F32):
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, shape)


def added(x, y):
    x[:, 1:] += y
    return (y * 2,)


def aligned(x, y):
    x[:, 8:] += y
    return (y * 2,)


def product(x, a, b):
    x[1:, :, 3:5] = a * b


def scaled(x):
    x[..., 3:7].mul_(2)


def row(x, y):
    x[2] = y.relu()
    return (x,)


def last(x, y):
    x[:, :, -1] = y.sigmoid()
    return (x[:, 1:],)


def part_of_row(x, y):
    x[3, 2:7] -= y


def stepped(x, y):
    x[1::2, ::3] += y


def transposed(x, y):
    x[:, 4:] = y.t()


def cast(x, y):
    x[:, 4:] = y.to(x.dtype)


def kept(x, y):
    """What is written is returned, too."""
    z = y + 1
    x[:, 1:] = z
    return (z * 1,)


def two_parts(x, y):
    x[:, :4] += y
    x[:, 8:12] = y * 2


def two_tensors(x, y, z):
    x[:, 1:] += y
    z[:, :-1] = y * 3


def sum_between(x, y):
    x[:, :4] += y
    total = x.sum()
    x[:, 8:12] = y * total
    return (total,)


def again(x, y):
    """The second write is to some of the first one's elements."""
    x[:, :8] = y
    x[:, 4:12] += y


def shifted(x):
    """Reads elements that others write: the part is computed first."""
    x[:, 1:] = x[:, :-1] * 2


def swapped(x):
    first = x[:, :8].clone()
    x[:, :8] = x[:, 8:]
    x[:, 8:] = first


def old(x, y):
    """The old value is returned: it stays until the end."""
    before = x.clone()
    x[:, 1:] += y
    return (before,)


def of_rows(x, y):
    x[:, 1:] = torch.softmax(y, -1)


# The arguments, launches in the place of arguments, and copies that are left.
CASES = {
    "added": (added, ((64, 17), (64, 16)), 1, 0), "aligned": (aligned, ((33, 72), (33, 64)), 1, 0), "many": (added, ((600, 513), (600, 512)), 1, 0),
    "product": (product, ((4, 5, 9), (3, 5, 2), (3, 5, 2)), 1, 0), "scaled": (scaled, ((6, 5, 16),), 1, 0), "row": (row, ((4, 16, 24), (16, 24)), 1, 0),
    "last": (last, ((4, 6, 9), (4, 6)), 1, 0), "part of a row": (part_of_row, ((6, 9), (5,)), 1, 0), "stepped": (stepped, ((9, 16), (4, 6)), 1, 0),
    "transposed": (transposed, ((64, 68), (64, 64)), 1, 0), "kept": (kept, ((8, 33), (8, 32)), 1, 0), "two parts": (two_parts, ((64, 16), (64, 4)), 1, 0),
    "two tensors": (two_tensors, ((8, 33), (8, 32), (8, 33)), 1, 0), "sum between": (sum_between, ((8, 16), (8, 4)), None, 0),
    "again": (again, ((8, 16), (8, 8)), 2, 0), "shifted": (shifted, ((8, 33),), 2, 0), "swapped": (swapped, ((8, 16),), None, None),
    "old": (old, ((8, 33), (8, 32)), None, None), "rows": (of_rows, ((8, 33), (8, 32)), 2, 0),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [F32, BF16, I64], ids=str)
def test_parts(name, dtype):
    function, shapes, launches, copies = CASES[name]
    if dtype == I64 and name in ("last", "rows"):
        pytest.skip("of whole numbers")
    torch.manual_seed(0)
    given = [of(s, dtype) for s in shapes]
    check(function, given, launches, copies)


@pytest.mark.parametrize(("into", "of_"), [(BF16, F32), (F32, BF16), (F32, I64), (torch.bool, F32), (torch.float64, F32)], ids=str)
def test_what_is_cast_as_it_is_written(into, of_):
    torch.manual_seed(0)
    check(cast, [of((8, 36)).to(into), of((8, 32), of_)], 1, 0)


def check(function, given, launches, copies):
    on_gpu = OnGpu(function, tuple(t.clone() for t in given))
    plan = on_gpu.plan(True)
    assert launches in (None, len(plan.steps)) and copies in (None, sum(s.copies for s in plan.steps)), on_gpu.kernels(True)
    assert copies is None or all(o.argument >= 0 for o, r in zip(plan.outputs, on_gpu.signature.results) if r.kind == "mutation")
    expected = [t.clone() for t in given]
    results = [t for t in function(*expected) or () if not any(t.untyped_storage().data_ptr() == e.untyped_storage().data_ptr() for e in expected)]
    for in_place in {copies is not None, False}:
        mine = [t.clone() for t in given]
        made = on_gpu(tuple(mine), in_place)
        narrow = BF16 in (t.dtype for t in given)
        tolerance = {"rtol": 1e-2, "atol": 2e-2} if narrow else {"rtol": 1e-5, "atol": 1e-5}
        torch.testing.assert_close(mine, expected, **tolerance)
        torch.testing.assert_close(made, results, **tolerance)


def test_what_may_lie_in_the_place_is_read_there_alone():
    """Another result reads an element that is written for nothing that needs it: it might be read after that, so that the two are two kernels."""
    def both(x, y):
        z = x[:, 1:] * 2
        x[:, 1:] = y
        return (z,)

    torch.manual_seed(0)
    check(both, [of((8, 33)), of((8, 32))], 2, 0)
