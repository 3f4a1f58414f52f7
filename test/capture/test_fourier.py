"""Fourier transforms as sums of products with tables: numbers by the project's rule, what torch makes of each form, and which kernels they are."""

import pytest
import torch
from checks import check, scheduled
from universal_program import SimulatedModel

import inferno
from inferno.capture.decompositions import fourier, own
from inferno.capture.decompositions.fourier import factors
from inferno.capture.devices import capturing_for
from inferno.runtime.check.comparison import compare

aten = torch.ops.aten
LENGTHS = (1, 2, 3, 8, 14, 20, 30, 64, 100, 400, 512, 1024, 4096)


MOST = fourier._MOST


@pytest.fixture(autouse=True)
def for_a_gpu(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(fourier, "_MOST", 1 << 20)  # numbers are right of longer ones, too
    with capturing_for(True):
        yield


def right(op, x, *args):
    found = own()[op](x, *args)
    assert found is not NotImplemented
    wide = x.to(torch.complex128 if x.is_complex() else torch.float64)
    compared = compare(found, op(x, *args), op(wide, *args))
    assert compared.right, f"{op} {tuple(x.shape)} {args}: {compared}"


@pytest.mark.parametrize("length", LENGTHS)
def test_real_signals(length):
    for mode in (0, 1, 2):
        for onesided in (True, False):
            right(aten._fft_r2c.default, torch.randn(16, length, 3), [1], mode, onesided)
    right(aten._fft_r2c.default, torch.randn(3, length, 6), [0, 1], 0, True)


@pytest.mark.parametrize("length", LENGTHS)
def test_complex_signals(length):
    for forward in (True, False):
        right(aten._fft_c2c.default, torch.randn(40, length, dtype=torch.complex64), [1], 0, forward)
        right(aten._fft_c2c.default, torch.randn(2, length, 9, dtype=torch.complex64), [1, 2], 1, forward)


@pytest.mark.parametrize("length", LENGTHS)
def test_real_results(length):
    """Of a half that is one, and of numbers that are none: what is imaginary of the first and the last is left out."""
    right(aten._fft_c2r.default, torch.fft.rfft(torch.randn(40, length)), [1], 2, length)
    right(aten._fft_c2r.default, torch.randn(5, length // 2 + 1, 12, dtype=torch.complex64), [0, 1], 0, length)


def test_a_conjugate_that_is_not_computed_yet():
    right(aten._fft_c2c.default, torch.randn(4, 16, dtype=torch.complex64).conj(), [1], 0, True)


def test_factors_are_few_and_small():
    assert factors(1) == [] and factors(7) == [7] and factors(400) == [20, 20] and factors(512) == [8, 8, 8] and factors(4096) == [16, 16, 16]
    assert factors(14) == [7, 2] and factors(11) == [11] and factors(17) is None and factors(2 * 23) is None


@pytest.mark.parametrize("x,args", [
    (torch.randn(4, 257), ([1], 0, True)), (torch.randn(4, 64, dtype=torch.float64), ([1], 0, True)), (torch.randn(1 << 11, 1 << 10), ([1], 0, True)),
], ids=["a prime", "float64", "large"])
def test_what_is_left_to_the_library(x, args):
    assert own()[aten._fft_r2c.default](x, *args) is NotImplemented


def test_what_the_library_is_faster_for(monkeypatch):
    monkeypatch.setattr(fourier, "_MOST", MOST)
    assert own()[aten._fft_r2c.default](torch.randn(64, 64), [1], 0, True) is not NotImplemented
    assert own()[aten._fft_r2c.default](torch.randn(64, 256), [1], 0, True) is NotImplemented


def test_a_cpu_has_its_library():
    with capturing_for(False):
        assert own()[aten._fft_r2c.default](torch.randn(4, 64), [1], 0, True) is NotImplemented
        assert own()[aten.fft_rfft.default](torch.randn(4, 64)) is NotImplemented


REAL = {
    "fft": [{}, {"n": 20}, {"n": 10, "dim": 0}, {"norm": "ortho"}, {"norm": "forward"}], "ifft": [{}, {"n": 20, "norm": "forward"}],
    "rfft": [{}, {"n": 9}, {"dim": 0, "norm": "ortho"}], "ihfft": [{}, {"n": 9, "norm": "forward"}], "fft2": [{}, {"s": (4, 20)}],
    "rfft2": [{}, {"norm": "ortho"}, {"dim": (0, 1)}], "fftn": [{}, {"s": (4, 20)}, {"dim": (1, 0)}], "rfftn": [{}], "ihfft2": [{}], "irfft": [{}],
}
COMPLEX = {
    "fft": [{}, {"n": 20}], "ifft": [{}, {"dim": 0, "norm": "ortho"}, {"n": 5, "norm": "forward"}], "irfft": [{}, {"n": 9}, {"norm": "ortho"}],
    "hfft": [{}, {"n": 9}, {"norm": "forward"}], "ifft2": [{}], "irfft2": [{}, {"s": (6, -1)}], "ifftn": [{}], "irfftn": [{}, {"s": (7,)}], "hfft2": [{}],
    "hfftn": [{"norm": "ortho"}],
}


@pytest.mark.parametrize("name,kwargs", [(n, k) for n, all_ in REAL.items() for k in all_])
def test_forms_of_real_numbers(name, kwargs):
    spelled(name, torch.randn(6, 12), kwargs)


@pytest.mark.parametrize("name,kwargs", [(n, k) for n, all_ in COMPLEX.items() for k in all_])
def test_forms_of_complex_numbers(name, kwargs):
    spelled(name, torch.randn(6, 12, dtype=torch.complex64), kwargs)


def spelled(name, x, kwargs):
    """As torch's is, of which export keeps the whole operation."""
    found, expected = own()[getattr(aten, f"fft_{name}").default](x, **kwargs), getattr(torch.fft, name)(x, **kwargs)
    assert found is not NotImplemented and found.shape == expected.shape and found.dtype == expected.dtype
    torch.testing.assert_close(found.resolve_conj(), expected.resolve_conj(), rtol=1e-5, atol=1e-5)


MODELS = {
    "spectrum": lambda x: torch.view_as_real(torch.fft.rfft(x)), "there and back": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2),
    "mixed": lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,  # as FNet mixes tokens
    "powers": lambda x: torch.stft(x, 16, 4, return_complex=True).abs() ** 2,
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", MODELS)
def test_on_a_simulated_gpu(name):
    args = (torch.randn(3, 40),)
    found = check(SimulatedModel(MODELS[name], args, expand=True), MODELS[name], args)
    assert found.right, str(found)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name,launches", [("spectrum", 4), ("there and back", 9)])
def test_kernels(name, launches):
    """A product with a table for each factor, which are computed once, and what puts frequencies in order."""
    program = inferno.compile(MODELS[name], (torch.randn(64, 512),), target="sm_90a", fallback=False)
    rows = program.explain().rows
    assert program.explain().launches <= launches and "universal" not in {r.generator for r in rows}


def test_products_are_not_rounded_to_tf32():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        text = scheduled(MODELS["spectrum"], (torch.randn(64, 512),), tf32=True).stages["scheduled"]
    finally:
        torch.set_float32_matmul_precision(before)
    products = [k for k in text.split("func.func private")[1:] if '"reduction"' in k and "arith.mulf" in k]
    assert len(products) == 2 and all("inferno.exact" in k for k in products)  # (the first sum, of 8 terms, is a map)


def test_halves_that_are_exchanged():
    def model(x):
        return torch.fft.fftshift(x), torch.fft.ifftshift(x), torch.fft.fftshift(x, dim=-1) * 2, torch.fft.ifftshift(x, dim=(0, 2))

    x = torch.randn(2, 5, 4, dtype=torch.complex64)
    compiled = inferno.compile(model, (x,), target="cpu", fallback=False)
    assert all(map(torch.equal, compiled(x), model(x)))
