"""Numbers of 8 bits on a GPU: the bytes that eager makes."""

import pytest
import torch
from checks import check

import inferno

TYPES = [torch.float8_e4m3fn, torch.float8_e5m2]


def numbers(source):
    shorts = torch.arange(-32768, 32768, dtype=torch.int32, device="cuda").to(torch.int16)
    if source == torch.float16:
        return shorts.view(source)
    x = shorts.view(torch.bfloat16).to(source)
    random = torch.randn(40001, device="cuda", dtype=source) * 10 ** torch.empty(40001, device="cuda", dtype=source).uniform_(-9, 6)
    return torch.cat((x, random, torch.linspace(-500, 500, 5001, device="cuda", dtype=source)))


def assert_same(ours, theirs):
    a, b = ours.view(torch.uint8), theirs.view(torch.uint8)
    nan = ours.float().isnan() & theirs.float().isnan()
    assert ours.dtype == theirs.dtype and torch.equal(a[~nan], b[~nan]) and torch.equal(ours.float().isnan(), theirs.float().isnan())


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_casts(dtype, source):
    x = numbers(source)
    back = torch.arange(256, device="cuda", dtype=torch.int32).to(torch.uint8).view(dtype)
    compiled = inferno.compile(lambda x, b: (x.to(dtype), b.to(source)), (x, back), fallback=False)
    ours, wide = compiled(x, back)
    assert_same(ours, x.to(dtype))
    torch.testing.assert_close(wide, back.to(source), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("columns", [1000, 4096, 5120])
def test_norms(columns):
    def model(x, residual, w, scale):
        h = x + residual
        return h, (torch.nn.functional.rms_norm(h, w.shape, w) * scale).to(torch.float8_e4m3fn)

    args = tuple(torch.randn(s, device="cuda").bfloat16() for s in ((500, columns), (500, columns), (columns,), (1,)))
    compiled = inferno.compile(model, args, fallback=False)
    assert compiled.explain().launches == 1
    found = check(lambda *a: [t.float() for t in compiled(*a)], lambda *a: [t.float() for t in model(*a)], args)
    assert found.right, str(found)
