"""Numbers of 8 bits: rounded as torch rounds them, bit for bit, and moved like others."""

import pytest
import torch
from checks import check
from choices import generators

import inferno

TYPES = [torch.float8_e4m3fn, torch.float8_e5m2]
SHORTS = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)


def every_byte(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)


def numbers(source: torch.dtype, dtype: torch.dtype) -> torch.Tensor:
    """Every number of 16 bits; of wider types those half way between two results and their neighbours, and random ones of all sizes."""
    if source.itemsize == 2:
        return SHORTS.view(source)
    results = every_byte(dtype).to(source)
    results = results[torch.isfinite(results)].sort()[0]
    middles = (results[1:] + results[:-1]) / 2
    large = torch.full_like(middles, torch.inf)
    random = torch.randn(3000, dtype=source) * 10 ** torch.empty(3000, dtype=source).uniform_(-9, 6)
    return torch.cat((SHORTS.view(torch.bfloat16).to(source), results, middles, middles.nextafter(large), middles.nextafter(-large), random))


def assert_same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    a, b = (t.view(torch.uint8) if t.dtype in TYPES else t for t in (ours, theirs))
    torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("source", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", TYPES)
def test_casts(dtype, source):
    x, bytes_ = numbers(source, dtype), every_byte(dtype)
    compiled = inferno.compile(lambda x, b: (x.to(dtype), b.to(source)), (x, bytes_), target="cpu", fallback=False)
    for ours, theirs in zip(compiled(x, bytes_), (x.to(dtype), bytes_.to(source))):
        assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", TYPES)
def test_moves_and_constants(dtype):
    def model(b, n, i):
        return torch.cat((b, b), -1), b.t().contiguous(), b[i], n.to(dtype), torch.full((3, 4), 1.5, dtype=dtype), torch.zeros(5, dtype=dtype)

    args = every_byte(dtype).view(8, 32), torch.randint(-400, 400, (99,)), torch.tensor([3, 0, 7])
    compiled = inferno.compile(model, args, target="cpu", fallback=False)
    for ours, theirs in zip(compiled(*args), model(*args)):
        assert_same(ours, theirs)


def test_a_norm_is_one_kernel_on_a_gpu():
    def model(x, residual, w, scale):
        h = x + residual
        return h, (torch.nn.functional.rms_norm(h, w.shape, w) * scale).to(torch.float8_e4m3fn)

    args = torch.randn(64, 1024).bfloat16(), torch.randn(64, 1024).bfloat16(), torch.randn(1024).bfloat16(), torch.ones(1).bfloat16()
    assert generators(model, args) == ["rows"]
    found = check(inferno.compile(lambda *a: [t.float() for t in model(*a)], args, target="cpu"), lambda *a: [t.float() for t in model(*a)], args)
    assert found.right, str(found)


def test_what_older_versions_do(monkeypatch):
    """What is too large for float8_e4m3fn was no number."""
    from inferno.capture import importer

    monkeypatch.setattr(importer, "_overflows", lambda: True)
    x = torch.tensor([464.0, 464.1, 480.0, -1e9, torch.inf, torch.nan, 448.0, -3.0])
    found = inferno.compile(lambda x: x.to(torch.float8_e4m3fn), (x,), target="cpu", fallback=False)(x)
    assert found.view(torch.uint8).tolist() == [0x7E, 0x7F, 0x7F, 0xFF, 0x7F, 0x7F, 0x7E, 0xC4]
