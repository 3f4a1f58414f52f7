"""Contractions on Hopper's tensor cores: the structure of what is emitted, and that ptxas takes it without spills."""

import re

import pytest
from contractions import contraction
from kernels import TARGET, assembled, build, choose, matmul

from inferno.errors import CompileError
from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma import candidates
from inferno.schedule.matmul.wgmma_schedule import Wgmma

ROUND = {"results": ("bf16",), "body": "%y0 = arith.truncf %s : f32 to bf16"}
TF32 = {"element": "f32", "attributes": '{inferno.precision = "tf32"}'}
GELU = """%c = arith.constant 0.70710678 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %g0 = arith.mulf %s, %c : f32
  %g1 = math.erf %g0 : f32
  %g2 = arith.addf %g1, %one : f32
  %g3 = arith.mulf %s, %half : f32
  %g4 = arith.mulf %g3, %g2 : f32
  %y0 = arith.truncf %g4 : f32 to bf16"""


def products(built) -> list[str]:
    return re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m64n\d+k\d+\.f32\.\w+)", built.ptx)


def launches(built) -> int:
    return built.gpu.count('"inferno.launch"')


def test_large_matmul():
    built = build(matmul(4096, 4096, 4096, "bf16"), "wgmma")
    assert (built.schedule.tile_m, built.schedule.tile_n, built.schedule.stages) == (128, 256, 4)
    # Four products a step, in the first step of a tile and in the loop; loads by one thread; results by matrices of 8 x 8.
    assert products(built) == ["m64n256k16.f32.bf16"] * 8
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == 1 + 4 and built.count(r"cp\.async\.bulk\.tensor\.2d\.global") == 4
    assert built.count("stmatrix") == 16 and built.count("setmaxnreg") == 2
    assert not built.accesses("global") & {"st.global.b32", "st.global.v2.b16"}
    assert launches(built) == 1 and "grid = [132, 1, 1]" in built.gpu and "block = [384, 1, 1]" in built.gpu
    assembled(built)
    if built.resources:
        assert built.resources.registers == 168


def test_relu_is_one_instruction():
    built = build(matmul(256, 256, 256, "bf16").replace(
        "%r = arith.maximumf %p, %zero : f32",
        "%cc = arith.cmpf ugt, %p, %zero : f32\n%r = arith.select %cc, %p, %zero : f32"), "wgmma")
    assert "arith.cmpf" not in built.gpu and "arith.maximumf" in built.gpu
    sums = built.schedule.tile_m * built.schedule.tile_n // (128 * built.schedule.consumers)
    assert built.count(r"max\.NaN\.f32") == sums and built.count(r"setp[.\w]*f32") == built.count(r"selp[.\w]*f32") == 0


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", [
    Wgmma(128, 256, 4, 2), Wgmma(256, 128, 4, 2), Wgmma(128, 192, 4, 2), Wgmma(128, 128, 6, 2), Wgmma(128, 64, 8, 2),
    Wgmma(64, 128, 8, 1), Wgmma(64, 64, 12, 1), Wgmma(64, 32, 12, 1), Wgmma(128, 256, 4, 2, cluster=2),
    Wgmma(64, 256, 4, 2, pingpong=True), Wgmma(128, 128, 5, 2, pingpong=True),
], ids=lambda s: f"{s.tile_m}x{s.tile_n}{'c' * (s.cluster - 1)}{'p' * s.pingpong}")
def test_no_schedule_spills(schedule):
    assert schedule.shared().total <= TARGET.shared
    text = contraction({"m": 600, "n": 520, "k": 264}, "mk", "nk", "mn", results=("bf16",), body=GELU)
    built = build(text, "wgmma", schedule)
    assembled(built)
    assert set(products(built)) == {f"m64n{schedule.tile_n}k16.f32.bf16"}
    assert (".multicast" in built.ptx) == (schedule.cluster > 1)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("schedule", [Wgmma(64, 88, 8, 1, lhs_rows=8), Wgmma(64, 24, 12, 1, lhs_rows=16, chunks=2), Wgmma(128, 160, 4, 2)],
                         ids=lambda s: f"{s.tile_m}x{s.tile_n}")
def test_any_width(schedule, layout):
    rows = schedule.lhs_rows or 200
    built = build(contraction({"m": rows, "n": 520, "k": 264}, "mk", layout, "mn", results=("bf16",), body=GELU), "wgmma", schedule)
    assembled(built)
    assert set(products(built)) == {f"m64n{schedule.tile_n}k16.f32.bf16"} and len(products(built)) == 8 * schedule.chunks
    boxes = [schedule.lhs_height, schedule.tile_n if layout == "nk" else 64 if schedule.tile_n > 32 else 32]
    assert all(f"{b}]" in built.gpu or f"[{b}, " in built.gpu for b in boxes)
    # One box of the lhs; where the columns lie together, one for each 64 of the rhs.
    panels = 1 if layout == "nk" else -(-schedule.tile_n // 64)
    assert built.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == schedule.chunks * (1 + panels)
    assert (built.count("stmatrix") > 0) == (schedule.tile_n == 160)


@pytest.mark.parametrize("n", [512, 513])
def test_rows_that_there_are_not_are_not_computed(n):
    """Of 16 rows a thread has one of the first and one of the last 8."""
    few, more = (build(contraction({"m": m, "n": n, "k": 264}, "mk", "nk", "mn", results=("bf16",), body=GELU), "wgmma", Wgmma(64, 64, 8, 1, lhs_rows=m))
                 for m in (8, 16))
    assert 2 * few.count(r"ex2\.approx") == more.count(r"ex2\.approx") > 0 and few.count("stmatrix") == more.count("stmatrix") == 4


@pytest.mark.parametrize("lhs, rhs, transposed", [("mk", "kn", (0, 1)), ("mk", "nk", (0, 0)), ("km", "kn", (1, 1)), ("km", "nk", (1, 0))])
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_layouts_are_read_as_they_are(lhs, rhs, transposed, element):
    built = build(contraction({"m": 128, "n": 128, "k": 128}, lhs, rhs, "mn", element), "wgmma")
    assert launches(built) == 1
    ends = re.findall(r"wgmma\.mma_async[^;]*, 1,\s+1,\s+(\d),\s+(\d);", built.ptx)
    assert {tuple(map(int, e)) for e in ends} == {transposed}


def test_tf32():
    built = build(contraction({"m": 1000, "n": 1000, "k": 1000}, "mk", "nk", "mn", **TF32), "wgmma")
    assert set(p.split(".", 1)[1] for p in products(built)) == {"f32.tf32"} and launches(built) == 1
    assert 'element = "tf32"' in built.gpu
    assembled(built)


def test_tf32_tiles_are_transposed_in_shared_memory():
    # The tensor core reads TF32 with k innermost only, or one factor from registers, which is what is chosen.
    text = contraction({"m": 1000, "n": 1000, "k": 1000}, "km", "nk", "mn", **TF32)
    exchanged = build(text, "wgmma", Wgmma(128, 128, 4, 2, raw=4))
    assert launches(exchanged) == 1 and exchanged.count(r"ld\.shared\.b32") > 0 and exchanged.count(r"st\.shared\.v4") > 0
    assembled(exchanged)
    chosen = choose(text, "wgmma")
    assert chosen.registers and not chosen.swapped


@pytest.mark.parametrize("element, terms", [("bf16", 1024), ("f32", 672)])
def test_tiles_that_are_rewritten_come_early(element, terms):
    """Two raw slots would let each step wait for its own copies."""
    attributes = '{inferno.precision = "tf32"}' if element == "f32" else ""
    scale = (element, f"%y = arith.addf %x, %x : {element}")
    chosen = choose(contraction({"m": 1024, "n": 512, "k": terms}, "mk", "nk", "mn", element, prologue=scale, attributes=attributes), "wgmma")
    assert not chosen.rewrite or min(chosen.raw, chosen.stages) >= 4


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("m, n, k, count", [(64, 64, 72, 1), (64, 68, 72, 2), (64, 64, 71, 2), (33, 51, 77, 3)])
def test_unaligned_operands_are_copied(m, n, k, count):
    text = contraction({"m": m, "n": n, "k": k}, "mk", "kn", "mn", **ROUND)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = kernels(module)[0]
        schedule = min(candidates(kernel, parse_contraction(kernel), TARGET), key=lambda item: item[0])[1]  # mma.sync would take some of these
    built = build(text, "wgmma", schedule)
    assert launches(built) == count and built.gpu.count("memref.alloc") == count - 1
    assert (built.count(r"cp\.async\.bulk\.tensor\.2d\.global") > 0) == (n % 8 == 0)
    assembled(built)


def test_batches_and_heads_are_dimensions_of_the_maps():
    sizes = {"b": 2, "h": 3, "m": 70, "n": 40, "k": 24}
    built = build(contraction(sizes, "bmhk", "bnhk", "bhmn", **ROUND), "wgmma")
    assert launches(built) == 1 and built.count(r"cp\.async\.bulk\.tensor\.4d\.shared") == 2
    merged = build(contraction({"b": 3, "m": 64, "n": 40, "k": 24}, "bmk", "kn", "bmn", **ROUND), "wgmma")
    assert merged.count(r"cp\.async\.bulk\.tensor\.2d\.shared") == 2


def test_sums_over_several_loops():
    built = build(contraction({"b": 2, "m": 70, "n": 40, "h": 3, "k": 24}, "bhmk", "hkn", "bmn", **ROUND), "wgmma")
    assert launches(built) == 1
    assembled(built)


def test_several_results():
    body = "%y0 = arith.truncf %s : f32 to bf16\n%y1 = arith.mulf %s, %s : f32"
    built = build(contraction({"m": 64, "n": 72, "k": 40}, "mk", "kn", "mn", results=("bf16", "f32"), body=body), "wgmma")
    assert built.count("stmatrix") > 0 and built.count(r"st\.shared\.v2\.b32") > 0
    assembled(built)


def test_few_long_sums_are_split_over_a_cluster():
    built = build(contraction({"m": 64, "n": 64, "k": 65536}, "mk", "nk", "mn", **ROUND), "wgmma")
    split = built.schedule.split
    assert split > 1 and f"cluster = [{split}, 1, 1]" in built.gpu and f".reqnctapercluster {split}" in built.ptx
    each = built.schedule.tile_m * built.schedule.tile_n // 128
    assert built.count(r"ld\.shared::cluster\.v4") == (split - 1) * each // 4 and launches(built) == 1
    assembled(built)


INT8 = ("i8", "%y = arith.sitofp %x : i8 to bf16")


@pytest.mark.parametrize("lhs", ["mk", "km"])
def test_prologues_are_applied_in_shared_memory(lhs):
    text = contraction({"m": 128, "n": 128, "k": 128}, lhs, "kn", "mn", prologue=INT8, **ROUND)
    built = build(text, "wgmma")
    assert launches(built) == 1 and 'element = "i8"' in built.gpu and built.schedule.rewrite
    # A load of 16 bytes, each converted by a permutation and a subtraction, makes two pieces.
    loads = built.count(r"ld\.shared\.v4\.b32")
    assert loads > 0 and built.count(r"st\.shared\.v4\.b32") == 2 * loads and built.count(r"prmt\.b32") >= 16 * loads
    assert not built.count(r"cvt\.\w+\.f32\.s")
    assembled(built)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("k, n, weights", [(4096, 11008, "nk"), (4096, 11008, "kn"), (336, 528, "nk")])
@pytest.mark.parametrize("convert", ["sitofp", "uitofp"])
def test_weights_of_bytes_for_few_rows(k, n, weights, convert):
    prologue = ("i8", f"%y = arith.{convert} %x : i8 to bf16")
    built = build(contraction({"m": 16, "n": n, "k": k}, weights, "mk", "mn", prologue=prologue, **ROUND), "wgmma")
    s = built.schedule
    assert (s.helpers, s.lhs_rows) == (2, 16) and s.raw == s.stages > 3 and launches(built) == 1
    assert built.count(r"ld\.shared\.v4\.b32") > 0 and not built.count(r"cvt\.\w+\.f32\.[su]")
    assembled(built)


def test_prologues_of_unaligned_tensors_are_computed_first():
    built = build(contraction({"m": 128, "n": 128, "k": 72}, "mk", "kn", "mn", prologue=INT8, **ROUND), "wgmma")
    assert launches(built) == 2 and "memref<128x72xi8>" in built.gpu
    assembled(built)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("tile", [(128, 128), (64, 64), (128, 256)])
def test_rewriting_does_not_spill(tile):
    prologue = ("f32", "%z = math.exp %x : f32\n%y = arith.truncf %z : f32 to bf16")
    text = contraction({"m": 600, "n": 520, "k": 264}, "mk", "nk", "mn", results=("bf16",), body=GELU, prologue=prologue)
    built = build(text, "wgmma", Wgmma(*tile, 2, tile[0] // 64))
    assembled(built)


def test_equal_input_equal_text():
    text = matmul(256, 256, 256, "bf16")
    assert build(text, "wgmma").gpu == build(text, "wgmma").gpu


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("tile_n, pending", [(64, [0]), (128, [1, 1]), (192, [0, 2, 1]), (256, [1, 1, 1, 1])])
def test_a_staging_buffer_is_written_when_its_last_store_has_read_it(tile_n, pending):
    """Also where that one was of the tile before: an odd number of turns uses the same buffer twice in a row."""
    built = build(matmul(2048, 2304, 128, "bf16"), "wgmma", Wgmma(128, tile_n, 4, 2))
    waits = [int(n) for n in re.findall(r"cp\.async\.bulk\.wait_group\.read\s+(\d+)", built.ptx)]
    assert waits == [*pending, 0]


def test_a_cluster_copies_whole_panels():
    """Three panels of 64 columns are no equal shares of two blocks, which would wait for each other's for ever."""
    kernel = matmul(512, 640, 256, "bf16", "m,k", "k,n")
    with pytest.raises(CompileError, match="no equal shares of 160 rows"):
        build(kernel, "wgmma", Wgmma(64, 160, 4, 2, cluster=2, pingpong=True))
    build(matmul(512, 640, 256, "bf16", "m,k", "n,k"), "wgmma", Wgmma(64, 160, 4, 2, cluster=2, pingpong=True))
