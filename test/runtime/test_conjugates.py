"""Conjugates and negatives that torch computes when they are read: views of memory that holds other numbers."""

import pytest
import torch

import inferno

torch.manual_seed(0)
Z = torch.randn(4, 4, dtype=torch.complex128)
as_real = torch.view_as_real
FUNCTIONS = {
    "product with the conjugate": lambda z: as_real(z * z.conj()),
    "product with the adjoint": lambda z: as_real(z @ z.mH),
    "imaginary part of the conjugate": lambda z: z.conj().imag * 2 + z.real,
    "picked conjugates": lambda z: as_real((z[1:, ::2].conj() * 2).resolve_conj()),
    "both beside each other": lambda z: as_real(torch.cat((z, z.conj())) * 1j),
    "picked by place": lambda z: as_real(torch.where(z.real > 0, z * 2, z.conj())),
    "spectrum": lambda z: torch.fft.irfft(torch.fft.rfft(z.real) * torch.fft.rfft(z.imag).conj()),
}


def step(function, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The value and the gradient of a sum of squares, each weighted by its place."""
    z = Z.to(dtype).clone().requires_grad_()
    y = function(z)
    (y * y * torch.arange(1, 1 + y.numel()).reshape(y.shape)).sum().backward()
    return y.detach().double(), z.grad.to(torch.complex128)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_training(name):
    torch._dynamo.reset()
    expected = step(FUNCTIONS[name], torch.complex128)
    for found, right in zip(step(torch.compile(FUNCTIONS[name], backend="inferno"), torch.complex64), expected):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


def test_a_gradient_that_is_negated_when_it_is_read():
    torch._dynamo.reset()
    x, gradient = torch.randn(4, 4, requires_grad=True), torch._neg_view(torch.randn(4, 4))
    assert gradient.is_neg()
    torch.compile(lambda x: torch.sin(x) * 3, backend="inferno")(x).backward(gradient)
    torch.testing.assert_close(x.grad, torch.cos(x.detach()) * 3 * gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fallback", [False, True])
def test_an_input_that_is_negated_when_it_is_read(fallback):
    negated = Z.to(torch.complex64).conj().imag.contiguous()
    negated = negated if negated.is_neg() else torch._neg_view(negated)
    compiled = inferno.compile(lambda x: torch.relu(x) * 2, (torch.randn(4, 4),), fallback=fallback)
    assert torch.equal(compiled(negated), torch.relu(negated) * 2)


def test_the_real_part_of_products_with_a_matrix_for_each_row():
    """Of which the gradients have sums of products with a number."""
    torch._dynamo.reset()
    a, b = (torch.randn(*shape, dtype=torch.complex64, requires_grad=True) for shape in ((3, 4), (3, 4, 12)))
    function = lambda a, b: torch.einsum("hn,hnl->hl", a, b).real.square().sum()  # noqa: E731
    torch.compile(function, backend="inferno", options={"fallback": False})(a, b).backward()
    wide = [x.detach().to(torch.complex128).requires_grad_() for x in (a, b)]
    function(*wide).backward()
    for x, y in zip((a, b), wide):
        torch.testing.assert_close(x.grad.to(torch.complex128), y.grad, rtol=1e-5, atol=1e-5)
