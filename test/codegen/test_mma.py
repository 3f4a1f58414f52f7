"""Contractions by mma.sync: numbers on the simulator, the structure of what is emitted, and that ptxas takes it without spills."""

from dataclasses import replace

import pytest
import torch
from contraction_cases import heads
from contractions import contraction, varying
from kernels import assembled, build, choose
from mma_choice import mma
from universal_program import SimulatedModel

from inferno.mlir import ir, idle_context
from inferno.runtime.check.comparison import compare
from inferno.schedule.assign import kernels
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.mma import _CANDIDATES, _DOUBLE, Mma, candidates
from inferno.target import find_target
from inferno.tools.check import reference

F = torch.nn.functional
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]
LAYOUTS = {
    "mk,kn": lambda x, w: x @ w, "mk,nk": lambda x, w: x @ w.t(), "km,kn": lambda x, w: x.t() @ w, "km,nk": lambda x, w: x.t() @ w.t(),
}


def randn(*shape, dtype=BF16):
    """Random normal; for float64, whose reference is no better than it is, small whole numbers, of which sums are exact."""
    if dtype in (F64, torch.int8):
        return torch.randint(-8 if dtype == F64 else -128, 9 if dtype == F64 else 128, shape).to(dtype)
    return torch.randn(shape).to(dtype)


def right(function, args, schedule=None, early=False, dynamic_shapes=None, calls=()):
    """One kernel by mma.sync, and right.  TF32 has a rounding unit of 2**-10; eager has none on the CPU."""
    used, tf32 = [], args[0].dtype == F32
    model = SimulatedModel(function, args, dynamic_shapes, mma("sm_90a", schedule, tf32, used), early)
    assert len(used) == 1
    for each in (args, *calls):
        with torch.no_grad():
            found = compare(model(*each), function(*each), reference(function, each), 2**-10 if tf32 else None)
        assert found.right, str(found)
    return used[0]


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("number, dtype", list(enumerate([BF16, F16, F32, F64])))
@pytest.mark.parametrize("turn, layout", list(enumerate(LAYOUTS)))
def test_layouts_and_sizes(number, dtype, turn, layout):
    """Copies of 16, 8, 4 bytes, and none; ends of all axes inside of a tile.  Every type and every layout meets each of the sizes."""
    m, n, k = [(64, 64, 128), (70, 52, 100), (38, 34, 50), (35, 33, 51)][(number + turn) % 4]
    sizes = {"m": m, "n": n, "k": k}
    x, w = (randn(*(sizes[d] for d in each), dtype=dtype) for each in layout.split(","))
    right(LAYOUTS[layout], (x, w), early=turn % 2 == 0)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype, schedule", [
    *((BF16, _CANDIDATES[i][0]) for i in (3, 4, 6, 10, 11)), *((F32, _CANDIDATES[i][0]) for i in (2, 7, 9)), *((F64, _DOUBLE[i][0]) for i in (0, 3, 6)),
], ids=str)
def test_tiles(dtype, schedule):
    """Each schedule has its warps, lines and stages; reads that are not free of bank conflicts fail."""
    m, n, swapped = schedule.tile_m + 10, schedule.tile_n + 20, schedule.stages % 2 == 0
    if swapped:
        right(LAYOUTS["mk,nk"], (randn(m, 150, dtype=dtype), randn(n, 150, dtype=dtype)), schedule)
    else:
        right(LAYOUTS["km,kn"], (randn(150, m, dtype=dtype), randn(150, n, dtype=dtype)), schedule, early=True)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("layout", ["mk,kn", "mk,nk"])
@pytest.mark.parametrize("m, n, k", [(64, 64, 128), (35, 33, 51)])
def test_bytes(layout, m, n, k):
    x, w = randn(m, k, dtype=torch.int8), randn(*((k, n) if layout == "mk,kn" else (n, k)), dtype=torch.int8)
    function = torch._int_mm if layout == "mk,kn" else lambda x, w: torch._int_mm(x, w.t())
    made = SimulatedModel(function, (x, w), choose=mma("sm_90a"))
    wide = w if layout == "mk,kn" else w.t()
    assert "s8.s8" in made.program.gpu and torch.equal(made(x, w), (x.int() @ wide.int()))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("shapes", [
    ((3, 33, 17), (3, 17, 35)), ((2, 3, 20, 24), (2, 3, 24, 40)), ((5, 40, 30), (30, 20)), ((20, 40), (3, 40, 32)),
    ((2, 1, 36, 24), (1, 3, 24, 36)), ((1, 77), (77, 40)), ((40, 77), (77, 1)),
], ids=str)
def test_batches(shapes):
    right(torch.matmul, tuple(randn(*s) for s in shapes))


@pytest.mark.thorough
def test_axes_of_several_loops():
    heads(right, randn, 20, 3, 16)
    right(lambda a, b: torch.einsum("bhmk,hkn->bmn", a, b), (randn(2, 3, 20, 24), randn(3, 24, 20)))
    right(F.conv2d, (randn(1, 8, 7, 7), randn(16, 8, 3, 3)))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("function", [
    lambda x, w, b, r, c: F.gelu(x @ w + b), lambda x, w, b, r, c: torch.relu(x @ w + c) + r, lambda x, w, b, r, c: torch.tril(x @ w),
    lambda x, w, b, r, c: (x @ w, torch.relu(x @ w)), lambda x, w, b, r, c: (x @ w + b).t(), lambda x, w, b, r, c: (x @ w).float() * 2,
], ids=["gelu", "residual", "triangle", "two", "transposed", "float"])
def test_epilogues(function):
    m, n, k = 67, 51, 40
    right(function, tuple(randn(*s) for s in ((m, k), (k, n), (n,), (m, n), (m, 1))))


def test_whole_tiles_are_written_in_quads():
    right(lambda x, w, b: x @ w + b, tuple(randn(*s) for s in ((64, 64), (64, 32), (32,))))
    right(lambda x, w, b: torch.relu(x @ w + b), tuple(randn(*s) for s in ((61, 64), (64, 36), (36,))))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("function", [
    lambda x, w, q, s: torch.relu(x) @ w, lambda x, w, q, s: x @ q.to(x.dtype), lambda x, w, q, s: torch.relu(x) @ (q.to(x.dtype) * s[0, 0]),
], ids=["relu", "int8", "both"])
def test_prologues(function):
    m, n, k = 35, 51, 71
    right(function, (randn(m, k), randn(k, n), randn(k, n, dtype=torch.int8), randn(1, k)), early=True)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [BF16, F32, F64])
def test_split_sums(dtype):
    schedule = Mma(64, 32, 2, 2, 128, 5, split=3)
    right(lambda x, w, b: torch.relu(x @ w + b), (randn(70, 700, dtype=dtype), randn(700, 50, dtype=dtype), randn(50, dtype=dtype)), schedule)


def test_sizes_that_vary():
    n = torch.export.Dim("n", min=1, max=4096)
    calls = [(randn(s, 40), randn(40, 48)) for s in (1, 33, 100)]
    right(lambda x, w: torch.relu(x @ w), (randn(70, 40), randn(40, 48)), dynamic_shapes=({0: n}, None), calls=calls)
    calls = [(randn(s, 40), randn(s, 48)) for s in (1, 33, 200)]
    right(LAYOUTS["km,kn"], (randn(70, 40), randn(70, 48)), dynamic_shapes=({0: n}, {0: n}), calls=calls)


ROUND = {"results": ("bf16",), "body": "%y0 = arith.truncf %s : f32 to bf16"}
TF32 = {"element": "f32", "attributes": '{inferno.precision = "tf32"}'}


def text(kind: str, sizes: dict[str, int], lhs: str = "mk", rhs: str = "kn") -> str:
    if kind == "bf16":
        return contraction(sizes, lhs, rhs, "mn", **ROUND)
    if kind == "tf32":
        return contraction(sizes, lhs, rhs, "mn", **TF32)
    if kind == "f64":
        return contraction(sizes, lhs, rhs, "mn", "f32").replace("f32", "f64")
    whole = contraction(sizes, lhs, rhs, "mn", "i8").replace("arith.extf", "arith.extsi").replace("0.0 : f32", "0 : i32")
    return whole.replace("mulf", "muli").replace("addf", "addi").replace("f32", "i32")


SHAPES = {"bf16": "m16n8k16.row.col.f32.bf16", "tf32": "m16n8k8.row.col.f32.tf32", "f64": "m8n8k4.row.col.f64", "s8": "m16n8k32.row.col.s32.s8"}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target, kind):
    """Chosen there, and assembled."""
    machine = find_target(target)
    shape = SHAPES[kind].replace("m8n8k4", "m16n8k8") if machine.capability >= 90 else SHAPES[kind]
    for size in ({"m": 4096, "n": 4096, "k": 4096}, *([{"m": 333, "n": 77, "k": 51}] if target == "sm_89" else [])):
        built = build(text(kind, size), "mma", target=machine)
        assert built.count(rf"mma\.sync\.aligned\.{shape}") > 0
        assembled(built)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("kind, lhs, rhs, k", [("bf16", "mk", "kn", 264), ("bf16", "mk", "nk", 51), ("tf32", "km", "nk", 264), ("f64", "mk", "kn", 264)])
def test_no_schedule_spills(kind, lhs, rhs, k):
    """Those with the most sums of all that are offered, also where rows end inside of a tile, or operands come through registers."""
    source, target = text(kind, {"m": 1000, "n": 520, "k": k}, lhs, rhs), find_target("sm_80")
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        kernel = kernels(module)[0]
        offered = dict.fromkeys(replace(s, split=1) for _, s in candidates(kernel, parse_contraction(kernel), target))
    largest = sorted(offered, key=lambda s: s.warp_m * s.warp_n)[-2:]
    assert len(offered) >= 4
    for schedule in largest:
        assembled(build(source, "mma", schedule, target))


def test_structure():
    built = build(text("bf16", {"m": 4096, "n": 4096, "k": 4096}), "mma", Mma(128, 128, 2, 2, 64, 4), find_target("sm_80"))
    # Two products of 16 terms a step, each 4 x 8 of a warp; both operands' fragments for the first of them before the loop as well.
    assert built.count(r"mma\.sync") == 2 * 32 and built.count(r"ldmatrix\.[\w.]*x4\.shared") == built.count(r"ldmatrix\.[\w.]*x4\.trans") == 3 * 4
    # 8 copies a thread and step, in three steps in front of the loop and in it; one barrier there.
    assert built.count(r"cp\.async\.cg") == 4 * 8 and built.count(r"cp\.async\.ca") == 0 and built.count(r"bar\.sync|barrier\.sync") == 2
    assert built.accesses("global") == {"st.global.v2.b32"} and not built.accesses("shared")
    assembled(built)


def test_copies_are_as_wide_as_alignment_allows():
    counts = {8: r"cp\.async\.cg", 4: r"cp\.async\.ca[^;]*, 8", 2: r"cp\.async\.ca[^;]*, 4", 1: r"ld\.global\S*\.v4"}
    for k, pattern in counts.items():
        built = build(text("bf16", {"m": 64, "n": 64, "k": 64 + k}, "mk", "nk"), "mma", target=find_target("sm_80"))
        assert built.count(pattern) > 0
        assert (built.count(r"cp\.async\.c[ag]") > 0) == (k > 1)


def test_chosen_where_there_is_nothing_better():
    plain = {"m": 256, "n": 256, "k": 256}
    for kind in SHAPES:
        assert isinstance(choose(text(kind, plain), "mma", find_target("sm_80")), Mma)
        # Hopper has better tensor cores for most types.
        assert isinstance(choose(text(kind, plain), "mma", find_target("sm_90a")), Mma) == (kind in ("f64", "s8"))
    # Lines that the copy engine cannot read: a copy of few, or small, factors takes longer than these do.
    for sizes, better in (((17, 4096, 4097), True), ((96, 64, 197), True), ((512, 4096, 4097), False), ((512, 4096, 4096), False)):
        found = choose(text("bf16", dict(zip("mnk", sizes)), "mk", "nk"), "mma", find_target("sm_90a"))
        assert isinstance(found, Mma) == better, sizes
    exact = contraction(plain, "mk", "kn", "mn", "f32")
    assert choose(exact, "mma", find_target("sm_80")) is None
    sized = varying(contraction({"m": 250, "n": 256, "k": 264}, "mk", "kn", "mn", **ROUND), {250: (1, 4096)})
    assert "Mma" in str(choose(sized, "by_size", find_target("sm_80")))


def test_few_long_sums_are_split():
    for kind in ("bf16", "f64"):
        s = choose(text(kind, {"m": 64, "n": 64, "k": 65536}), "mma", find_target("sm_80"))
        assert s.split > 1
        built = build(text(kind, {"m": 64, "n": 64, "k": 65536}), "mma", target=find_target("sm_80"))
        assert built.gpu.count('"inferno.launch"') == 2
