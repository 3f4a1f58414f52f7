"""Fourier transforms as products with tables: numbers, gradients, and that a model around them is one program."""

import pytest
import torch
from checks import assert_right

import inferno
from inferno.capture.decompositions import fourier

F = torch.nn.functional


@pytest.fixture(autouse=True)
def of_longer_ones(monkeypatch):
    """Numbers are right of those, too, that are left to the library, which is faster."""
    monkeypatch.setattr(fourier, "_MOST", 1 << 22)


def mel(x, window, table):
    """As speech models hear."""
    return (torch.stft(x, 400, 160, window=window, return_complex=True).abs() ** 2).transpose(1, 2).matmul(table).clamp(min=1e-10).log10()


def spectral(x, w):
    kept = torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x)[:, :, :8, :8], torch.view_as_complex(w))
    return torch.fft.irfft2(F.pad(kept, (0, 9, 0, 24)), s=(32, 32))


def long_convolution(u, k):
    return torch.fft.irfft(torch.fft.rfft(u, n=1024) * torch.fft.rfft(k, n=1024), n=1024)[..., :512]


# name: a model and the shapes of its inputs.
CASES = {
    **{f"rfft {n}": (lambda x: torch.view_as_real(torch.fft.rfft(x)), [(64, n)]) for n in (2, 7, 30, 64, 400, 512, 1000, 4096)},
    **{f"there and back {n}": (lambda x, n=n: torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * 2, n=n, norm="ortho"), [(33, n)]) for n in (9, 80, 1024)},
    "columns": (lambda x: torch.view_as_real(torch.fft.fft(x, dim=1)), [(3, 48, 20)]),
    "FNet": (lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real + x, [(2, 128, 768)]),
    "FNO": (spectral, [(4, 16, 32, 32), (16, 16, 8, 8, 2)]),
    "Hyena": (long_convolution, [(2, 16, 512), (16, 512)]),
}


@pytest.mark.parametrize("name", CASES)
def test_right(name, exact_float32):
    torch.manual_seed(0)
    model, shapes = CASES[name]
    compiled = assert_right(model, tuple(torch.randn(s, device="cuda") for s in shapes))
    assert "universal" not in {r.generator for r in compiled.explain().rows}


def test_tf32_is_not_for_transforms(tf32):
    torch.manual_seed(0)
    assert_right(CASES["rfft 512"][0], (torch.randn(64, 512, device="cuda"),))


def test_spectrograms(exact_float32):
    torch.manual_seed(0)
    args = torch.randn(1, 480000, device="cuda"), torch.hann_window(400, device="cuda"), torch.rand(201, 80, device="cuda")
    compiled = assert_right(mel, args)
    assert compiled.explain().launches <= 7


@pytest.mark.parametrize("name", ["FNet", "FNO", "Hyena"])
def test_gradients(name, exact_float32):
    torch.manual_seed(0)
    model, shapes = CASES[name]
    given = [torch.randn(s, device="cuda").requires_grad_() for s in shapes]
    inferno.stats(reset=True)
    found = torch.autograd.grad(torch.compile(model, backend="inferno")(*given).square().sum(), given)
    assert inferno.stats().fallbacks == 0
    wide = [t.detach().double().requires_grad_() for t in given]
    exact = torch.autograd.grad(model(*wide).square().sum(), wide)
    eager = torch.autograd.grad(model(*given).square().sum(), given)
    for ours, theirs, right in zip(found, eager, exact):
        error = lambda t, r=right: torch.linalg.vector_norm(t.double() - r) / torch.linalg.vector_norm(r)  # noqa: E731
        assert error(ours) <= max(1.5 * error(theirs), torch.finfo(torch.float32).eps)


def test_what_is_large_is_the_librarys(exact_float32):
    x = torch.randn(4096, 4096, device="cuda")
    compiled = inferno.compile(lambda x: torch.fft.rfft(x * 2).abs() + 1, (x,))
    assert [f.target for f in compiled.fallbacks] == ["aten._fft_r2c.default"]
    torch.testing.assert_close(compiled(x), torch.fft.rfft(x * 2).abs() + 1, rtol=1e-4, atol=1e-3)
