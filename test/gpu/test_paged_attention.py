"""Attention over caches in pages as one kernel, which looks up the pages itself, against float64."""

import pytest
import torch
from checks import assert_right
from on_gpu import on_hopper
from paged_cases import CASES, cache_of, operands, poisoned
from torch.export import Dim

import inferno
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("unmeasured"),
]


def one_kernel(compiled):
    text = compiled.ir("scheduled")
    return text.count('generator = "attention"') == 1 and text.count("call @") == 1


@pytest.mark.parametrize("name", CASES)
def test_forms(name):
    args = cache_of(name, operands(16, 20, [1, 300, 77, 320], heads=(8, 2), columns=128, device="cuda"))
    assert one_kernel(assert_right(CASES[name], args))


def test_what_was_timed_is_chosen(monkeypatch):
    monkeypatch.delenv("INFERNO_UNMEASURED")
    args = operands(64, 5, [1, 300], heads=(8, 2), columns=128, device="cuda")
    assert one_kernel(assert_right(CASES["index"], args))
    assert not one_kernel(assert_right(CASES["index"], tuple(x.half() if x.is_floating_point() else x for x in args)))


@pytest.mark.parametrize("rows", [16, 32, 48, 64, 128, 256])
def test_sizes_of_pages(rows):
    args = operands(rows, 1 + 1000 // rows, [1000, 5, 513], queries=3, heads=(8, 2), columns=64, device="cuda", table=torch.int64, dtype=torch.float16)
    assert one_kernel(assert_right(CASES["index"], args))


@pytest.mark.parametrize("rows", [16, 64])
def test_float32(rows):
    args = operands(rows, 1 + 600 // rows, [600, 5, 513], queries=3, heads=(8, 2), columns=64, device="cuda", dtype=torch.float32)
    assert one_kernel(assert_right(CASES["index"], args))


def test_what_is_behind_the_lengths_is_not_read():
    args = operands(16, 128, [1, 16, 17, 2000], heads=(32, 8), columns=128, device="cuda")
    compiled = inferno.compile(CASES["index"], args)
    wanted = compiled(*args)
    for _ in range(3):
        assert torch.equal(compiled(*poisoned(args)), wanted)


def test_a_token_is_written_first():
    def step(q, k, v, table, lengths, new):
        last = lengths - 1
        place = torch.gather(table, 1, (last // k.shape[1])[:, None])[:, 0], last % k.shape[1]
        k.index_put_(place, new)
        v.index_put_(place, new * 2)
        return CASES["index"](q, k, v, table, lengths)

    args = operands(16, 20, [1, 300, 77, 320], heads=(8, 2), columns=128, device="cuda", table=torch.int64)
    new = torch.randn(4, 2, 128, device="cuda").bfloat16()
    q, k, v, table, lengths = args
    wanted, found = ([x.clone() for x in (k, v)] for _ in range(2))
    compiled = inferno.compile(step, (q, *found, table, lengths, new))
    for _ in range(2):
        ours, theirs = compiled(q, *found, table, lengths, new), step(q, *wanted, table, lengths, new)
        assert all(map(torch.equal, found, wanted))
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
        lengths -= lengths.gt(1).long()
        new = new + 1


def test_sizes_that_vary():
    dims = {0: Dim("b", min=1, max=64), 1: Dim("n", min=1, max=512)}
    shapes = {"q": {0: dims[0]}, "k": None, "v": None, "table": dims, "lengths": {0: dims[0]}}
    form = dict(heads=(8, 2), columns=64, device="cuda", many=800)
    compiled = inferno.compile(CASES["index"], operands(16, 40, [640, 17], **form), dynamic_shapes=shapes)
    for pages, lengths in ((40, [640, 17]), (300, [4000]), (3, [1, 32, 20, 48, 9])):
        args = operands(16, pages, lengths, **form)
        found = compiled(*poisoned(args))
        assert compare(found, CASES["index"](*args), reference(CASES["index"], args)).right
