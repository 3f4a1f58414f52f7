"""Results of which parts are read: their numbers, and that no more is computed."""

import re

import pytest
import torch
from checks import assert_close_to_float64, scheduled
from torch.export import Dim
from torch.nn import functional as F

import inferno
from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.mlir import idle_context, ir
from inferno.runtime.build import build_from
from inferno.schedule.analysis.cost import count_flops
from inferno.schedule.assign import kernels
from inferno.target import find_target

WIDTH, HEADS = 32, 2


def split(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def block(x, qkv, out, up, down):
    """A layer of a transformer."""
    q, k, v = (split(t) for t in (F.layer_norm(x, (WIDTH,)) @ qkv).chunk(3, -1))
    x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ out
    return x + F.gelu(F.layer_norm(x, (WIDTH,)) @ up) @ down


def rotated(x):
    """By halves, as rotary positions are."""
    angles = torch.arange(x.shape[2], device=x.device).to(x.dtype)[:, None] * torch.linspace(1, 0.1, x.shape[3] // 2, device=x.device, dtype=x.dtype)
    angles = torch.cat((angles, angles), -1)
    return x * angles.cos() + torch.cat((-x[..., x.shape[3] // 2:], x[..., : x.shape[3] // 2]), -1) * angles.sin()


def gated(x, qkv, out, up, down):
    """A layer of a language model: rotary positions, a causal mask."""
    q, k, v = (split(t) for t in (F.rms_norm(x, (WIDTH,)) @ qkv).chunk(3, -1))
    x = x + F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True).transpose(1, 2).flatten(2) @ out
    y = F.rms_norm(x, (WIDTH,))
    return x + (F.silu(y @ up) * (y @ up.flip(1))) @ down


def masked_by_hand(x, qkv, out, up, down):
    q, k, v = (split(t) for t in (x @ qkv).chunk(3, -1))
    scores = (q @ k.mT / 4).masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1), -1e9)
    return F.silu((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2) @ out) + x


def weights():
    torch.manual_seed(0)
    sizes = (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)
    return [torch.randn(s) / s[0] ** 0.5 for s in sizes]


PARTS = {
    "first": lambda y: y[:, 0], "last": lambda y: y[:, -1], "first and last": lambda y: y[:, 0] * y[:, -1], "each third": lambda y: y[:, ::3],
    "an image": lambda y: y[1], "images": lambda y: y[1:3].sum(1), "of one image": lambda y: y[2, 3:5], "a few of each": lambda y: y[:, 2:4].flatten(1),
    "channels": lambda y: y[..., :8], "one token's head": lambda y: y.unflatten(-1, (HEADS, -1))[:, -2, 1], "one number": lambda y: y[1, 2, 3],
    "some, and a norm of some": lambda y: (y[:, 0], F.normalize(y, dim=-1)[:, 0]), "backwards": lambda y: y.flip(1)[:, 0], "most": lambda y: y[:, 1:],
    "a part of a part": lambda y: y[1:][:, 1:][:, 0], "transposed": lambda y: y.transpose(0, 1)[2], "halves": lambda y: torch.cat(y.chunk(2, 1)[::-1], 1),
    "the largest": lambda y: y.softmax(-1).max(-1).values[:, 3], "where it is": lambda y: y.argmax(1)[:, :4],
    "pairs far apart": lambda y: y[:, 9] + y[:, 1] * y[:, 8] - y[:, 0], "three of many": lambda y: (y[:, 0], y[:, 3:], y[:, 1]),
    "all, and one": lambda y: (y, y[:, 0].softmax(-1)),
}


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("model", [block, gated, masked_by_hand])
@pytest.mark.parametrize("name", PARTS)
def test_right(name, model):
    x = torch.randn(4, 10, WIDTH)
    program = lambda *args: PARTS[name](model(*args))  # noqa: E731
    args = (x, *weights())
    assert_close_to_float64(inferno.compile(program, args, target="cpu", fallback=False)(*args), program, args)


OTHERS = {
    "an image": lambda x, w: F.conv2d(x, w)[1], "channels": lambda x, w: F.conv2d(x, w)[:, :3], "a column": lambda x, w: F.conv2d(x, w, stride=2)[..., 1],
    "a line": lambda x, w: F.conv2d(x, w).relu()[:, :, 0], "statistics": lambda x, w: F.batch_norm(x, None, None, training=True)[:, :2],
    "scans": lambda x, w: x.cumsum(1)[:, :2] + x.sum(1, keepdim=True)[..., 1:3, :1].mean(2, keepdim=True), "windows": lambda x, w: F.max_pool2d(x, 2)[:, 1],
    "sorts": lambda x, w: torch.sort(x.sum(-1), -1).values[:, 0], "means": lambda x, w: x.mean((2, 3))[:2, :2], "one number": lambda x, w: x.prod(-1)[0, 0, 0],
    "rows that lookups take": lambda x, w: x.sum(-1)[torch.tensor([3, 0])][:, 1], "twice": lambda x, w: x.sum(-1)[:2, 1:3][1, :1],
}


@pytest.mark.covering
@pytest.mark.parametrize("name", OTHERS)
def test_other_sums(name):
    torch.manual_seed(0)
    args = torch.randn(4, 5, 9, 9), torch.randn(8, 5, 3, 3)
    assert_close_to_float64(inferno.compile(OTHERS[name], args, target="cpu", fallback=False)(*args), OTHERS[name], args)


@pytest.mark.parametrize("places, steps, rows", [(range(8), 20, 32), ([0, 5, 13], 20, 4), ([0, 3, 5, 6, 7], 20, 32), ([0, 3, 5, 7, 11, 20], 41, 164)])
def test_many_steps_are_one_product(places, steps, rows):
    """As a recurrence takes each step's part of one product of all: few by themselves, many together, or all."""
    args = torch.empty(steps, 4, 32), torch.empty(32, 48)
    found = scheduled(lambda x, w: [torch.tanh((x @ w)[t]) for t in places], args, last="fused").stages["fused"]
    products = [line for line in found.splitlines() if '"reduction"]' in line]
    assert products and all(f"<{rows}x48xf32>" in line for line in products), found


@pytest.mark.parametrize("name, tokens", [("first", 33), ("an image", 10), ("most", 330)])
def test_no_more_is_computed(name, tokens):
    """The layer's last products are of so many tokens."""
    args = (torch.empty(33, 10, WIDTH, dtype=torch.bfloat16), *(w.bfloat16() for w in weights()))
    ir = scheduled(lambda *args: PARTS[name](block(*args)), args, last="fused").stages["fused"]
    assert {int(n) for n in re.findall(rf"tensor<(\d+)x{4 * WIDTH}x(?:bf16|f32)>", ir)} - {WIDTH} == {tokens} - {WIDTH}


VARYING = {"images": {0: Dim.AUTO}, "tokens": {1: Dim.AUTO}, "both": {0: Dim.AUTO, 1: Dim.AUTO}}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("varying", VARYING)
@pytest.mark.parametrize("model", [block, gated, masked_by_hand])
@pytest.mark.parametrize("name", ["first", "last", "first and last", "an image", "channels", "transposed", "all, and one", "a part of a part", "each third"])
def test_sizes_that_vary(name, model, varying):
    program = lambda *args: PARTS[name](model(*args))  # noqa: E731
    made = lambda images, tokens: (torch.randn(images, tokens, WIDTH), *weights())  # noqa: E731
    compiled = inferno.compile(program, made(4, 10), dynamic_shapes=(VARYING[varying], None, None, None, None), target="cpu", fallback=False)
    for images, tokens in ((4, 10), (7, 13), (3, 4)):
        args = made(4 if varying == "tokens" else images, 10 if varying == "images" else tokens)
        assert_close_to_float64(compiled(*args), program, args)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("images, varying", [(6, "both"), (6, "images"), (6, "tokens"), (1, "tokens")])
def test_no_more_is_computed_of_sizes_that_vary(images, varying):
    """All but keys and values is of the last token."""
    args = (torch.empty(images, 64, WIDTH, dtype=torch.bfloat16), *(w.bfloat16() for w in weights()))

    def work(program):
        with capturing_for(True):
            text = capture(program, args, dynamic_shapes=(VARYING[varying], None, None, None, None)).text
        text = build_from("torch", text, find_target("sm_90a"), last="fused").stages["fused"]
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            return sum(count_flops(kernel) * text.count(f"call @{kernel.name.value}(") for kernel in kernels(module))

    assert 0 < work(lambda *args: block(*args)[:, -1]) < 0.4 * work(block)


def test_neighbours_that_lie_together_nowhere():
    """Two tokens of each image are no rows equally far apart, but each of them is."""
    program = lambda x, w: (x @ w)[:, 0] - (x @ w)[:, 1]  # noqa: E731
    args = torch.randn(3, 70, 8), torch.randn(8, 16)
    compiled = inferno.compile(program, args, target="cpu", fallback=False)
    assert_close_to_float64(compiled(*args), program, args)
    assert "tensor<210x16xf32>" not in compiled.ir("fused")
