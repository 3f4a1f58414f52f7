"""Contractions whose sizes vary, on tensor cores: which schedules are chosen for which sizes, and that ptxas takes them without spills."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from choices import scheduled
from contractions import contraction, varying
from kernels import TARGET, build, choose, matmul

import inferno
from inferno.codegen.composite import by_size
from inferno.errors import CompileError
from inferno.mlir import idle_context, ir, new_context, walk
from inferno.runtime.report import read_schedule
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.composite.size_ranges import BySize, along, spans_of
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.bf16x6 import Bf16x6
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.simt import Simt
from inferno.schedule.matmul.vectors import Vectors
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.tiles.tiling import shortest_part
from inferno.symbolic import LARGEST, Symbol, ceildiv, size_of, symbols_of

M, N, K = 1031, 2053, 517  # sizes that vary are these in the example
RANGE = (1, 8192)


def sized(m: int, n: int, k: int, element: str = "f32", lhs: str = "m,k", rhs: str = "k,n", ranges: tuple[int, int] = RANGE, batch: int = 0) -> str:
    return varying(matmul(m, n, k, element, lhs, rhs, batch), {s: ranges for s in (M, N, K) if s in (m, n, k)})


def schedules(chosen) -> list:
    """Those of a choice by size, from small to large."""
    return [*schedules(chosen.small), *schedules(chosen.large)] if isinstance(chosen, BySize) else [chosen]


def at(chosen, size: int):
    """The schedule for a value of the only symbol."""
    while isinstance(chosen, BySize):
        assert chosen.size == "n0"
        chosen = chosen.small if size <= chosen.limit else chosen.large
    return chosen


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize(("m", "n", "k", "lhs", "rhs", "schedule"), [
    (M, 768, 576, "m,k", "n,k", Bf16x6(128, 128, 2, 4)),
    (M, 768, 576, "m,k", "k,n", Bf16x6(64, 64, 6, 6, groups=3, slices=2)),
    (M, 768, 576, "k,m", "k,n", Bf16x6(64, 64, 6, 6, groups=3, slices=2, persistent=False, split=2)),  # the lhs is copied first
    (1024, N, 576, "m,k", "n,k", Bf16x6(128, 64, 4, 4)),
    (1024, 768, K, "k,m", "k,n", Bf16x6(128, 64, 4, 4, persistent=False)),
    (1024, 768, K, "m,k", "n,k", Bf16x6(128, 128, 2, 4, persistent=False)),
    (M, N, K, "m,k", "k,n", Bf16x6(64, 64, 6, 6, groups=3, persistent=False)),
])
def test_no_schedule_spills(m, n, k, lhs, rhs, schedule):
    built = build(sized(m, n, k, "f32", lhs, rhs), "bf16x6", schedule)
    assert built.resources is None or built.resources.spills == built.resources.stack == 0
    assert "wgmma.mma_async" in built.ptx and "sized_tensor_map" in built.gpu


def test_a_scaled_operand_of_a_sum_of_any_length():
    text = contraction(
        {"m": 256, "n": 320, "k": K}, "km", "kn", "mn", extras=(("n", "f32"),), results=("bf16",), prologue=("i8", "%y = arith.sitofp %x : i8 to bf16"),
        body="%z = arith.addf %s, %e0 : f32\n%y0 = arith.truncf %z : f32 to bf16",
    )
    built = build(varying(text, {K: RANGE}), "wgmma", Wgmma(64, 64, 6, 1))
    assert built.resources is None or built.resources.spills == built.resources.stack == 0
    assert built.gpu.count('"inferno.launch"') == 1


def test_products_with_vectors_are_left_to_cuda_cores():
    chosen = choose(sized(M, 3072, 768, rhs="n,k"), "by_size")
    assert all(isinstance(at(chosen, m), Vectors) for m in (1, 2, 8)) and isinstance(at(chosen, M), Bf16x6)
    many = choose(sized(M, 3072, 768, rhs="n,k", ranges=(9, 8192)), "by_size")
    assert all(isinstance(s, Bf16x6) for s in schedules(many))


def test_both_sides_may_be_short():
    chosen = choose(sized(M, N, 768, rhs="n,k"), "by_size")
    assert (chosen.size, chosen.limit) == ("min(n0, n1)", 8) and isinstance(chosen.small, Vectors)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_tiles_grow_with_the_size(element):
    chosen = choose(sized(M, 3072, 768, element, rhs="n,k"), "by_size")
    tiles = [s.rows * s.width if isinstance(s, Vectors) else s.tile_m * s.tile_n for s in schedules(chosen)]
    # Of larger sizes the tiles are larger, but for the rounds that they come to.
    assert len(tiles) >= 2 and all(a < 2 * b for a, b in zip(tiles, tiles[1:])) and tiles[0] < 64 * 64 and tiles[-1] >= 128 * 128
    if element == "f32":
        assert at(chosen, M) == choose(matmul(M, 3072, 768, element, rhs="n,k"), "bf16x6")  # at the example's size
        return
    with new_context(), ir.Location.unknown():  # where the last rows' place is known, and tiles may be cut to the size
        module = ir.Module.parse(matmul(M, 3072, 768, element, rhs="n,k"))
        kernel = kernels(module)[0]
        static = [s for _, s in sorted(wgmma.candidates(kernel, parse_contraction(kernel), TARGET), key=lambda x: x[0])]
    usual = {(s.tile_m, s.tile_n) for s, _ in wgmma.CANDIDATES}
    assert at(chosen, M) == next(replace(s, inside=False) for s in static if (s.tile_m, s.tile_n) in usual and not s.swapped)


def test_the_report_says_the_ranges():
    simt, split, whole = Simt(8, 32), Bf16x6(64, 64, split=4, persistent=False), Bf16x6()
    with idle_context():
        text = str(to_attribute(BySize("min(n0, n1)", 8, simt, BySize("n0", 256, split, whole))))
    assert read_schedule(text) == ("simt or bf16x6", "min(n0, n1) <= 8: simt 8x32; n0 <= 256: bf16x6 64x64 split 4; bf16x6 128x128")


def test_one_schedule_where_no_other_is_better():
    assert isinstance(choose(sized(M, 64, 64, "bf16", ranges=(65, 256)), "by_size"), Wgmma)


def test_sizes_that_are_numbers_are_left_to_others():
    assert choose(matmul(1024, 1024, 1024), "by_size") is None


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_sums_are_split_where_they_are_long_enough(element):
    """Every block has a step at each length that its kernel is launched for."""
    text, depth = sized(128, 128, K, element, lhs="k,m", ranges=(1, 2**20)), 16 if element == "f32" else 64
    chosen = choose(text, "by_size")
    found, limits = schedules(chosen), []
    while isinstance(chosen, BySize):
        limits.append(chosen.limit)
        chosen = chosen.large
    splits = [1 if isinstance(s, Simt) else s.split for s in found]
    assert splits[0] == 1 and splits == sorted(splits) and splits[-1] > 1
    for s, split, least in zip(found, splits, [1, *(n + 1 for n in limits)]):
        if split > 1:
            assert shortest_part(ceildiv(size_of(Symbol("n", least)), depth), split) >= (s.slices if element == "f32" else 1)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        by_size.generate(kernels(module)[0], choose(text, "by_size"), TARGET)
        assert module.operation.verify()


@pytest.mark.parametrize("split", [1, 2, 3, 4, 8])
def test_the_shortest_part_of_a_sum(split):
    for least in (*range(1, 70), 1000):
        parts = [n - (split - 1) * ceildiv(n, split) for n in range(least, least + 5 * split)]
        assert shortest_part(least, split) == parts[0]
        assert shortest_part(size_of(Symbol("n", least)), split) == min(parts)


def test_offsets_that_need_more_than_32_bits():
    """2^15 * 2^17 elements are too many for offsets of 32 bits: CUDA cores have wider ones, for such sizes only."""
    chosen = choose(sized(M, 32768, 768, ranges=(1, 2**17)), "by_size")
    assert chosen.narrow and (chosen.size, chosen.limit) == ("n0 * 32768", LARGEST)
    assert isinstance(chosen.large, Simt) and any(isinstance(s, Bf16x6) for s in schedules(chosen.small))
    assert not choose(sized(M, 16384, 768, ranges=(1, 2**16)), "by_size").narrow


def test_wide_offsets_are_where_they_are_needed():
    text = sized(M, 32768, 768, "bf16", ranges=(1, 2**17))
    chosen = choose(text, "by_size")
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        by_size.generate(kernels(module)[0], chosen, TARGET)
        made = {ir.StringAttr(f.attributes["sym_name"]).value: str(f) for f in walk(module, "gpu.func", "llvm.func")}
    count = len(schedules(chosen))
    assert "i64" in made[f"mm_size{count - 1}"] and made[f"mm_size{count - 1}"].startswith("gpu.func")
    assert all("wgmma" in made[f"mm_size{i}"] for i in range(count - 1))


@pytest.mark.parametrize("schedule", [
    Bf16x6(128, 64, 4, 4),  # blocks that go on to a next tile, where a slot might change hands
    Bf16x6(64, 64, 6, 6, groups=3, slices=2, persistent=False),  # the second slice may have no step
    Bf16x6(128, 64, 4, 4, split=2, persistent=False),
])
def test_schedules_that_need_the_length_of_a_sum_are_refused(schedule):
    with pytest.raises(CompileError, match="cannot divide"):
        build(sized(1024, 768, K, lhs="k,m"), "bf16x6", schedule)


@pytest.mark.thorough
def test_kernels_for_ranges_share_a_module():
    chosen = choose(sized(M, 768, 576), "by_size")
    with idle_context(), ir.Location.unknown():
        assert from_attribute(to_attribute(chosen)) == chosen
        module = ir.Module.parse(sized(M, 768, 576))
        by_size.generate(kernels(module)[0], chosen, TARGET)
        assert module.operation.verify() and [k.name.value for k in kernels(module)] == ["mm"]
        devices = [o.operation for o in module.body.operations if o.operation.name == "gpu.module"]
        made = [ir.StringAttr(f.attributes["sym_name"]).value for f in walk(devices[0], "gpu.func", "llvm.func")]
        launched = [str(o.attributes["kernel"]) for o in walk(module, "inferno.launch")]
    assert len(devices) == 1 and sorted(launched) == sorted(f"@mm_gpu::@{name}" for name in made)
    assert {f"mm_size{i}" for i in range(len(schedules(chosen)))} <= set(made)

@pytest.mark.thorough
def test_two_products_of_a_varying_number_of_rows():
    """Every range's schedule is one that is right for any number of tiles."""
    x, w = torch.empty(300, 512, dtype=torch.bfloat16), torch.empty(1032, 512, dtype=torch.bfloat16)
    rows = torch.export.Dim("n", min=1, max=1024)
    made = inferno.compile(lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), (x, w, w), dynamic_shapes=({0: rows}, None, None), target="sm_90a")
    assert made.ir("ptx")
    (row,) = made.explain().rows
    assert "dual" in row.generator and not row.note


def test_a_convolution_by_steps_of_a_padded_image():
    """The sizes of the image are none of what is known of those of the result."""
    model = torch.nn.Conv2d(32, 64, 3, 2, 1).bfloat16().eval().requires_grad_(False)
    x = torch.randn(2, 32, 64, 64).bfloat16()
    sizes = ({2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO},)
    assert '"by_size"' in scheduled(model, (x,), dynamic_shapes=sizes)


@pytest.mark.thorough
def test_images_beyond_a_range_have_no_bound_that_needs_wide_offsets():
    """784 pixels in each of any number of images: a number of images without an upper bound has none where there are more than so many pixels."""
    model = torch.nn.Conv2d(64, 128, 3, 2, 1).bfloat16().requires_grad_(False)
    x = torch.randn(8, 64, 56, 56).bfloat16()
    compiled = inferno.compile(model, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},), target="sm_90a", fallback=False)
    found = {row.generator: row for row in compiled.explain().rows}
    assert "universal" not in found and not any(row.note for row in found.values()) and "n0 * 784" in found["im2col"].schedule


def test_no_range_is_of_nothing():
    """Five steps of each sequence: a kernel for one row would be one for none, which is no contraction."""
    side = 5 * size_of(Symbol("n", 0, LARGEST, 1, 2))
    spans = spans_of(side, lambda size: along(side, size))
    assert spans[0].limit == 8 and spans[0].points == ({next(iter(symbols_of(side))): 1},)
