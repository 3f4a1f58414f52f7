"""Arguments of varying sizes that a program changes, on the simulator: in the argument's place what is new alone is written, of any size."""

import pytest
import torch
from test_cache_writes import OnGpu
from torch.export import Dim

F32, BF16 = torch.float32, torch.bfloat16


def random(*shape, dtype=F32):
    return torch.randn(shape).to(dtype)


def token(cache, new, place):
    cache.index_copy_(2, place, new * 2)
    return cache[:, :, :, 0] * 2


def last(cache, new, place):
    cache[:, :, -1] = new[:, :, 0]
    return cache.float().sum(2)


def apart(cache, new, place):
    """Each sequence of a batch is at a place of its own."""
    length = torch.arange(cache.shape[2])
    cache.copy_(torch.where((length == place[:, None])[:, None, :, None], new + 1, cache))
    return new * 2


def begin(cache, new, place):
    cache[:, :, 1:2] = new
    return cache[:, :, :, 0] * 2


CACHES = {"token": token, "last": last, "apart": apart, "begin": begin}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("write", CACHES)
@pytest.mark.parametrize(("dtype", "width"), [(F32, 8), (BF16, 24), (BF16, 7)])
@pytest.mark.parametrize("varying", [(0,), (2,), (0, 2), (0, 1, 2, 3)], ids=str)
def test_a_cache_of_any_size(write, dtype, width, varying):
    torch.manual_seed(0)
    function = CACHES[write]

    def inputs(batch, heads, length, width, place):
        at = torch.arange(batch) + place if write == "apart" else torch.tensor([place])
        return random(batch, heads, length, width, dtype=dtype), random(batch, heads, 1, width, dtype=dtype), at

    def shapes(dims):
        return {d: Dim.AUTO for d in dims}

    spec = shapes(varying), shapes(d for d in varying if d != 2), shapes([0] if write == "apart" and 0 in varying else [])
    on_gpu = OnGpu(function, inputs(4, 3, 12, width, 5), dynamic_shapes=spec)
    assert [o.argument for o in on_gpu.plan(True).outputs] == [0, -1]
    assert not any(s.copies for s in on_gpu.plan(True).steps) and len(on_gpu.kernels(True)) == len(on_gpu.kernels(False)) - 1
    other = [n if d not in varying else m for d, (n, m) in enumerate(zip((4, 3, 12, width), (2, 5, 40, width + 9)))]
    for sizes in ((4, 3, 12, width, 5), (*other, other[2] - 2), (*other, 1)):
        for in_place in (True, False):
            given = inputs(*sizes)
            expected = given[0].clone()
            result = function(expected, *given[1:])
            (read,) = on_gpu(given, in_place)
            assert torch.equal(given[0], expected)
            torch.testing.assert_close(read, result, rtol=1e-2 if dtype == BF16 else 1e-5, atol=1e-2 if dtype == BF16 else 1e-5)


@pytest.mark.covering
@pytest.mark.parametrize("place", [-1, 12, 2**32 + 3, -(2**62)])
def test_places_that_there_are_not(place):
    given = random(4, 3, 12, 8), random(4, 3, 1, 8), torch.tensor([5])
    on_gpu = OnGpu(token, given, dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO}, {0: Dim.AUTO}, {}))
    cache = random(3, 3, 12, 8)
    before = cache.clone()
    on_gpu((cache, random(3, 3, 1, 8), torch.tensor([place])), True)
    assert torch.equal(cache, before)


def added(x, y):
    x.add_(y)


def twice(x, y):
    x.add_(y).mul_(0.5)
    y.sub_(x)


def adam(x, y, m):
    m.mul_(0.9).add_(y, alpha=0.1)
    x.addcdiv_(m, (y * y).sqrt().add_(1e-8), value=-0.01)


def part(x, y):
    x[:, 1:] += y[:, 1:]


def set_part(x, y):
    x[:, 2:4] = y[:, :2]


def part_of_part(x, y):
    x[1:, 2:4] = y[1:, :2]


def row_added(x, y):
    x.index_add_(0, torch.arange(y.shape[0]), y)


def placed(x, y):
    x[torch.arange(y.shape[0])] = y


def scattered(x, y):
    x.scatter_(1, torch.zeros(y.shape[0], 1, dtype=torch.int64) + 2, y[:, :1])


def masked(x, y):
    x.masked_fill_(y > 0, 0.5)


def transposed(x, y):
    """The old value is read at other places: it is no place for the new one."""
    x.copy_(x.flip(1) + y)


def kept(x, y):
    before = x.clone()
    x.add_(y)
    return before


def added_row(x, y):
    x.add_(y[0])


MAPS = {f.__name__: (f, count) for f, count in (
    (added, [True]), (twice, [True, True]), (adam, [True, True]), (part, [True]), (set_part, [True]), (part_of_part, [True]), (row_added, [True]),
    (placed, [True]), (scattered, [True]), (masked, [True]), (transposed, [False]), (kept, [False]), (added_row, [True]),
)}


@pytest.mark.covering(most=4, also=lambda name, varying, dtype: name == "scattered" and varying == (1,) and dtype == F32)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("varying", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_what_is_changed_of_any_size(name, varying, dtype):
    torch.manual_seed(0)
    function, in_its_place = MAPS[name]
    count = 3 if name == "adam" else 2
    given = [random(12, 10, dtype=dtype) for _ in range(count)]
    on_gpu = OnGpu(function, tuple(given), dynamic_shapes=({d: Dim.AUTO for d in varying},) * count)
    changed = [r.target for r in on_gpu.signature.results if r.kind == "mutation"]
    assert [on_gpu.plan(True).outputs[i].argument == t for i, t in enumerate(changed)] == in_its_place
    assert dtype == BF16 or not any(s.copies for s in on_gpu.plan(True).steps)  # (what is added in bf16 is captured on a CPU as sums in float32)
    for rows, columns in ((12, 10), (3, 7), (130, 33)):
        rows, columns = rows if 0 in varying else 12, columns if 1 in varying else 10
        for in_place in {all(in_its_place), False}:
            given = [random(rows, columns, dtype=dtype) for _ in range(count)]
            expected = [t.clone() for t in given]
            function(*expected)
            on_gpu(tuple(given), in_place)
            torch.testing.assert_close(given, expected, rtol=1e-2 if dtype == BF16 else 1e-5, atol=1e-2 if dtype == BF16 else 1e-6)


def part_and_row(x, y):
    x[:, 1:] = y[:, 1:]
    x[0] += 1
    return x.sum()


def test_a_part_of_what_a_kernel_writes_is_read():
    """The row is a part of what the kernel in front has written: the two stay two."""
    torch.manual_seed(0)
    on_gpu = OnGpu(part_and_row, (random(12, 10), random(12, 10)), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},) * 2)
    for sizes in ((12, 10), (3, 7), (130, 33)):
        for in_place in (True, False):
            x, y = random(*sizes), random(*sizes)
            expected = x.clone()
            total = part_and_row(expected, y)
            (found,) = on_gpu((x, y), in_place)
            torch.testing.assert_close((x, found), (expected, total), rtol=1e-5, atol=1e-4)


def both(keys, values, k, v, place):
    keys.index_copy_(1, place, k)
    values.index_copy_(1, place, v)
    return keys.float().sum(1) + values.float().sum(1)[..., :1]


def test_keys_and_values_of_any_size_are_written_by_one_launch():
    def inputs(batch, keys, values, place):
        rows = (random(batch, keys, 8, dtype=BF16), random(batch, values, 16), random(batch, 1, 8, dtype=BF16), random(batch, 1, 16))
        return *rows, torch.tensor([place])

    shapes = {0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO}, {0: Dim.AUTO}, {}
    on_gpu = OnGpu(both, inputs(4, 12, 20, 5), dynamic_shapes=shapes)
    assert sum("scatter" in k for k in on_gpu.kernels(True)) == 1 and sum("scatter" in k for k in on_gpu.kernels(False)) == 3
    for sizes in ((4, 12, 20, 5), (3, 40, 9, 8), (2, 7, 50, 0), (150, 3, 3, 2)):
        for in_place in (True, False):
            given = inputs(*sizes)
            expected = [t.clone() for t in given[:2]]
            total = both(*expected, *given[2:])
            (found,) = on_gpu(given, in_place)
            assert torch.equal(given[0], expected[0]) and torch.equal(given[1], expected[1])
            torch.testing.assert_close(found, total, rtol=1e-4, atol=1e-4)
