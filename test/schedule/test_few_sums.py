"""Threads of few sums whose terms are neighbours in memory: each has several vectors under way, and what is one sum is one kernel."""

import re

import pytest
import torch
from choices import scheduled


def knobs(model, *args):
    text = scheduled(model, args)
    found = re.findall(r"inferno.schedule = \{([^}]*)\}", text)
    return [dict(pair.split(" = ") for pair in re.sub(r" : i64|\"", "", each).split(", ")) for each in found]


@pytest.mark.parametrize("shape, dtype, along", [((1000, 250), torch.bfloat16, 32), ((173, 1024), torch.float32, 64), ((32, 512), torch.bfloat16, 32)])
def test_threads_have_several_vectors(shape, dtype, along):
    (sums,) = knobs(lambda x: x.abs().sum(-1), torch.empty(shape, dtype=dtype))
    assert (sums["generator"], sums["along"]) == ("reductions", str(along))


@pytest.mark.parametrize("length", [301, 1023, 5001])
def test_one_sum_is_one_kernel(length):
    (total,) = knobs(lambda x: x.sum(), torch.empty(length))
    assert (total["generator"], total["chunks"]) == ("reductions", "1")
