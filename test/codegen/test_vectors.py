"""Products with few vectors on CUDA cores: right on the simulated GPU, and assembled without spills."""

import pytest
import torch
from checks import check
from contractions import contraction
from kernels import TARGET, build, choose
from universal_program import SimulatedModel

from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.maps import elementwise
from inferno.schedule.matmul import vectors
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.vectors import Vectors

F = torch.nn.functional


def right(function, *args, dtype=torch.float32):
    """``args`` are tensors or shapes of normal ones."""
    torch.manual_seed(0)
    args = tuple(a if isinstance(a, torch.Tensor) else torch.randn(a).to(dtype) for a in args)
    found = check(simulate(function, args), function, args)
    assert found.right, str(found)


def best(kernel):
    """The best of these schedules, whatever others would take; None if there is none."""
    c = parse_contraction(kernel)
    found = vectors.candidates(c, TARGET) if c is not None else []
    return min(found, key=lambda item: item[0])[1] if found else None


def assemble(text):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        schedule = best(kernels(module)[0])
    return build(text, "vectors", schedule)


def simulate(function, args):
    chosen = []

    def choose_vectors(kernel):
        chosen.append(best(kernel))
        return chosen[-1] or elementwise.choose(kernel, TARGET)

    simulated = SimulatedModel(function, args, choose=choose_vectors)
    assert any(chosen)
    return simulated


@pytest.mark.covering
@pytest.mark.parametrize("m, k, n, dtype", [(1, 512, 40, torch.float32), (3, 264, 36, torch.bfloat16), (8, 136, 24, torch.float32)])
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_layouts(m, k, n, dtype, transposed):
    right((lambda x, w: x @ w.t()) if transposed else (lambda x, w: x @ w), (m, k), (n, k) if transposed else (k, n), dtype=dtype)


@pytest.mark.parametrize("m, k, n", [(40, 512, 1), (36, 264, 5)])
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_the_long_side_is_the_lhs(m, k, n, transposed):
    right((lambda x, w: x @ w.t()) if transposed else (lambda x, w: x @ w), (m, k), (n, k) if transposed else (k, n))


def test_columns_of_the_lhs():
    right(lambda x, w: x.t() @ w, (256, 40), (256, 2))


def test_epilogue_and_residual():
    right(lambda x, w, b, r: torch.relu(F.linear(x, w, b)) + r, (2, 260), (44, 260), (44,), (2, 44))


def test_several_results():
    def both(x, w):
        y = x @ w
        return y, torch.relu(y)

    right(both, (2, 128), (128, 24))


def test_batches():
    right(torch.matmul, (3, 2, 64), (3, 64, 24))


def test_prologue():
    right(lambda x, w, s: x @ (w * s).t(), (2, 128), (24, 128), (24, 1))
    right(lambda x, w, s: x @ (w * s), (2, 128), (128, 24), (24,))


def test_weights_of_bytes():
    def product(x, s, w):
        return x @ (w.float() * s).t()

    torch.manual_seed(0)
    every = (torch.arange(24 * 128) % 256).to(torch.uint8).reshape(24, 128)
    for weights in (every, every.view(torch.int8)):
        args = torch.randn(2, 128), torch.randn(24, 1), weights
        simulated = simulate(product, args)
        assert (found := check(simulated, product, args)).right, str(found)
        # Products with ones and zeros are the weights themselves.
        assert torch.equal(simulated(torch.eye(128)[63:65].clone(), torch.ones(24, 1), weights), weights.float().t()[63:65])


def test_long_sums_are_exact():
    right(lambda x, w: x @ w.t(), (1, 16384), (8, 16384))
    right(lambda x, w: x @ w, (1, 16384), (16384, 8))


def test_infinity_stays_where_it_is():
    x, w = torch.randn(1, 200), torch.randn(200, 8)
    x[0, 7], w[9, 3] = float("inf"), float("nan")
    function = lambda x, w: x @ w  # noqa: E731
    ours, exact = simulate(function, (x, w))(x, w), x.double() @ w.double()
    assert torch.equal(ours.isnan(), exact.isnan()) and torch.equal(ours.isinf(), exact.isinf())


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("m", [1, 8])
def test_no_schedule_spills(element, layout, m):
    text = contraction({"m": m, "n": 4096, "k": 4096}, "mk", layout, "mn", element)
    built = assemble(text)
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0
    if m == 1:
        assert "ld.global.nc.v4.b32" in built.accesses()  # 16 bytes


def test_up_to_eight_rows_add_a_few_terms_in_a_row():
    """In float32, of columns together: what additions lose after each step would take longer than the products."""
    for k, parts in ((512, False), (1024, None), (8192, None)):
        text = contraction({"m": 8, "n": 16384, "k": k}, "mk", "kn", "mn", "f32")
        s = choose(text, "vectors")
        row = s.steps_in_a_row(k) * s.unroll * s.terms
        assert 8 <= row <= 32 or not s.has_totals(k)
        assert not s.keeps_losses(k) and (parts is None or s.has_totals(k) == parts)
    for rows, layout in ((2, "kn"), (2, "nk"), (8, "nk")):
        few = choose(contraction({"m": rows, "n": 16384, "k": 8192}, "mk", layout, "mn", "f32"), "vectors")
        assert few.keeps_losses(8192) and few.steps_in_a_row(8192) == 1


def test_what_is_chosen():
    assert isinstance(choose(contraction({"m": 1, "n": 4096, "k": 4096}, "mk", "nk", "mn", "f32"), "vectors"), Vectors)
    assert choose(contraction({"m": 9, "n": 64, "k": 64}, "mk", "nk", "mn", "f32"), "vectors") is None
    assert choose(contraction({"m": 1, "n": 64, "k": 65}, "mk", "nk", "mn", "f32"), "vectors") is None  # the rows are not aligned


def test_schedules_that_do_not_fit_are_refused():
    with pytest.raises(CompileError, match="cannot read"):
        build(contraction({"m": 1, "n": 64, "k": 66}, "mk", "nk", "mn", "f32"), "vectors", Vectors())


def test_any_number_of_rows():
    torch.manual_seed(0)
    n = torch.export.Dim("n", min=1, max=64)
    function = lambda x, w: torch.relu(x @ w.t())  # noqa: E731
    w = torch.randn(24, 136)

    def choose_vectors(kernel):
        c = parse_contraction(kernel)
        found = vectors.candidates(c, TARGET, lambda size: size if isinstance(size, int) else 2, swapped=False) if c else []
        assert found, kernel
        return found[0][1]

    simulated = SimulatedModel(function, (torch.randn(3, 136), w), ({0: n}, None), choose_vectors)
    for rows in (1, 3, 8, 11):
        found = check(simulated, function, (torch.randn(rows, 136), w))
        assert found.right, f"{rows}: {found}"


@pytest.mark.covering
@pytest.mark.parametrize("m, k, dtype, terms", [
    (1, 1035, torch.bfloat16, 1), (3, 262, torch.bfloat16, 2), (8, 135, torch.float32, 1), (2, 259, torch.float32, 1),
])
def test_terms_that_are_not_aligned(m, k, dtype, terms):
    """Lines that begin anywhere are read by fewer terms at a time, neighbours by neighbouring threads; with a last step that is not full."""
    seen = []

    def narrow(kernel):
        seen.append(best(kernel))
        return seen[-1]

    args = torch.randn(m, k).to(dtype), torch.randn(21, k).to(dtype)
    found = check(SimulatedModel(F.linear, args, choose=narrow), F.linear, args)
    assert found.right and seen[0].terms == terms and seen[0].along_k, (str(found), seen)


def test_chosen_where_lines_begin_anywhere():
    for rows, terms in ((1, 1), (2, 1), (9, None)):
        text = contraction({"m": rows, "n": 4096, "k": 4097}, "mk", "nk", "mn", results=("bf16",), body="%y0 = arith.truncf %s : f32 to bf16")
        found = choose(text, "vectors")
        assert (found and found.terms) == terms, rows


def test_a_warp_has_a_long_column_to_itself():
    """Of one vector of 16 bits, whose other factor lies along the terms; numbers on the simulator, with a last step that is not full."""
    text = contraction({"m": 1, "n": 3584, "k": 18944}, "mk", "nk", "mn", results=("bf16",), body="%y0 = arith.truncf %s : f32 to bf16")
    assert choose(text, "vectors") == Vectors(1, 1, 1, 8, 4, 32)
    assert choose(text.replace("18944", "8192").replace("3584", "8192"), "vectors").columns == 1
    assert choose(text.replace("18944", "4096").replace("3584", "11008"), "vectors").columns == 4
    torch.manual_seed(0)
    args = torch.randn(1, 5208).bfloat16(), torch.randn(5, 5208).bfloat16()
    simulated = SimulatedModel(F.linear, args, choose=lambda kernel: Vectors(1, 1, 1, 8, 4, 32))
    found = check(simulated, F.linear, args)
    assert found.right, str(found)
