"""What the fusion passes make is right against float64, and is as few kernels as fusion promises."""

import pytest
import torch
import torch.nn.functional as F
from checks import assert_right
from universal_program import SimulatedModel

import inferno

bf16, f16 = torch.bfloat16, torch.float16


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def integers(*shape, dtype=torch.int64):
    return torch.randint(-9, 9, shape, dtype=dtype)


def swiglu(x, w, v):
    return F.silu(x @ w) * (x @ v)


def residual(activation):
    def block(x, w):
        y = activation(x)
        return y @ w + y

    return block


def tril_scale(x, w):
    return torch.tril(x @ w) * 0.5


def shared_scale(x, y):
    s = x * 0.5
    return torch.tanh(s + y), torch.sigmoid(s - y)


def picked(x, target):
    return F.cross_entropy(x, target), torch.log_softmax(x, -1).gather(1, target[:, None].clamp(min=0))


def chain(x, row, column):
    return torch.exp(-((x * row + column).abs())) * torch.where(x > 0, x, row) - column


# name: (function, inputs, kernels).  Kernels are None where their number is not fusion's to promise.
CASES = {
    # A contraction with what is around it is one kernel.
    "matmul_bias_gelu": (lambda x, w, b: F.gelu(x @ w + b), lambda: (normal(16, 32), normal(32, 24), normal(24)), 1),
    "linear_relu": (lambda x, w, b: F.relu(F.linear(x, w, b)), lambda: (normal(2, 5, 32), normal(24, 32), normal(24)), 1),
    "bmm_residual": (lambda x, w, y: torch.bmm(x, w) + y, lambda: (normal(3, 8, 16), normal(3, 16, 12), normal(3, 8, 12)), 1),
    "einsum": (lambda x, w: torch.einsum("bhid,bhjd->bhij", x, w) * 0.125, lambda: (normal(2, 3, 7, 16), normal(2, 3, 9, 16)), 1),
    "einsum_of_heads": (
        lambda x, w: torch.einsum("bihd,bjhd->bhij", x, w) * 0.125, lambda: (normal(2, 7, 3, 16), normal(2, 9, 3, 16)), None,
    ),
    "einsum_two_sums": (lambda x, w: torch.einsum("bij,ijo->bo", x, w).tanh(), lambda: (normal(4, 5, 6), normal(5, 6, 7)), None),
    "baddbmm": (
        lambda c, x, w: torch.baddbmm(c, x, w, beta=0.5, alpha=2.0), lambda: (normal(3, 8, 12), normal(3, 8, 16), normal(3, 16, 12)), 1,
    ),
    "addmm_of_a_row": (lambda c, x, w: torch.addmm(c, x, w), lambda: (normal(12), normal(8, 16), normal(16, 12)), 1),
    "swiglu": (swiglu, lambda: (normal(8, 32), normal(32, 24), normal(32, 24)), 2),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i, label_smoothing=0.0), lambda: (normal(40, 30), integers(40).abs()), None),
    "cross_entropy_ignores": (F.cross_entropy, lambda: (normal(40, 30), integers(40).abs().masked_fill(torch.arange(40) % 3 == 0, -100)), None),
    "picked": (picked, lambda: (normal(40, 30, dtype=bf16), integers(40).abs()), None),
    "picked_of_a_transpose": (lambda x, i: (x.t() * 2 + 1)[i, i.flip(0)], lambda: (normal(9, 20), integers(5).abs()), None),
    "matvec": (lambda x, v, b: torch.sigmoid(torch.mv(x, v) + b), lambda: (normal(24, 64), normal(64), normal(24)), 1),
    "gram": (lambda x: (x @ x.T).exp(), lambda: (normal(9, 4),), 1),
    "read_transposed": (lambda x, w: (x @ w).T.contiguous() * 2 + 1, lambda: (normal(8, 16), normal(16, 12)), 1),
    "causal": (tril_scale, lambda: (normal(8, 16), normal(16, 8)), None),
    "ragged": (lambda x, w, b: F.silu(x @ w + b), lambda: (normal(17, 37), normal(37, 13), normal(13)), 1),
    "long_sum": (lambda x, w: (x @ w).abs(), lambda: (normal(3, 5000), normal(5000, 2)), 1),
    "scores": (
        lambda q, k: torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1), lambda: (normal(2, 3, 5, 16), normal(2, 3, 7, 16)), None,
    ),
    # A reduction of one step is an elementwise operation, and a sum of nothing is zero.
    "one_step": (lambda x, w, b: F.gelu(x @ w + b), lambda: (normal(16, 1), normal(1, 24), normal(24)), 1),
    "one_row": (lambda x, w, b: F.relu(x @ w + b), lambda: (normal(1, 32), normal(32, 24), normal(24)), 1),
    "one_column": (lambda x, w, b: F.relu(x @ w + b), lambda: (normal(16, 32), normal(32, 1), normal(1)), 1),
    "no_steps": (lambda x, w, b: (x @ w + b).exp(), lambda: (normal(4, 0), normal(0, 6), normal(6)), 1),
    # What is read more than once stays a tensor, unless it is cheap to compute again.
    "residual_of_sines": (residual(torch.sin), lambda: (normal(16, 16), normal(16, 16)), 2),
    "residual_of_relu": (residual(F.relu), lambda: (normal(16, 16), normal(16, 16)), 1),
    "sum_and_value": (lambda x, w: (x @ w, F.gelu(x @ w)), lambda: (normal(8, 16), normal(16, 12)), 2),
    "plus_its_transpose": (lambda x, w: x @ w + (x @ w).T, lambda: (normal(8, 16), normal(16, 8)), 2),
    # Integers, exactly.
    "integers": (lambda x, w, b: torch.clamp(x @ w + b, min=0), lambda: (integers(6, 20), integers(20, 10), integers(10)), 1),
    "int32": (lambda x, w: (x @ w) // 3, lambda: (integers(6, 20, dtype=torch.int32), integers(20, 10, dtype=torch.int32)), 1),
    # 16 bits are summed and computed in 32, and rounded once.
    "bf16": (lambda x, w, b: F.gelu(x @ w + b), lambda: (normal(16, 64, dtype=bf16), normal(64, 24, dtype=bf16), normal(24, dtype=bf16)), 1),
    "f16": (lambda x, w, y: torch.tanh(x @ w) + y, lambda: (normal(16, 64, dtype=f16), normal(64, 24, dtype=f16), normal(16, 24, dtype=f16)), 1),
    "dequantise": (
        lambda x, w, s: x @ (w.to(torch.float32) * s), lambda: (normal(8, 32), integers(32, 12, dtype=torch.int8), normal(12)), 1,
    ),
    "mixed": (lambda x, w: (x.float() @ w.float()).to(f16), lambda: (normal(8, 32, dtype=bf16), normal(32, 12, dtype=f16)), 1),
    # Elementwise operations are one kernel with their reader; a cheap one is computed again for each.
    "chain": (chain, lambda: (normal(6, 10), normal(10), normal(6, 1)), 1),
    "chain_bf16": (chain, lambda: (normal(6, 10, dtype=bf16), normal(10, dtype=bf16), normal(6, 1, dtype=bf16)), 1),
    "shared_scale": (shared_scale, lambda: (normal(6, 10), normal(6, 10)), 2),
    "sum_of_squares": (lambda x, y: ((x - y) ** 2).sum(-1), lambda: (normal(6, 300), normal(6, 300)), 1),
    "dot_of_casts": (lambda x, y: (x.float() * y.float()).sum(-1), lambda: (normal(6, 300, dtype=bf16), normal(6, 300, dtype=bf16)), 1),
    # What is summed is computed in 32 bits, also where it looks like a product: x times the half of 1 + erf(x).
    "sum_of_gelu": (lambda x: F.gelu(x - 4).sum(-1), lambda: (normal(6, 300, dtype=bf16),), None),
    "sum_of_products_of_functions": (lambda x, y: (torch.sigmoid(x - 6) * y.exp()).sum(0), lambda: (normal(6, 30, dtype=f16), normal(6, 30, dtype=f16)), None),
    "transposed_chain": (lambda x, y: (torch.exp(x).transpose(1, 2) * y).contiguous(), lambda: (normal(2, 5, 7), normal(2, 7, 5)), 1),
    # What a convolution reads is computed once, not once for each feature and window.
    "convolutions": (
        lambda x, w, v: F.conv2d(F.relu(F.conv2d(x, w)), v), lambda: (normal(1, 3, 10, 10), normal(4, 3, 3, 3), normal(5, 4, 3, 3)), 3,
    ),
}


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", CASES)
def test_fused_is_right(name):
    function, inputs, kernels = CASES[name]
    torch.manual_seed(0)
    compiled = assert_right(function, inputs(), target="cpu")
    calls = compiled.ir("fused").count(" call @")
    assert kernels is None or calls == kernels


def normed_image(x, w, b):
    return F.silu(F.group_norm(x.contiguous(), 3, w, b))


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 12, 4, 4)], ids=str)
def test_widening_moves_to_readers(monkeypatch, shape):
    """An image with channels last is reordered as it is, and widened where the norm reads it: to the bit what is stored wide."""
    torch.manual_seed(0)
    channels = shape[1]
    args = normal(*shape, dtype=bf16).contiguous(memory_format=torch.channels_last), normal(channels, dtype=bf16), normal(channels, dtype=bf16)
    compiled = assert_right(normed_image, args, target="cpu")
    sizes = "x".join(map(str, shape))
    assert f"-> tensor<{sizes}xf32>" not in compiled.ir("fused").partition("func.func private")[0]
    assert torch.equal(SimulatedModel(normed_image, args)(*args), compiled(*args))


def test_places_that_are_made_of_others_twice():
    """Each is looked at once, where constants are asked what they are made of, and gathers what says their places."""
    def model(x, given):
        made = torch.arange(64)
        for _ in range(100):
            made, given = (made * made + made) % 64, (given * 2 + given) % 64
        return x[:, made], x[:, given]

    assert not inferno.compile(model, (torch.randn(8, 64), torch.arange(64)), target="sm_90a", fallback=False).explain().fallbacks
