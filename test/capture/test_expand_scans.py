"""``associative_scan``, whose function of two values is the user's: what is made of it, and its numbers."""

import pytest
import torch
from checks import check
from torch._higher_order_ops.associative_scan import associative_scan_op

import inferno

randn = torch.randn


def linear(a, b, c, d):
    return [a * c, c * b + d]


def transposed(b, a, d, c):
    return [d + b * c, c * a]


def scanned(combine, *results):
    def model(*xs):
        found = associative_scan_op(combine, [x.movedim(1, 0) for x in xs], ())
        return [found[i].movedim(0, 1) for i in results] if len(results) > 1 else found[results[0]].movedim(0, 1)

    return model


CASES = {
    "a recurrence": (linear, (1,), lambda: (torch.rand(2, 37, 8), randn(2, 37, 8))),
    "a recurrence and its factors": (linear, (0, 1), lambda: (torch.rand(2, 37, 8), randn(2, 37, 8))),
    "the other way round": (transposed, (0,), lambda: (randn(3, 40), torch.rand(3, 40))),
    "bf16": (linear, (1,), lambda: (torch.rand(2, 9, 8).bfloat16(), randn(2, 9, 8).bfloat16())),
    "sums": (lambda x, y: [x + y], (0,), lambda: (randn(2, 37, 8),)),
    "extrema of each": (lambda a, b, c, d: [torch.maximum(a, c), torch.minimum(d, b)], (0, 1), lambda: (randn(2, 37), randn(2, 37))),
    "products of integers": (lambda x, y: [y * x], (0,), lambda: (torch.randint(-1, 2, (2, 37)),)),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_right_and_whole(name):
    torch.manual_seed(0)
    combine, results, make = CASES[name]
    args = make()
    fast = inferno.compile(scanned(combine, *results), args)
    assert not fast.explain().fallbacks
    found = check(fast, scanned(combine, *results), args)
    assert found.right, str(found)


@pytest.mark.parametrize("combine, dtype", [
    (lambda a, b, c, d: [a * c, a * b + d], torch.float32),  # the earlier factor
    (lambda a, b, c, d: [a + c, c * b + d], torch.float32),
    (lambda a, b, c, d: [a * c, c * b - d], torch.float32),
    (lambda a, b, c, d: [a * c, 2 * b + d], torch.float32),
    (linear, torch.float64),
])
def test_what_is_something_else_stays(combine, dtype):
    args = torch.rand(2, 9, dtype=dtype), randn(2, 9, dtype=dtype)
    fast = inferno.compile(scanned(combine, 1), args)
    assert fast.explain().fallbacks
    torch.testing.assert_close(fast(*args), scanned(combine, 1)(*args))


def test_it_lies_as_it_is_read():
    """States [batch, width, length, states] are multiplied for each place: nothing is transposed between."""
    def model(a, b, c):
        states = associative_scan_op(linear, [torch.exp(-a).movedim(2, 0), (2 * b).movedim(2, 0)], ())[1].movedim(0, 2)
        return (states.transpose(1, 2).to(c.dtype) @ c.unsqueeze(-1)).squeeze(-1)

    args = torch.rand(1, 64, 128, 16), randn(1, 64, 128, 16), randn(1, 128, 16).bfloat16()
    rows = inferno.compile(model, args, target="sm_90a").explain().rows
    assert len(rows) <= 2 and any(r.generator == "scans" for r in rows)
    found = check(inferno.compile(model, args), model, args)
    assert found.right, str(found)
