"""Attention of other forms than softmax of scores, as one kernel against float64."""

import re

import pytest
import torch
from attention_cases import WEIGHTS, chunked, conformer, gated, of_images, relative, sam, softmax1, softmax1_below_the_largest
from checks import assert_right
from on_gpu import on_hopper

F = torch.nn.functional
pytestmark = on_hopper


def heads(queries, keys, size, batch=2, of=4, dtype=torch.bfloat16):
    """q, k and v."""
    return tuple(torch.randn(batch, of, n, size, device="cuda").to(dtype) for n in (queries, keys, keys))


def right(function, args, kernels=1):
    """Right, as one kernel of so many."""
    text = assert_right(function, args).ir("scheduled")
    assert len(re.findall(r'generator = "(?:short_)?attention"', text)) == 1 and text.count("call @") == kernels


@pytest.mark.parametrize("queries, keys, size, dtype", [
    (333, 777, 64, torch.bfloat16), (1024, 1024, 128, torch.float16), (4, 4096, 64, torch.bfloat16), (300, 500, 64, torch.float32),
    (4, 4096, 64, torch.float32),
])
@pytest.mark.parametrize("function", [softmax1, softmax1_below_the_largest])
def test_softmax1(unmeasured, function, queries, keys, size, dtype):
    q, k, v = heads(queries, keys, size, dtype=dtype)
    right(function, (q * (4 / size**0.5), k, v))


@pytest.mark.parametrize("height, width, batch, size", [(64, 64, 1, 64), (14, 14, 50, 64), (24, 48, 3, 80), (7, 9, 20, 32)])
def test_biases_of_rows_and_of_columns(height, width, batch, size):
    """SAM's: of images and of windows; beside attention there are products of queries with tables, and what these are made of."""
    q, k, v = heads(height * width, height * width, size, batch, of=3)
    tables = (torch.randn(2 * n - 1, size, device="cuda").bfloat16() / 8 for n in (height, width))
    assert len(re.findall(r'generator = "attention"', assert_right(sam, (q, k, v, *tables)).ir("scheduled"))) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_given_biases_of_rows_and_of_columns(dtype):
    q, k, v = heads(300, 16 * 20, 64, dtype=dtype)
    right(of_images, (q / 2, k, v, *(torch.randn(2, 4, 300, n, device="cuda").to(dtype) for n in (16, 20))))


@pytest.mark.parametrize("length, size", [(200, 64), (1024, 64), (77, 128)])
def test_relative_positions(length, size):
    q, k, v = heads(length, length, size)
    right(relative, (q / size**0.5, k, v, torch.randn(2, 4, length, 2 * length - 1, device="cuda").bfloat16()))


def test_what_is_added_to_queries_is_computed_in_front():
    table, of_content, of_places = (torch.randn(4, *n, 64, device="cuda").bfloat16() for n in ((1023,), (), ()))
    text = assert_right(conformer, (*heads(512, 512, 64), table, of_content, of_places)).ir("scheduled")
    assert len(re.findall(r'generator = "attention"', text)) == 1 and "reduce_maximumf" not in text.split("func.func private")[0]


@pytest.mark.parametrize("queries, size, dtype", [(333, 64, torch.bfloat16), (1024, 128, torch.float16), (1, 64, torch.bfloat16), (300, 64, torch.float32)])
def test_gates(queries, size, dtype):
    q, k, v = heads(queries, queries if queries > 1 else 4096, size, dtype=dtype)
    right(gated if queries > 1 else lambda q, k, v, g: F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) * torch.sigmoid(
        g.chunk(2, -1)[1].flatten(2)), (q, k, v, torch.randn(2, queries, 4, 2 * size, device="cuda").to(dtype)))


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("queries, size, dtype", [(600, 64, torch.bfloat16), (1024, 128, torch.float16), (49, 32, torch.bfloat16)])
def test_weights_of_scores_alone(unmeasured, name, queries, size, dtype):
    q, k, v = heads(queries, queries, size, dtype=dtype, batch=2 if queries > 64 else 512)
    args = (q * (4 / size**0.5), k, v, *([torch.rand(4, device="cuda")] if name == "decayed" else []))
    if queries > 64 or not name.startswith(("divided", "powers")):  # short rows' own kernel divides by nothing but a softmax's sums
        right(WEIGHTS[name], args)
    else:
        assert_right(WEIGHTS[name], args)


def test_weights_of_scores_alone_of_few_queries(unmeasured):
    """Blocks share the keys."""
    right(WEIGHTS["sigmoid"], heads(4, 4096, 64))


def test_chunks(unmeasured):
    """Mamba-2's: 32 heads have the same keys and queries.  The sums of its steps are a scan in front."""
    c, b = (torch.randn(6, 256, 64, device="cuda").bfloat16() / 4 for _ in range(2))
    right(chunked, (c, b, torch.randn(6, 32, 256, 64, device="cuda").bfloat16(), -torch.rand(6, 32, 256, device="cuda") / 8), kernels=2)


def test_softmax1_of_many_short_rows(unmeasured):
    right(softmax1_below_the_largest, heads(49, 49, 32, batch=512))
