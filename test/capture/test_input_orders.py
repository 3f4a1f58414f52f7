"""Inputs in another order of dimensions than row-major: read as they lie, for any call."""

import pytest
import torch

import inferno
from inferno.capture import capture
from inferno.errors import InputError

F = torch.nn.functional
LAST = torch.channels_last


def image(*shape):
    return torch.randn(shape).contiguous(memory_format=LAST)


def norm(x, w):
    return F.batch_norm(x, None, None, w, w, training=True)


def orders(model, *args):
    return [a.order for a in capture(model, args).signature.arguments]


def test_programs_read_memory_in_its_order():
    assert orders(norm, image(2, 8, 4, 4), torch.ones(8)) == [(0, 2, 3, 1), None]
    text = capture(norm, (image(2, 8, 4, 4), torch.ones(8))).text
    assert "%arg0: !torch.vtensor<[2,4,4,8],f32>" in text
    assert orders(lambda x: x @ x, torch.randn(6, 6).t()) == [(1, 0)]


def test_any_call_is_right():
    w = torch.randn(8)
    compiled = inferno.compile(norm, (image(2, 8, 4, 4), w))
    for x in (image(2, 8, 4, 4), torch.randn(2, 8, 4, 4), torch.randn(4, 8, 2, 4).permute(2, 1, 3, 0).contiguous().permute(3, 1, 0, 2)):
        x = x.reshape(2, 8, 4, 4) if x.shape != (2, 8, 4, 4) else x
        result, expected = compiled(x, w), norm(x, w)
        torch.testing.assert_close(result, expected)
    assert compiled(image(2, 8, 4, 4), w).is_contiguous(memory_format=LAST)


def test_errors_say_the_callers_shapes():
    compiled = inferno.compile(norm, (image(2, 8, 4, 6), torch.ones(8)))
    with pytest.raises(InputError, match=r"expected \(2, 8, 4, 6\) .* got \(2, 8, 4, 5\)"):
        compiled(image(2, 8, 4, 5), torch.ones(8))
    with pytest.raises(InputError, match=r"expected \(2, 8, 4, 6\) .* got \(8,\)"):
        compiled(torch.ones(8), torch.ones(8))


def test_what_is_written_to_or_handed_out_stays():
    x = torch.randn(3, 5).t()
    compiled = inferno.compile(lambda x: (x.t(), x * 2), (x,))
    view, twice = compiled(x)
    assert view.data_ptr() == x.data_ptr() and torch.equal(twice, x * 2) and orders(lambda x: (x.t(), x * 2), x) == [None]

    def add(x):
        x.add_(1)
        return x * 2

    compiled, expected = inferno.compile(add, (x.clone(),)), x.clone() + 1
    assert torch.equal(compiled(x), expected * 2) and torch.equal(x, expected)


def test_gaps_and_repetitions_are_copied():
    for x in (torch.randn(4, 8)[:, ::2].t(), torch.randn(4, 1).expand(4, 6).t(), torch.randn(4, 8)[:, :6].t()):
        assert orders(lambda x: x * 2, x) == [None]
        assert torch.equal(inferno.compile(lambda x: x * 2, (x,))(x), x * 2)
