"""Sorts of long rows come from torch's library, short ones are compiled; equal elements stay in their order."""

import functools
from unittest import mock

import pytest
import torch
from torch.export import Dim

import inferno
from inferno.runtime import build

CASES = {
    "argsort": lambda x: torch.argsort(x, dim=-1, descending=True, stable=True) + 1,
    "topk": lambda x: x.topk(4, -1)[0] * 2, "along the first": lambda x: torch.sort(x.t(), dim=0, stable=True)[1],
}


def library_calls(report):
    return [p.name for p in report.pieces if "torch's library" in p.reason]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", ["argsort", "topk", "along the first"])
@pytest.mark.parametrize("columns, long", [(3000, True), (12, False)])
def test_long_rows(name, columns, long):
    function, x = CASES[name], torch.randint(0, 3, (8, columns)).float()
    compiled = inferno.compile(function, (x,))
    assert len(library_calls(compiled.explain())) == long
    torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)


def test_torch_compile():
    x, function = torch.randint(0, 3, (8, 3000)).float(), CASES["argsort"]
    compiled = torch.compile(function, backend="inferno")
    assert torch.equal(compiled(x), function(x)) and len(library_calls(inferno.explain(compiled))) == 1


def test_without_fallback_all_is_compiled():
    x = torch.randn(2, 1000)
    compiled = inferno.compile(CASES["topk"], (x,), fallback=False)
    assert not library_calls(compiled.explain()) and torch.equal(compiled(x), CASES["topk"](x))


@functools.cache
def some_program():
    x = empty(4)
    return inferno.compile(lambda x: x + 1, (x,), target="sm_90a").program


def reasons(function, *inputs, **options):
    """Why operations run in eager on a GPU; inputs without data stand for its tensors.  What is decided before anything is lowered, so nothing is."""
    program = some_program()
    with mock.patch.object(build, "build_from", lambda *_, **__: program):
        return [p.reason for p in inferno.compile(function, inputs, target="sm_90a", **options).explain().pieces if "torch's library" in p.reason]


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("rows, columns, dtype, part, faster", [
    (4096, 1024, torch.float32, None, 0), (64, 1 << 20, torch.float32, None, 0), (1, 1 << 20, torch.float32, None, 1), (8, 1 << 22, torch.float32, None, 1),
    (64, 1 << 20, torch.bfloat16, None, 1), (4096, 1024, torch.int64, None, 0), (4096, 8192, torch.int64, None, 1), (8, 1 << 22, torch.float32, 50, 0),
    (4096, 8192, torch.int64, 50, 1), (8, 1 << 22, torch.float32, 1 << 20, 1),
])
def test_sorts_on_a_gpu(rows, columns, dtype, part, faster):
    x = empty(rows, columns, dtype=dtype)
    if part is None:
        assert len(reasons(lambda x: x.sort(-1), x)) == faster
        return
    assert len(reasons(lambda x: x.topk(part, -1), x)) == faster
    assert len(reasons(lambda x: torch.sort(x, dim=-1, stable=True)[1][:, :part], x)) == faster


@pytest.mark.parametrize("columns, part, faster", [(1000, None, 0), (4096, None, 1), (32000, 50, 0), (32000, 20000, 1)])
def test_any_number_of_rows_on_a_gpu(columns, part, faster):
    x, rows = empty(512, columns), ({0: Dim("n", min=2)},)
    assert len(reasons((lambda x: x.sort(-1)) if part is None else (lambda x: x.topk(part, -1)), x, dynamic_shapes=rows)) == faster


def test_medians_on_a_gpu_are_selected():
    assert not reasons(lambda x: (*x.median(-1), x.kthvalue(9, -1)[0], torch.sort(x)[0][:, -2]), empty(64, 16384)) and reasons(
        lambda x: x.median(), empty(64, 1 << 20))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("rows, dtype", [(64, torch.float32), (65536, torch.float32), (1024, torch.bfloat16), (65536, torch.bfloat16)])
def test_sums_that_meet(rows, dtype):
    """Ours, but where many rows of 16-bit floats get few, and of millions of elements that go anywhere."""
    x, i, index = empty(128, 64, dtype=dtype), empty(rows, dtype=torch.int64), empty(rows, 64, dtype=torch.int64)
    terms = empty(rows, 64, dtype=dtype)
    assert not reasons(lambda x, i, y: x.index_add(0, i, y), x, i, terms)
    assert not reasons(lambda x, i, y: x.index_put((i,), y, accumulate=True), x, i, terms)
    large = empty(1 << 21, 64, dtype=dtype)
    assert bool(reasons(lambda x, i, y: x.index_put((i,), y, accumulate=True), large, i, terms)) == (dtype == torch.bfloat16)
    assert bool(reasons(lambda x, i, y: x.scatter_add(0, i, y), x, index, terms)) == (rows == 65536)
    assert not reasons(lambda x, i, y: x.index_put((i,), y), x, i, terms)


def test_what_is_added_in_order_is_not_torchs():
    """Few rows of 16-bit floats that are added to zeros, not to what may be there already; nothing at all is nobody's."""
    zeros, add = lambda x, i, y: y.new_zeros(1 << 19, 256).index_add(0, i, y), lambda x, i, y: x.index_add(0, i, y)
    args = empty(1 << 19, 256, dtype=torch.bfloat16), empty(65536, dtype=torch.int64), empty(65536, 256, dtype=torch.bfloat16)
    assert reasons(add, *args) and not reasons(zeros, *args)
    for rows, count, columns in ((8, 9, 0), (8, 0, 16)):
        assert not reasons(add, empty(rows, columns), empty(count, dtype=torch.int64), empty(count, columns))


@pytest.mark.parametrize("kind, dtype, few, many", [
    ("amax", torch.float32, 200, 1 << 17), ("amin", torch.bfloat16, 200, 1 << 17), ("prod", torch.int64, 8, 200), ("amax", torch.int64, 200, 1 << 17),
    ("mean", torch.float32, 200, 1 << 17),
])
def test_others_that_meet(kind, dtype, few, many):
    """What memory combines goes there one by one, the rest waits for each other."""
    for rows, faster in ((few, False), (many, True)):
        args = empty(1000, 64, dtype=dtype), empty(rows, 64, dtype=torch.int64), empty(rows, 64, dtype=dtype)
        assert bool(reasons(lambda x, i, y: x.scatter_reduce(0, i, y, kind), *args)) == faster


def test_running_sums():
    long, short = empty(4096, 4096), empty(64, 1024)
    varying = {"dynamic_shapes": ({0: Dim("n", max=8192)},)}
    assert reasons(lambda x: x.cumsum(-1), long, **varying) and not reasons(lambda x: x.cumsum(0), long, **varying)
    assert not reasons(lambda x: x.cumsum(-1), short, **varying)
    assert not reasons(lambda x: x.cumsum(-1), long) and not reasons(lambda x: x.cumsum(1), torch.randn(2000, 2000))
