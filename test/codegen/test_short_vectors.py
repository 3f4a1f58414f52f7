"""Products of few vectors with short sums: right on the simulated GPU, by every schedule, and assembled without spills."""

import pytest
import torch
from checks import check
from contractions import contraction
from kernels import TARGET, build, choose
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.schedule.maps import elementwise
from inferno.schedule.matmul import short_vectors
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.short_vectors import ShortVectors

F = torch.nn.functional


def right(function, *args, dtype=torch.float32, only=None):
    """``args`` are tensors or shapes of normal ones; every schedule is right that ``only`` takes, and there are some.  Returns these."""
    torch.manual_seed(0)
    args = tuple(a if isinstance(a, torch.Tensor) else torch.randn(a).to(dtype) for a in args)
    number, found = 0, [None]
    while number < len(found):
        def pick(kernel, number=number):
            c = parse_contraction(kernel)
            of = [s for _, s in short_vectors.candidates(c, TARGET) if only is None or only(s)] if c is not None else []
            found[:] = of or found
            return of[number] if of else elementwise.choose(kernel, TARGET)

        result = check(SimulatedModel(function, args, choose=pick), function, args)
        assert found[number] is not None and result.right, f"{found[number]}: {result}"
        number += 1
    return found


def last(h, c):
    """The states' sum of a state-space model: a vector for each of the first loops."""
    return (h @ c.unsqueeze(-1))[..., 0]


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, n, k", [(3, 40, 16), (2, 37, 15), (1, 129, 8), (5, 3, 48), (2, 70, 32), (3, 33, 3), (2, 19, 90), (9, 64, 4)])
def test_terms_together(batch, n, k, dtype):
    right(last, (batch, n, k), (batch, k), dtype=dtype, only=lambda s: s.columns <= 2 * s.share)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch, n, k", [(3, 136, 16), (2, 37, 15), (2, 20, 48)])
@pytest.mark.parametrize("rows", [1, 3, 7])
def test_columns_together(batch, n, k, rows, dtype):
    found = right(torch.matmul, (batch, rows, k), (batch, k, n), dtype=dtype)
    assert not any(s.along_k for s in found)


@pytest.mark.covering
@pytest.mark.parametrize("rows, k", [(2, 24), (4, 24), (5, 24), (8, 8)])
def test_several_vectors(rows, k):
    found = right(lambda x, w: x @ w.transpose(1, 2), (2, rows, k), (2, 45, k))
    assert all(s.rows == rows for s in found)


def test_the_long_side_is_the_lhs():
    found = right(lambda x, w: x @ w, (70, 16), (16, 2))
    assert all(s.swapped for s in found)


def test_one_vector_for_all():
    right(last, (3, 40, 16), (16,))


@pytest.mark.thorough
def test_gate():
    def gated(h, c, d, x, z):
        return ((last(h, c) + d * x) * F.silu(z)).to(torch.bfloat16)

    right(gated, (2, 45, 16), (2, 16), (45,), (2, 45), (2, 45))


@pytest.mark.thorough
def test_several_results():
    def both(h, c, x):
        y = last(h, c)
        return y, torch.relu(y + x)

    right(both, (2, 45, 16), (2, 16), (2, 45))
    right(lambda x, w, b: (x @ w, torch.relu(x @ w + b)), (2, 3, 16), (2, 16, 40), (40,))


def test_prologue():
    right(lambda a, b, c: last(a * b, c), (2, 40, 16), (2, 40, 1), (2, 16))


def test_a_part_of_a_tensor():
    """Terms of which no two are aligned, and a vector whose terms are apart."""
    right(lambda h, c: last(h[:, :, 1:14], c[:, ::2][:, :13]), (2, 40, 17), (2, 26))


def test_infinity_stays_where_it_is():
    h, c = torch.randn(2, 40, 13), torch.randn(2, 13)
    h[0, 7, 12], h[1, 9, 0], c[1, 5] = float("inf"), float("nan"), float("inf")
    exact = last(h.double(), c.double())
    for share in (1, 4, 16):
        ours = SimulatedModel(last, (h, c), choose=lambda k, share=share: ShortVectors(1, 1, share, share) if share != 1 else ShortVectors(1, 1, 1, 2))(h, c)
        assert torch.equal(ours.isnan(), exact.isnan()) and torch.equal(ours.isinf(), exact.isinf())


def test_float64():
    right(last, (2, 40, 16), (2, 16), dtype=torch.float64)


def test_integers():
    h, c = torch.randint(-9, 9, (2, 40, 16), dtype=torch.int32), torch.randint(-9, 9, (2, 16, 1), dtype=torch.int32)
    pick = lambda kernel: short_vectors.candidates(parse_contraction(kernel), TARGET)[-1][1]  # noqa: E731
    assert torch.equal(SimulatedModel(torch.matmul, (h, c), choose=pick)(h, c), h @ c)


HIDDEN = {"b": 1024, "n": 2048, "k": 16}  # Mamba's: tokens, channels, states


def test_what_is_chosen():
    found = choose(contraction(HIDDEN, "bnk", "bk", "bn", "f32"), "short_vectors")
    assert found.along_k and found.terms == 4 and found.loads(16) == 1
    assert not choose(contraction(HIDDEN, "bkn", "bk", "bn", "f32"), "short_vectors").along_k
    assert choose(contraction({"m": 1, "n": 4096, "k": 4096}, "mk", "nk", "mn", "f32"), "short_vectors") is None
    assert choose(contraction({"m": 64, "n": 4096, "k": 16}, "mk", "nk", "mn", "f32"), "short_vectors") is None
    assert choose(contraction({"b": 1024, "k": 16}, "bk", "bk", "b", "f32"), "short_vectors") is None  # a sum for each


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("lhs", ["bnk", "bkn"])
@pytest.mark.parametrize("k", [16, 48])
def test_no_schedule_spills(element, lhs, k):
    built = build(contraction({**HIDDEN, "k": k}, lhs, "bk", "bn", element), "short_vectors")
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0
    assert "ld.global.nc.v4.b32" in built.accesses()  # 16 bytes


def test_schedules_that_do_not_fit_are_refused():
    for bad in (ShortVectors(1, 8, 2, 2), ShortVectors(1, 4, 4, 2), ShortVectors(2, 4, 4, 4)):
        with pytest.raises(CompileError, match="cannot read"):
            build(contraction({"m": 1, "n": 64, "k": 20}, "mk", "nk", "mn", "f32"), "short_vectors", bad)
