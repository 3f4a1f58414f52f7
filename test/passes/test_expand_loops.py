"""Products of heads that the program gives back beside each other are one kernel each, and right against float64."""

import re

import pytest
import torch
from checks import assert_close_to_float64
from oracle import run_module

from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.runtime.build import build_from
from inferno.target import find_target


def together(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def with_weights(q, k, v):
    weights = torch.softmax(q @ k.mT / 4, -1)
    return together(weights @ v), weights


FORMS = {
    "a product": (lambda q, k, v: together(q @ v[:, :, :16]), 1),
    "what follows": (lambda q, k, v: together((q @ v[:, :, :16]).relu()) * 2 + 1, 1),
    "what adds a tensor": (lambda q, k, v: together(q @ v[:, :, :16]) + k.reshape(2, 12, 128), 1),
    "attention that returns its weights": (with_weights, 3),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FORMS)
def test_heads_beside_each_other(name, dtype):
    function, calls = FORMS[name]
    torch.manual_seed(0)
    args = (torch.randn(2, 4, 12, 16).to(dtype), torch.randn(2, 4, 24, 16).to(dtype), torch.randn(2, 4, 24, 32).to(dtype))
    with capturing_for(True):  # of the arguments' own device there is none
        found = capture(function, args)
    stages = build_from("torch", found.text, find_target("sm_90a"), last="scheduled", signature=found.signature).stages
    assert len(re.findall(r"call @", stages["scheduled"])) == calls
    results = run_module(stages["scheduled"], [t.contiguous() for t in found.signature.arguments_of(args, {})])
    assert_close_to_float64([r.as_eager(x) for r, x in zip(found.signature.results, results)], lambda *a: _listed(function(*a)), args)


def _listed(results):
    return list(results) if isinstance(results, tuple) else [results]
