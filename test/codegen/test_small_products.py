"""Products of many small matrices: right on the simulated GPU, by every schedule, and assembled without spills."""

import pytest
import torch
from checks import assert_close_to_float64, check
from contractions import contraction
from kernels import TARGET, build, choose
from sized_models import SizedModel
from universal_program import SimulatedModel

import inferno
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.maps import elementwise
from inferno.schedule.matmul import small_products
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.small_products import SmallProducts

BATCH = 515  # not all of the last block's threads have a matrix


def right(function, *args, dtype=torch.float32, only=None, most=3):
    """``args`` are tensors or shapes of normal ones; the fastest schedules by their estimates, ``most`` of those that ``only`` takes, are right.  Returns
    these."""
    torch.manual_seed(0)
    args = tuple(a if isinstance(a, torch.Tensor) else torch.randn(a).to(dtype) for a in args)
    number, found = 0, [None]
    while number < len(found):
        def pick(kernel, number=number):
            c = small_products.parse(kernel)
            of = sorted(small_products.candidates(c, TARGET), key=lambda item: item[0]) if c is not None else []
            of = [s for _, s in of if only is None or only(s)][:most]
            found[:] = of or found
            return of[number] if of else elementwise.choose(kernel, TARGET)

        result = check(SimulatedModel(function, args, choose=pick), function, args)
        assert found[number] is not None and result.right, f"{found[number]}: {result}"
        number += 1
    return found


@pytest.mark.covering(most=10)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m, n, k", [
    (1, 3, 16), (1, 3, 64), (3, 3, 3), (1, 32, 4), (9, 32, 9), (1, 5, 7), (4, 4, 4), (2, 12, 10), (1, 2, 2), (7, 1, 33), (1, 3, 520), (2, 2, 1001),
])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_shapes(m, n, k, transposed, shared, dtype):
    right(lambda x, y: x @ (y.transpose(1, 2) if transposed else y), (BATCH, m, k), (BATCH, n, k) if transposed else (BATCH, k, n), dtype=dtype,
          only=lambda s: (s.share > 1) == shared or k < 3 or k > 256)


@pytest.mark.covering
@pytest.mark.parametrize("share", [2, 8, 32])
@pytest.mark.parametrize("m, n, columns", [(1, 3, 3), (2, 8, 4), (5, 1, 1)])
def test_lanes_that_share_terms(m, n, columns, share):
    right(torch.matmul, (BATCH, m, 64), (BATCH, 64, n), only=lambda s: s.share == share and s.columns == columns, most=2)


def test_matrices_side_by_side():
    """The batch is innermost in memory, of factors and of results."""
    found = right(lambda x, y: (x.permute(2, 0, 1) @ y.permute(2, 0, 1)).permute(1, 2, 0).contiguous(), (3, 4, BATCH), (4, 5, BATCH), only=lambda s: s.beside)
    assert found


def test_two_loops_of_matrices():
    right(lambda x, y: x.transpose(0, 1) @ y, (103, 5, 3, 6), (5, 103, 6, 4))


def test_terms_of_two_loops():
    right(lambda x, y: torch.einsum("bkli,blkj->bij", x, y), (BATCH, 3, 4, 2), (BATCH, 4, 3, 3))


def test_prologue_and_epilogue():
    right(lambda x, s, y, b: torch.relu((x * s) @ y + b), (BATCH, 3, 6), (BATCH, 1, 1), (BATCH, 6, 5), (5,))


def test_several_results():
    right(lambda x, y, b: (x @ y, torch.relu(x @ y + b)), (BATCH, 2, 6), (BATCH, 6, 4), (4,))


def test_a_part_of_a_tensor():
    """Terms of which no two are aligned, and rows whose terms are apart."""
    right(lambda x, y: x[:, :, ::2] @ y[:, 1:, 1:4], (BATCH, 2, 14), (BATCH, 8, 5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_products_in_their_own_type(dtype):
    """Factors that are broadcast, multiplied and added up: the kernels that multiply matrices add in float32."""
    right(lambda x, y: (x[..., None] * y).sum(1), (BATCH, 16), (BATCH, 16, 3), dtype=dtype)
    right(lambda x, y: (x[..., None] * y).sum(1).add(0.5).clamp(min=0), (BATCH, 16), (BATCH, 16, 3), dtype=dtype)
    right(lambda x, y, z: (x[:, :, None] * y).sum(1) * z + 1, (BATCH, 4), (BATCH, 4, 32), (BATCH, 1), dtype=dtype)


ROUNDED = """func.func private @products(%x: tensor<600x4xbf16>, %y: tensor<600x4x8xbf16>, %o: tensor<600x8xbf16>) -> tensor<600x8xbf16> {
  %z = arith.constant 0.0 : bf16
  %0 = linalg.fill ins(%z : bf16) outs(%o : tensor<600x8xbf16>) -> tensor<600x8xbf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(b, k, n) -> (b, k)>, affine_map<(b, k, n) -> (b, k, n)>, affine_map<(b, k, n) -> (b, n)>],
      iterator_types = ["parallel", "reduction", "parallel"]} ins(%x, %y : tensor<600x4xbf16>, tensor<600x4x8xbf16>) outs(%0 : tensor<600x8xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: bf16):
    %p = arith.mulf %a, %b ROUNDS : bf16
    %t = arith.addf %p, %s : bf16
    linalg.yield %t : bf16 } -> tensor<600x8xbf16>
  return %1 : tensor<600x8xbf16>
}"""


@pytest.mark.parametrize("rounds", [False, True])
def test_products_that_say_so_are_rounded(rounds):
    built = build(ROUNDED.replace("ROUNDS", "{inferno.rounds}" if rounds else ""), "small_products", SmallProducts(1, 8, 4))
    assert (built.count(r"cvt\.rn\.bf16") >= 32 // 2 + 8 // 2) == rounds  # two at a time
    assert bool(built.count(r"fma\.rn\.f32")) != rounds


def test_infinity_stays_where_it_is():
    x, y = torch.randn(BATCH, 1, 9), torch.randn(BATCH, 9, 3)
    x[7, 0, 8], x[9, 0, 0], y[11, 5, 1] = float("inf"), float("nan"), float("inf")
    exact = x.double() @ y.double()
    for share in (2, 4):
        ours = SimulatedModel(torch.matmul, (x, y), choose=lambda kernel, share=share: SmallProducts(1, 3, 3, share))(x, y)
        assert torch.equal(ours.isnan(), exact.isnan()) and torch.equal(ours.isinf(), exact.isinf())


def test_float64_and_integers():
    right(torch.matmul, (BATCH, 2, 7), (BATCH, 7, 3), dtype=torch.float64)
    x, y = torch.randint(-9, 9, (BATCH, 2, 7), dtype=torch.int32), torch.randint(-9, 9, (BATCH, 7, 3), dtype=torch.int32)
    pick = lambda kernel: small_products.candidates(parse_contraction(kernel), TARGET)[-1][1]  # noqa: E731
    assert torch.equal(SimulatedModel(torch.matmul, (x, y), choose=pick)(x, y), x @ y)


def fastest(text):
    """The schedule with the lowest estimate for the only kernel of ``text``, whatever others take."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return min(small_products.candidates(parse_contraction(kernels(module)[0]), TARGET), key=lambda item: item[0])[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_number_of_matrices_that_varies(dtype):
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=1 << 20)

    def both(x, y):
        return x @ y, torch.relu((y * x.transpose(1, 2)[:, :, :1]).sum(1) + 1)

    run = SizedModel(both, (torch.randn(65536, 2, 10).to(dtype), torch.randn(65536, 10, 3).to(dtype)), ({0: batch}, {0: batch}))
    assert [s.generator for s in run.schedules].count("small_products") == 2
    for n in (1, 77, 600):
        args = torch.randn(n, 2, 10).to(dtype), torch.randn(n, 10, 3).to(dtype)
        assert_close_to_float64(run(*args), both, args)


def products(batch, m, n, k, element, rhs="bkn"):
    return contraction({"b": batch, "m": m, "n": n, "k": k}, "bmk", rhs, "bmn", element)


def test_what_is_chosen():
    found = choose(contraction({"b": 262144, "n": 3, "k": 16}, "bk", "bkn", "bn", "bf16"), "small_products")
    assert found.columns == 3 and found.terms == 8
    assert choose(products(262144, 3, 3, 3, "f32"), "small_products").columns == 3
    for others in ((64, 3, 3, 3), (4096, 64, 64, 64), (4096, 16, 16, 16), (4096, 1, 1, 64), (4096, 3, 3, 5000)):
        assert choose(products(*others, "bf16"), "small_products") is None


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("m, n, k", [(1, 3, 16), (3, 3, 3), (9, 32, 9), (1, 32, 64), (1, 3, 4096), (8, 8, 1024), (4, 4, 1000)])
@pytest.mark.parametrize("rhs", ["bkn", "bnk"])
def test_no_schedule_spills(element, m, n, k, rhs):
    sizes = {name: size for name, size in (("b", 4096), ("m", m), ("n", n), ("k", k)) if size > 1}
    text = contraction(sizes, *("".join(d for d in letters if d in sizes) for letters in ("bmk", rhs, "bmn")), element)
    built = build(text, "small_products", fastest(text))
    if built.resources:
        assert built.resources.spills == 0 and built.resources.stack == 0


def test_whole_pieces_are_read_of_rows_of_three():
    built = build(contraction({"b": 4096, "n": 3, "k": 16}, "bk", "bkn", "bn", "bf16"), "small_products", SmallProducts(1, 3, 8, 2))
    assert built.count(r"ld\.global\.nc\.v4\.b32") == 4 and not built.count(r"ld\.global\.nc\.b16")


def test_schedules_that_do_not_fit_are_refused():
    bad = (SmallProducts(2, 3, 3), SmallProducts(1, 3, 4), SmallProducts(1, 3, 3, 3), SmallProducts(3, 3, 3, 1, 48), SmallProducts(3, 3, 1, 2, beside=True))
    for schedule in bad:
        with pytest.raises(CompileError, match="does not fit"):
            build(products(4096, 3, 3, 3, "f32"), "small_products", schedule)
    with pytest.raises(CompileError, match="no product of many small matrices"):
        build(products(4, 3, 3, 3, "f32"), "small_products", SmallProducts())


def pulled(x, m):
    """What points weigh each other by, and their energy: 128 powers of distances are a lane's, if lanes share a row of 4096."""
    d = x[None] - x[:, None]
    r = d.square().sum(-1) + 1e-2
    return (d * (m[None] * r**-1.5)[..., None]).sum(1), (m[:, None] * m[None] * r.rsqrt()).sum()


def test_long_factors_are_not_written_out():
    rows = inferno.compile(pulled, (torch.randn(4096, 3), torch.rand(4096)), target="sm_90a").explain().rows
    assert {r.generator for r in rows} == {"reductions"} and not any(r.spills for r in rows)
