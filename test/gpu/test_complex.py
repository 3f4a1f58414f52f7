"""Complex numbers: results that kernels write as pairs, products of matrices, elementary functions, what a model keeps, and spectra between the library's
transforms; and scatters by one number for each place."""

import pytest
import torch
from checks import assert_right, check

import inferno

SHAPES = ((64, 512), (3, 37), (1, 1), (0, 5))


def spectral(x, w):
    """A layer of a Fourier neural operator."""
    kept = torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x)[:, :, :8, :8], w)
    return torch.fft.irfft2(torch.nn.functional.pad(kept, (0, 9, 0, 24)), s=(32, 32))


CASES = {
    "products": lambda z, w: z * w, "quotients": lambda z, w: z / (w + 1j), "sums": lambda z, w: (z.sum(), (z * w).mean(0)),
    "parts": lambda z, w: (z.real * 2 + w.imag, z.conj() * w, z.abs(), z.angle()), "functions": lambda z, w: (z.exp(), z.log(), z.sqrt(), z.tanh(), z**2.5),
    "matrices": lambda z, w: (z @ w.mT, z.mT @ w), "seen as pairs, too": lambda z, w: (z * 2, torch.view_as_real(z * 2), z),
    "chosen": lambda z, w: (torch.where(z.real > 0, z, w), torch.cat([z, w]), z == w),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype, shape):
    z, w = (torch.randn(shape, dtype=dtype, device="cuda") for _ in range(2))
    assert_right(CASES[name], (z, w), unit=1e-14 if dtype == torch.complex128 else None)


def test_batches_of_matrices():
    z, w = torch.randn(8, 64, 64, dtype=torch.complex64, device="cuda"), torch.randn(8, 64, 128, dtype=torch.complex64, device="cuda")
    compiled = assert_right(lambda z, w: z @ w, (z, w))
    assert "universal" not in {r.generator for r in compiled.explain().rows}


def test_products_of_many():
    z = torch.polar(torch.rand(64, 100, device="cuda") * 0.2 + 0.9, torch.randn(64, 100, device="cuda"))
    compiled = assert_right(lambda z: (z.prod(-1), z.prod(0, keepdim=True), z.cumprod(1)), (z,))
    assert "universal" not in {r.generator for r in compiled.explain().rows}


def test_between_transforms():
    x, w = torch.randn(4, 16, 32, 32, device="cuda"), torch.randn(16, 16, 8, 8, dtype=torch.complex64, device="cuda")
    compiled = inferno.compile(spectral, (x, w))
    torch.testing.assert_close(compiled(x, w), spectral(x, w), rtol=1e-4, atol=1e-4)
    assert "universal" not in {r.generator for r in compiled.explain().rows}


def test_a_state_that_is_changed():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.ones(40, dtype=torch.complex64, device="cuda"))

        def forward(self, x):
            self.state.mul_(x)
            return self.state * 2, self.state.conj()

    x, ours, eager = torch.polar(torch.ones(40), torch.randn(40)).cuda(), Model(), Model()
    compiled = inferno.compile(ours, (x,), fallback=False)
    for _ in range(3):
        for a, b in zip(compiled(x), eager(x)):
            torch.testing.assert_close(a.resolve_conj(), b.resolve_conj())
        torch.testing.assert_close(ours.state, eager.state)


def test_gradients():
    def loss(z, w):
        return ((z @ w).exp() * w).abs().sum() + torch.view_as_real(z * z.conj()).sum()

    z, w = (torch.randn(6, 6, dtype=torch.complex64, device="cuda").mul(0.3).requires_grad_() for _ in range(2))
    found = torch.autograd.grad(torch.compile(loss, backend="inferno")(z, w), (z, w))
    torch.testing.assert_close(found, torch.autograd.grad(loss(z, w), (z, w)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_small_matrices(rows):
    x = torch.randn(1000, rows, rows, device="cuda")
    assert_right(lambda x: (torch.linalg.det(x) * 2, *torch.linalg.slogdet(x), torch.linalg.inv_ex(x)[0]), (x,))


@pytest.mark.parametrize("kind", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim, sizes, given", [
    (0, (2048, 64), (8192, 64)), (1, (256, 1024), (256, 4096)), (0, (10000,), (100000,)), (1, (3, 9, 5), (3, 40, 5)),
])
def test_reduced(dim, sizes, given, include_self, kind):
    x, y = torch.randn(sizes, device="cuda").mul(9).round(), torch.randn(given, device="cuda").mul(9).round()
    i = torch.randint(0, sizes[dim] - 1, given, device="cuda")
    model = lambda x, i, y: x.scatter_reduce(dim, i, y, kind, include_self=include_self)  # noqa: E731
    compiled = inferno.compile(model, (x, i, y), fallback=False)
    found = check(compiled, model, (x, i, y))
    assert found.right, str(found)


def test_few_that_go_to_rows():
    """Of what is sorted, right; of places that are given, one map."""
    x = torch.randn(4096, 64, device="cuda")
    assert_right(lambda x: torch.zeros_like(x).scatter(1, x.topk(4, -1)[1], x.topk(4, -1)[0].softmax(-1)), (x,))
    places, weights = x.topk(4, -1)[1], torch.rand(4096, 4, device="cuda")
    compiled = assert_right(lambda x, i, w: torch.zeros_like(x).scatter(1, i, w) * x.sigmoid(), (x, places, weights))
    assert [r.generator for r in compiled.explain().rows] == ["elementwise"]
