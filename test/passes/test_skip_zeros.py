"""Transposed convolutions of all kinds, in one program: right against float64, and none of them has an image with zeros between its elements."""

import re

import torch
from checks import assert_close_to_float64
from oracle import run_module
from torch import nn

from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.target import find_target

F = nn.functional
FUNCTIONS = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}
# (image, weight, options, dtype)
FORMS = [
    ((2, 4, 5), (4, 6, 3), {"padding": 1}, torch.float32),
    ((2, 4, 5), (4, 6, 16), {"stride": 8, "padding": 4}, torch.float32),
    ((2, 4, 5), (4, 6, 3), {"stride": 4, "dilation": 2, "output_padding": 3}, torch.float32),
    ((2, 4, 5), (4, 6, 3), {"stride": 3, "dilation": 2, "output_padding": 2, "padding": 3}, torch.float32),
    ((1, 4, 5, 6), (4, 6, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}, torch.bfloat16),
    ((1, 4, 5, 6), (4, 6, 2, 3), {"stride": 2}, torch.float32),
    ((1, 4, 7, 6), (4, 6, 2, 1), {"stride": (2, 3), "padding": (2, 4)}, torch.float32),
    ((2, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1, "groups": 2}, torch.float32),
    ((2, 8, 5), (8, 1, 5), {"stride": 2, "padding": 5, "groups": 8}, torch.float32),
    ((1, 4, 3, 3, 2), (4, 6, 3, 2, 2), {"stride": (1, 2, 2), "padding": (1, 0, 0)}, torch.bfloat16),
]


def model(*tensors):
    """Of each form the convolution, with a bias and what follows."""
    return tuple(torch.relu(FUNCTIONS[x.dim()](x, w, b, **form[2])) for x, w, b, form in zip(tensors[::3], tensors[1::3], tensors[2::3], FORMS))


def test_all_forms():
    args = tuple(torch.randn(s).to(t) for x, w, o, t in FORMS for s in (x, w, (w[1] * o.get("groups", 1),)))
    found = capture(model, args)
    fused = build_from("torch", found.text, find_target("sm_90a"), last="fused", signature=found.signature).stages["fused"]
    assert "insert_slice" not in fused
    results = run_module(fused, [t.contiguous() for t in found.signature.arguments_of(args, {})])
    assert_close_to_float64(tuple(s.as_eager(r) for s, r in zip(found.signature.results, results)), model, args)


def test_a_decoder_has_no_more_than_its_sums():
    """What follows a transposed convolution is in its kernels; where the window is the step, one kernel has all of it."""
    layers = nn.Sequential(
        nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 8, 2, 2), nn.BatchNorm2d(8), nn.ReLU(),
    ).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 16, 5, 6).to(memory_format=torch.channels_last)
    found = capture(layers, (x,))
    fused = build_from("torch", found.text, find_target("sm_90a"), last="fused", signature=found.signature).stages["fused"]
    kernels = [n for n in re.findall(r"call @(\w+)", fused) if not re.match(r"(muli_subi_)?gather|transpose|addf_sqrt_divf", n)]
    assert [n[:9] for n in kernels] == ["conv_addf"] * 4 + ["pieces", "matmul_ad"]


def test_what_follows_is_computed_of_the_parts():
    """Of every phase, also where it reads a sum twice, as silu does, or sums are results, too."""
    def model(x, w, v, b):
        y, z = F.conv_transpose2d(x, w, b, 2, 1), F.conv_transpose2d(x, v, b, 2)
        return F.silu(y), y.sigmoid() * y.tanh() + b[:, None, None], F.silu(z), z

    args = (torch.randn(2, 4, 5, 6), torch.randn(4, 6, 3, 3), torch.randn(4, 6, 2, 2), torch.randn(6))
    found = capture(model, args)
    fused = build_from("torch", found.text, find_target("sm_90a"), last="fused", signature=found.signature).stages["fused"]
    results = run_module(fused, [t.contiguous() for t in found.signature.arguments_of(args, {})])
    assert_close_to_float64(tuple(s.as_eager(r) for s, r in zip(found.signature.results, results)), model, args)


def test_silu_is_the_end_of_the_product():
    """Of a row-major image: the product, which writes channels last, has the activation, and what is behind it only transposes."""
    layers = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, 2), nn.SiLU())
    found = capture(layers.eval(), (torch.randn(2, 16, 5, 6),))
    fused = build_from("torch", found.text, find_target("sm_90a"), last="fused", signature=found.signature).stages["fused"]
    product = re.search(r"call @matmul_addf_negf_exp\w+\(.*-> tensor<(\S+)xf32>", fused)
    assert product is not None and product[1] == "2x5x2x6x2x8", fused
    assert len(re.findall(r"call @(?!transpose|gather)", fused)) == 1
