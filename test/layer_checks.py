"""A layer with all that its end may have, by one schedule for its product: numbers against float64."""

import torch
import torch.nn.functional as F
from universal_program import compile_universal

from inferno.schedule.matmul.parser import parse_contraction


def layer(x, w, bias, added):
    return F.gelu(F.linear(x, w, bias)) + added


def assert_layer_right(m, k, n, schedule):
    """On a GPU, three times."""
    torch.manual_seed(11)
    args = [torch.randn(*shape, device="cuda").bfloat16() for shape in ((m, k), (n, k), (n,), (m, n))]
    args[1] /= k ** 0.5
    compiled = compile_universal(layer, tuple(args), torch.device("cuda"), "sm_90a", lambda kernel: parse_contraction(kernel) and schedule)
    expected = layer(*(a.double() for a in args))
    for _ in range(3):
        difference = compiled(*args).double() - expected
        assert difference.norm() < 2 ** -7 * expected.norm() and difference.abs().max() < 2 ** -3
