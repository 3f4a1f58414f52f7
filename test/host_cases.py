"""Graphs of functions of a GPU's tensors, where there is no GPU: traced on fake ones."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inferno.capture.host_numbers import place_attributes
from inferno.capture.refusal import refusals

CUDA = torch.device("cuda", 0)


def traced(function, *shapes):
    """The graph of a function of tensors of a GPU, which need not be there, and what of it cannot be compiled."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        module = make_fx(function)(*(torch.empty(s, device="cuda") for s in shapes))
        place_attributes(module)
    return module, refusals(module.graph, CUDA)
