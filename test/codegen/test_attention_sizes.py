"""Attention of any number of sequences, queries and keys: one kernel, right for every size."""

import pytest
import torch
from attention_cases import WEIGHTS
from attention_program import simulated
from checks import assert_close_to_float64
from fake_driver import launched
from kernels import TARGET
from torch.export import Dim
from universal_program import _fuse, assert_assembles

from inferno.capture import capture
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.attention.attention import choose
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.composite.size_ranges import BySize

sdpa = torch.nn.functional.scaled_dot_product_attention
B, S, T = Dim("b", min=1, max=64), Dim("s", min=1, max=8192), Dim("t", min=1, max=8192)
HEADS = ({0: B, 2: S},) * 3


def randn(*shape):
    return torch.randn(shape).bfloat16()


def heads(batch, queries, keys=0, of=2, shared=2, size=16):
    return randn(batch, of, queries, size), *(randn(batch, shared, keys or queries, size) for _ in range(2))


def window(q, k, v):
    """The last keys of as many as queries see, where these are the last ones."""
    i, j = torch.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2]), torch.arange(k.shape[2])
    return sdpa(q, k, v, attn_mask=(j <= i) & (i - j < 20), enable_gqa=True)


def masked(q, k, v, mask):
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    scores = q @ k.transpose(-1, -2) / 4 + mask - (i + j).float() / k.shape[2]
    return torch.softmax(scores.float(), -1).to(q.dtype) @ v


def side_by_side(x):
    q, k, v = (y.view(x.shape[0], x.shape[1], 2, 16).transpose(1, 2) for y in x.chunk(3, -1))
    return sdpa(q, k, v).transpose(1, 2).reshape(x.shape[0], x.shape[1], 32)


def one_query(batch, keys):
    return heads(batch, 1, keys, of=4)


KEYS = ({0: B}, {0: B, 2: T}, {0: B, 2: T})
BY_SIZE = BySize("n1", 64, Attention(1, 32, turns=False), Attention(2, 48, order="static"))
FORMS = {  # the function, its inputs for sizes, which of them vary, the schedule, sizes of which it is compiled for the first ones
    "heads share keys": (
        lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), lambda b, s: heads(b, s, of=4), HEADS, Attention(2, 48, order="dynamic"),
        [(2, 50), (1, 129), (1, 64), (1, 1)],
    ),
    "a window at the end": (
        window, heads, ({0: B, 2: S}, {0: B, 2: T}, {0: B, 2: T}), Attention(1, 16, turns=False), [(2, 20, 50), (1, 1, 70), (1, 70, 70)],
    ),
    "a mask, by size": (
        masked, lambda b, s: (*heads(b, s), randn(b, 1, s, s)), (*HEADS, {0: B, 2: S, 3: S}), BY_SIZE, [(2, 50), (1, 97), (1, 7)],
    ),
    "one query, keys shared out": (
        lambda q, k, v: sdpa(q, k, v, enable_gqa=True), one_query, KEYS, Attention(1, 16, turns=False, parts=2, splits=2), [(2, 50), (1, 150), (1, 1)],
    ),
    "weights of scores alone": (WEIGHTS["sigmoid, causal"], heads, HEADS, Attention(2, 48, order="dynamic"), [(2, 50), (1, 129), (1, 1)]),
    "float32, side by side": (
        side_by_side, lambda b, s: (torch.randn(b, s, 96),), ({0: B, 1: S},), Attention(2, 32, 1, turns=False, overlap=False, pieces=3),
        [(2, 33), (1, 1)],
    ),
}


ASSEMBLED = ("heads share keys", "one query, keys shared out")


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", FORMS)
def test_right_for_every_size(name):
    torch.manual_seed(0)
    function, inputs, dims, schedule, sizes = FORMS[name]
    model = simulated(function, inputs(*sizes[0]), schedule, dynamic_shapes=dims)
    if name in ASSEMBLED:
        assert_assembles(model.program.gpu, TARGET)
    for each in sizes:
        args = inputs(*each)
        assert_close_to_float64(model(*args), function, args)


NONE, ANY = Dim("none", min=0, max=64), Dim("any", min=0, max=64)
EMPTY = {  # as above, with numbers that may be 0
    "by size": (
        sdpa, heads, ({0: NONE, 2: ANY},) * 3, BySize("n1", 16, Attention(1, 32, turns=False), Attention(2, 48, order="dynamic")), (2, 50), [(0, 50), (2, 0)],
    ),
    "float32": (side_by_side, FORMS["float32, side by side"][1], ({0: NONE, 1: ANY},), FORMS["float32, side by side"][3], (2, 33), [(0, 33), (2, 0)]),
    "keys shared out": (
        FORMS["one query, keys shared out"][0], one_query, ({0: NONE}, {0: NONE, 2: T}, {0: NONE, 2: T}), FORMS["one query, keys shared out"][3],
        (2, 50), [(0, 150)],
    ),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", EMPTY)
def test_nothing_is_launched_where_there_are_no_queries(name):
    function, inputs, dims, schedule, example, sizes = EMPTY[name]
    model = simulated(function, inputs(*example), schedule, dynamic_shapes=dims)
    plan = model.program.plan
    assert launched(plan, example).maps
    for each in sizes:
        for interpret in (False, True):
            driver = launched(plan, each, interpret)
            assert not driver.calls and not driver.maps
        args = inputs(*each)
        assert torch.equal(model(*args), function(*args))


def chosen(function, args, dims):
    """The schedule of a function's attention."""
    text, _ = _fuse(capture(function, args, dynamic_shapes=dims), "fuse-attention{target=sm_90a always=1}", True)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel, = (k for k in kernels(module) if parse_attention(k) is not None)
        schedule = choose(kernel, TARGET)
        assert schedule is None or from_attribute(to_attribute(schedule)) == schedule
        return schedule


def test_few_queries_and_many_have_schedules_of_their_own():
    schedule = chosen(sdpa, heads(4, 512, of=8, shared=8, size=128), HEADS)
    assert schedule.size == "n1" and schedule.small.consumers == 1 and schedule.large.consumers == 2


@pytest.mark.thorough
def test_many_keys_of_one_query_are_shared_out():
    schedule = chosen(sdpa, heads(2, 1, 100, of=8, shared=8, size=128), KEYS)
    assert schedule.size == "n1" and schedule.small.shares == 1
    assert schedule.large.size == "n0 * 8" and schedule.large.small.shares > 1  # of few heads


def test_left_alone_where_there_may_be_queries_without_keys():
    none = Dim("t", min=0, max=8192)
    assert chosen(sdpa, heads(2, 20, 50), ({0: B, 2: S}, {0: B, 2: none}, {0: B, 2: none})) is None
