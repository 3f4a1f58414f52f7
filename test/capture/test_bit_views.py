"""``x.view(dtype)`` between any two types of whole numbers and floats: the same bits as torch's, in kernels."""

import pytest
import torch
from checks import assert_right

import inferno

TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2, torch.int16, torch.float16, torch.bfloat16, torch.int32, torch.float32,
    torch.int64, torch.float64,
]


def bits(dtype, count):
    """Numbers of all bits, but for what is no number, and what no bool is."""
    torch.manual_seed(0)
    if dtype == torch.bool:
        return torch.rand(3, count) > 0.5
    found = torch.randint(0, 256, (3, count * dtype.itemsize), dtype=torch.uint8).view(dtype)
    return torch.where(found.float().isfinite(), found, torch.ones_like(found)) if dtype.is_floating_point else found


def whole(x):
    """What can be compared bit by bit."""
    return x if x.dtype == torch.bool or not x.is_floating_point() else x.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize])


@pytest.mark.parametrize("source", TYPES)
def test_all_others(source):
    x = bits(source, 16)
    targets = [t for t in TYPES if t != source and not (t == torch.bool and source != torch.uint8)]
    x = x.bool().to(source) if source == torch.uint8 else x  # so that it can be bools

    def model(x):
        return [whole(x.view(t).flip(0)) for t in targets]

    fast = inferno.compile(model, (x,), target="cpu", fallback=False)
    for found, expected, target in zip(fast(x), model(x), targets, strict=True):
        assert torch.equal(found, expected), target


def test_int4_weights():
    """Two in a byte, the upper one with its sign, times a scale; and four bytes in an int32, as GPTQ packs them."""
    def model(x, packed, words, scale):
        signed = packed.view(torch.int8)
        weight = torch.stack(((signed << 4) >> 4, signed >> 4), -1).flatten(-2) * scale
        return x @ weight.T, x @ (words.view(torch.int8).to(x.dtype) * 0.01).T

    packed, words = torch.randint(0, 256, (8, 8), dtype=torch.uint8), torch.randint(-(1 << 31), 1 << 31, (8, 4), dtype=torch.int64).to(torch.int32)
    args = torch.randn(4, 16), packed, words, torch.rand(8, 1)
    assert_right(model, args, target="cpu")
    assert not inferno.compile(model, args, target="sm_90a", fallback=False).explain().fallbacks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pairs_as_complex_numbers(dtype):
    def model(x, turn):
        turned = x.view(x.dtype.to_complex()) * turn
        return turned.view(x.dtype), (turned * turned.conj()).real

    assert_right(model, (torch.randn(3, 8, dtype=dtype), torch.polar(torch.ones(4, dtype=dtype), torch.arange(4, dtype=dtype))), target="cpu")


def test_writes_through_a_view():
    def model(x):
        x = x * 1
        x.view(torch.int32).bitwise_and_(0x7FFFFFFF)
        x[0].view(torch.int16)[::2] = 0
        return x

    x = torch.randn(3, 4)
    assert torch.equal(inferno.compile(model, (x,), target="cpu", fallback=False)(x), model(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_sizes_that_vary(dtype):
    def model(x):
        return x.view(dtype) + 1, x.view(torch.int16).flip(-1)

    rows, columns = torch.export.Dim("rows", max=64), torch.export.Dim("quads", max=64)
    fast = inferno.compile(model, (bits(torch.int8, 16),), dynamic_shapes=({0: rows, 1: 8 * columns},), target="cpu", fallback=False)
    for count in (24, 40):
        x = bits(torch.int8, count)[:2]
        assert all(torch.equal(a, b) for a, b in zip(fast(x), model(x), strict=True))


def test_views_of_an_input_stay_views():
    fast = inferno.compile(lambda x: (x.view(torch.uint8), x.view(torch.int16)), (torch.randn(3, 4),), target="cpu")
    x = torch.randn(3, 4)
    assert [r.data_ptr() for r in fast(x)] == [x.data_ptr()] * 2
