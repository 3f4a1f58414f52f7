"""Results that are complex numbers are pairs of reals for a GPU's kernels, which generators know: their numbers, simulated, and what is around them."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

import inferno
from inferno.capture.devices import capturing_for
from inferno.runtime.check.checking import check_kernels
from inferno.runtime.launch.shared_memory import as_laid
from inferno.runtime.plan.complex_numbers import as_complex, as_pairs
from inferno.runtime.plan.plan import Buffer, Output, Plan

torch.manual_seed(0)
Z, W, ROWS = torch.randn(6, 8, dtype=torch.complex64), torch.randn(6, 8, dtype=torch.complex64), torch.tensor([4, 0, 2])


def between_transforms(x, w):
    """What a Fourier neural operator does with the lowest frequencies."""
    made = torch.zeros(2, 4, 6, 4, dtype=x.dtype)
    made[:, :, :2, :2] = torch.einsum("bixy,ioxy->boxy", x[:, :, :2, :2], w)
    made[:, :, -2:, :2] = torch.einsum("bixy,ioxy->boxy", x[:, :, -2:, :2], w.conj())
    return made


CASES = {
    "products": (lambda z, w: z * w, (Z, W)),
    "of one width": (lambda z, w: z * w + 1j, (Z.to(torch.complex128), W.to(torch.complex128))),
    "sums": (lambda z, w: (z.sum(), (z * w).mean(1), z.real.sum(0)), (Z, W)),
    "matrices": (lambda z, w: z @ w.mT, (Z, W)),
    "matrices, of few columns": (lambda z, w: (z[:, :3].mT @ (w * 2)[:, :2], z @ w[0]), (Z, W)),
    "matrices, of few rows": (lambda z, w: z[:1] @ (w + 1).mT, (Z, W)),
    "matrices side by side": (lambda z, w: torch.bmm(z.unflatten(0, (2, 3)), w.unflatten(0, (2, 3)).mT) * 2, (Z, W)),
    "matrices of real numbers, too": (lambda z, w: (z @ w.mT.real.to(z.dtype), w.real.to(z.dtype) @ z.mT), (Z, W)),
    "products between maps": (lambda z, w: ((z.exp() @ w.conj().mT).real, torch.addmm(z[:, :6], z, w.mT)), (Z, W)),
    "a transposed one": (lambda z: (z * 2).t(), (Z,)),
    "one number": (lambda z: z[0, 0] * 2, (Z,)),
    "none": (lambda z: z[:0] * 2, (Z,)),
    "seen as pairs, too": (lambda z: (z * 2, torch.view_as_real(z * 2), (z * 2).real), (Z,)),
    "as it came, too": (lambda z: (z, z * 2, torch.view_as_real(z) + 1), (Z,)),
    "put in rows": (lambda z, w, i: z.index_put((i,), w[:3]), (Z, W, ROWS)),
    "added to rows": (lambda z, w, i: z.index_add(0, i, w[:3]), (Z, W, ROWS)),
    "between transforms": (between_transforms, (torch.randn(2, 4, 6, 4, dtype=torch.complex64), torch.randn(4, 4, 2, 2, dtype=torch.complex64))),
}


MOVED = {
    "parts of a split": (lambda z: [p.flip(0) for p in z.split([2, 0, 4])], (Z,)),
    "parts of a chunk": (lambda z: torch.cat([p * 2 for p in reversed(z.chunk(3, 1))], 1), (Z,)),
    "each": (lambda z: torch.stack([p.flip(0) for p in z.unbind(1)]), (Z,)),
    "windows": (lambda z: z.unfold(1, 3, 2).flip(0), (Z,)),
    "looked up": (lambda z, i: torch.nn.functional.embedding(i, z) * 2, (Z, ROWS)),
}


@pytest.mark.parametrize("name", MOVED)
def test_moved(name):
    """By kernels of reals alone."""
    model, args = MOVED[name]
    made = SimulatedModel(model, args, expand=True)
    assert "complex<" not in made.program.gpu
    found = check(made, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=1, also=lambda name: name in ("put in rows", "between transforms", "as it came, too"))
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    model, args = CASES[name]
    with capturing_for(True):
        found = check(SimulatedModel(model, args, expand=True), model, args)
    assert found.right, str(found)


def test_sizes_that_vary():
    model = lambda z: z * 2j  # noqa: E731
    with capturing_for(True):
        made = SimulatedModel(model, (Z,), ({0: torch.export.Dim("n")},), expand=True)
    for n in (1, 6, 9):
        z = torch.randn(n, 8, dtype=torch.complex64)
        torch.testing.assert_close(made(z), z * 2j)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model, args, expected", [
    (lambda z, w: z * w, (Z, W), ["elementwise"]),
    (lambda z, w: z.exp() * w.conj(), (Z, W), ["elementwise"]),
    (lambda z, w: torch.where(z.real > 0, z, w), (Z, W), ["elementwise"]),
    (lambda z, w: z.sum(1), (torch.randn(600, 900, dtype=torch.complex64), W), ["rows"]),
    (lambda z, w: z @ w, (torch.randn(8, 64, 64, dtype=torch.complex64), torch.randn(8, 64, 128, dtype=torch.complex64)), ["direct_bf16x6", "elementwise"]),
    (lambda z, w: (z.mT @ w).real, (torch.randn(8, 64, 64, dtype=torch.complex64), torch.randn(8, 64, 128, dtype=torch.complex64)), None),
    (between_transforms, (torch.randn(8, 32, 64, 33, dtype=torch.complex64)[:2, :4, :6, :4], torch.randn(4, 4, 2, 2, dtype=torch.complex64)), None),
])
def test_generators(model, args, expected):
    found = generators(model, args)
    assert "universal" not in found and (expected is None or sorted(found) == sorted(expected)), found


def test_a_package(tmp_path):
    """Its file says what the program has, and its signature what a caller has."""
    inferno.compile(lambda z, w: z * w, (Z, W), target="sm_90a").save(tmp_path / "product.inferno")
    assert "mulf" in inferno.load(tmp_path / "product.inferno", "cpu").ir("scheduled")


def test_kernels_are_checked_with_what_they_read():
    assert all(k.comparison is not None and k.right for k in check_kernels(inferno.compile(lambda z: z.real * 2 + z.imag, (Z,)), (Z,), {}))


def test_plans():
    plan = Plan((), (Buffer("argument", 0, (6, 8, 2), "f32"),), (Output((6, 8, 2), "f32", result=0), Output((6, 2), "f32", result=1)), 0)
    found = as_complex(plan, [torch.complex64, torch.float32]).outputs
    assert [(o.shape, o.element) for o in found] == [((6, 8), "complex<f32>"), ((6, 2), "f32")]
    assert as_complex(plan, [torch.complex128, torch.float32]) is plan
    assert [a.dtype for a in as_pairs(plan, [Z.conj(), Z])] == [torch.float32, torch.complex64]


def test_memory_of_numbers_as_pairs_and_of_pairs_as_numbers():
    pairs = torch.view_as_real(Z)
    assert torch.equal(as_laid(Z, (6, 8, 2), torch.float32), pairs)
    assert torch.equal(as_laid(pairs, (6, 8), torch.complex64), Z)
    assert torch.equal(as_laid(pairs[0, 0], (), torch.complex64), Z[0, 0])
    assert torch.equal(as_laid(Z.t(), (6, 8, 2), torch.float32), pairs)
