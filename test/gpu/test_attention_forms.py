"""Attention of other forms than softmax of scores, as one kernel against float64."""

import re

import pytest
import torch
from attention_cases import softmax1, softmax1_below_the_largest
from checks import assert_right
from on_gpu import on_hopper

pytestmark = on_hopper


def heads(queries, keys, size, batch=2, of=4, dtype=torch.bfloat16):
    """q, k and v."""
    return tuple(torch.randn(batch, of, n, size, device="cuda").to(dtype) for n in (queries, keys, keys))


def right(function, args):
    """Right, as one kernel."""
    text = assert_right(function, args).ir("scheduled")
    assert len(re.findall(r'generator = "(?:short_)?attention"', text)) == 1 and text.count("call @") == 1


@pytest.mark.parametrize("queries, keys, size, dtype", [
    (333, 777, 64, torch.bfloat16), (1024, 1024, 128, torch.float16), (4, 4096, 64, torch.bfloat16), (300, 500, 64, torch.float32), (4, 4096, 64, torch.float32),
])
@pytest.mark.parametrize("function", [softmax1, softmax1_below_the_largest])
def test_softmax1(unmeasured, function, queries, keys, size, dtype):
    q, k, v = heads(queries, keys, size, dtype=dtype)
    right(function, (q * (4 / size**0.5), k, v))


def test_softmax1_of_many_short_rows(unmeasured):
    right(softmax1_below_the_largest, heads(49, 49, 32, batch=512))
