"""What the tensor cores' schedule takes, and which tiles it picks."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from contractions import contraction
from kernels import choose, matmul

from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma import candidates
from inferno.schedule.matmul.wgmma import choose as choose_wgmma
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.spaces.wgmma import valid
from inferno.target import find_target


@pytest.mark.parametrize("size, tile", [(1024, (64, 128)), (2048, (128, 128)), (4096, (128, 256)), (8192, (128, 256))])
def test_tiles_that_were_measured_best(size, tile):
    s = choose(matmul(size, size, size, "bf16"), "wgmma")
    assert (s.tile_m, s.tile_n) == tile


@pytest.mark.parametrize("m, k, n, tile", [
    (2048, 3072, 768, (128, 96, 1)), (2048, 3584, 3584, (128, 224, 1)), (1024, 4096, 11008, (256, 112, 1)), (1, 18944, 3584, (64, 56, 2)),
    (1024, 4096, 1024, (64, 128, 1)), (1024, 3584, 512, (64, 64, 1)),
])
def test_parts_and_widths_that_were_measured_best(m, k, n, tile):
    s = choose(matmul(m, n, k, "bf16", rhs="n,k"), "wgmma")
    assert (s.tile_m, s.tile_n, s.split) == tile and s.parts == 0 and s.spread == (s.split > 1 and m > 64)


@pytest.mark.parametrize("m, k, n, tile", [
    (1024, 8192, 1024, (128, 128, 2, 2, False)), (2048, 11008, 512, (128, 128, 2, 2, True)), (256, 11008, 4096, (128, 128, 2, 1, False)),
    (512, 8192, 1024, (128, 96, 3, 1, False)),
])
def test_parts_that_come_through_the_workspace(m, k, n, tile):
    """Of few tiles with many terms; two blocks share those of the longer factor where others read them, too."""
    s = choose(matmul(m, n, k, "bf16", rhs="n,k"), "wgmma")
    assert (s.tile_m, s.tile_n, s.parts, s.cluster, s.across) == tile and s.lead == 8


@pytest.mark.parametrize("m, k, n, cluster", [(1568, 2048, 512, 4), (784, 2048, 1024, 4), (1568, 1024, 256, 1), (4096, 4096, 4096, 1)])
def test_few_rows_of_tf32_are_shared(m, k, n, cluster):
    """By blocks side by side, which all run at once."""
    text = contraction({"m": m, "n": n, "k": k}, "mk", "nk", "mn", "f32", attributes='{inferno.precision = "tf32"}')
    s = choose(text, "wgmma")
    assert (s.cluster, s.across) == (cluster, cluster > 1)


@pytest.mark.parametrize("m, k, n, tile", [(128, 4096, 4096, (128, 64, 2, True)), (256, 3072, 768, (64, 64, 2, True)), (320, 8192, 512, (128, 64, 4, False))])
def test_sums_are_sent_where_each_block_has_one_share(m, k, n, tile):
    s = choose(matmul(m, n, k, "bf16", rhs="n,k"), "wgmma")
    assert (s.tile_m, s.tile_n, s.split, s.sends) == tile and s.spread


@pytest.mark.parametrize("m, k, n, found", [
    (4, 8192, 8192, (64, 10, 1, 1)), (16, 18944, 3584, (56, 10, 2, 1)), (16, 8192, 28672, (112, 6, 1, 2)), (64, 8192, 8192, (64, 12, 1, 1)),
])
def test_few_rows_leave_room_for_other_blocks(m, k, n, found):
    """Half of the shared memory is the next kernel's, or another block's of the same; not where the rows are as many as the columns."""
    s = choose(matmul(m, n, k, "bf16", rhs="n,k"), "wgmma")
    assert (s.tile_n, s.stages, s.split, s.resident) == found
    assert (s.shared(0, s.tile_n).total <= find_target("sm_90a").shared // 2) == (m <= 16)


NARROW = "%y0 = arith.truncf %s : f32 to bf16"
ADD = """%u = arith.extf %e0 : bf16 to f32
  %t = arith.addf %s, %u : f32
  %y0 = arith.truncf %t : f32 to bf16"""
ERF = """%g = math.erf %s : f32
  %h = arith.addf %g, %s : f32
  %i = arith.mulf %h, %s : f32
  %y0 = arith.truncf %i : f32 to bf16"""


@pytest.mark.parametrize("m, k, n, body, extras, pingpong, bring", [
    (6304, 768, 3072, ERF, (), True, False), (8192, 256, 1024, NARROW, (), True, False),
    (6304, 768, 768, ADD, (("mn", "bf16"),), False, True),
    (4096, 3072, 768, ADD, (("mn", "bf16"),), False, False),
])
def test_ends_of_tiles_are_behind_products_where_they_are_long(m, k, n, body, extras, pingpong, bring, monkeypatch):
    text = contraction({"m": m, "n": n, "k": k}, "mk", "nk", "mn", results=("bf16",), extras=extras, body=body)
    assert not choose(text, "wgmma").bring
    monkeypatch.setenv("INFERNO_UNMEASURED", "1")
    chosen = choose(text, "wgmma")
    assert chosen.pingpong == pingpong and (chosen.bring > 0) == bring


@pytest.mark.parametrize("m, k, n, found", [
    (512, 4104, 4096, (256, 80, 4, True)), (3000, 3000, 3000, (128, 224, 4, False)), (512, 4112, 4096, (128, 128, 1, False)),
    (512, 4096, 4096, (128, 128, 1, False)),
])
def test_rows_that_begin_inside_of_sectors_are_brought_together(m, k, n, found):
    """Every other row of 4104 elements begins inside of 32 bytes, which takes the copy engine longer: blocks share them.  Rows of 4112 begin at sectors."""
    s = choose(matmul(m, n, k, "bf16", rhs="n,k"), "wgmma")
    assert (s.tile_m, s.tile_n, s.cluster, s.across) == found


@pytest.mark.parametrize("m, rhs, tile", [(256, "bkn", (256, 128)), (256, "bnk", (256, 128)), (512, "bnk", (128, 128))])
def test_a_factor_that_memory_brings_is_read_once(m, rhs, tile):
    """Eight times 1024 x 2048 weights take as long from memory as the products of 256 rows: one tile has all of those."""
    s = choose(contraction({"b": 8, "m": m, "n": 2048, "k": 1024}, "bmk", rhs, "bmn", "bf16", results=("bf16",), body=NARROW), "wgmma")
    assert (s.tile_m, s.tile_n, s.cluster, s.split, s.swapped) == (*tile, 1, 1, False)


def test_wide_matmul():
    s = choose(matmul(4096, 11008, 4096, "bf16"), "wgmma")
    assert (s.tile_m, s.tile_n) == (128, 256)


@pytest.mark.parametrize("m, n, k", [(64, 64, 65536), (512, 512, 8192), (16, 1024, 4096), (65, 33, 1000)])
def test_splits_leave_every_block_some_terms(m, n, k):
    s = choose(matmul(m, n, k, "bf16", rhs="n,k"), "wgmma")
    steps = -(-k // 64)
    assert s.split == 1 or (s.split - 1) * -(-steps // s.split) < steps


@pytest.mark.parametrize("m", [1, 16, 64])
def test_few_rows_get_narrow_tiles(m):
    s = choose(matmul(m, 4096, 4096, "bf16", rhs="n,k"), "wgmma")
    assert (s.tile_m, s.tile_n) == (64, 32)


def test_takes_only_what_tensor_cores_multiply():
    plain = {"m": 64, "n": 64, "k": 64}
    assert choose(matmul(64, 64, 64), "wgmma") is None  # float32 is exact unless it is marked
    assert choose(contraction(plain, "mk", "kn", "mn", "f32", attributes='{inferno.precision = "tf32"}'), "wgmma")
    assert choose(contraction(plain, "mk", "kn", "mn", "f16"), "wgmma")
    assert choose(matmul(64, 64, 64).replace("f32", "f64"), "wgmma") is None
    assert choose(matmul(64, 64, 64, "bf16").replace("arith.addf %s, %p", "arith.maximumf %s, %p"), "wgmma") is None


def test_the_mark_may_be_on_the_kernel():
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(matmul(64, 64, 64))
        kernel = kernels(module)[0]
        kernel.attributes["inferno.precision"] = ir.StringAttr.get("tf32")
        assert choose_wgmma(kernel, find_target("sm_90a")) is not None


@pytest.mark.parametrize("target", ["sm_80", "sm_100", "cpu"])
def test_only_on_hopper(target):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(matmul(64, 64, 64, "bf16"))
        assert choose_wgmma(kernels(module)[0], find_target(target)) is None


def test_dynamic_sizes_are_refused():
    text = """func.func private @mm(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>, %o: tensor<?x64xf32>) -> tensor<?x64xf32> {
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%o : tensor<?x64xf32>) -> tensor<?x64xf32>
      %0 = linalg.matmul ins(%x, %w : tensor<?x64xbf16>, tensor<64x64xbf16>) outs(%f : tensor<?x64xf32>) -> tensor<?x64xf32>
      return %0 : tensor<?x64xf32>
    }"""
    assert choose(text, "wgmma") is None


def test_an_unfolded_convolution_is_refused():
    # Rows of 33 elements break the copy engine's rule, and a copy would hold every element nine times.
    text = """func.func private @mm(%x: tensor<64x64x33x33xbf16>, %w: tensor<64x64x3x3xbf16>, %o: tensor<64x64x31x31xf32>)
        -> tensor<64x64x31x31xf32> {
      %z = arith.constant 0.0 : f32
      %f = linalg.fill ins(%z : f32) outs(%o : tensor<64x64x31x31xf32>) -> tensor<64x64x31x31xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(n,f,h,w,c,r,s) -> (n,c,h+r,w+s)>,
          affine_map<(n,f,h,w,c,r,s) -> (f,c,r,s)>, affine_map<(n,f,h,w,c,r,s) -> (n,f,h,w)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
          ins(%x, %w : tensor<64x64x33x33xbf16>, tensor<64x64x3x3xbf16>) outs(%f : tensor<64x64x31x31xf32>) {
        ^bb0(%a: bf16, %b: bf16, %t: f32):
          %l = arith.extf %a : bf16 to f32
          %r = arith.extf %b : bf16 to f32
          %q = arith.mulf %l, %r : f32
          %u = arith.addf %t, %q : f32
          linalg.yield %u : f32 } -> tensor<64x64x31x31xf32>
      return %0 : tensor<64x64x31x31xf32>
    }"""
    assert choose(text, "wgmma") is None


def test_the_attribute_round_trips():
    with idle_context():
        schedule = Wgmma(128, 128, 6, 2, cluster=2, pingpong=True)
        assert from_attribute(to_attribute(schedule)) == schedule


@pytest.mark.parametrize("m, k, n, shared", [(1024, 8192, 1024, True), (512, 8192, 1024, True), (2048, 11008, 512, True), (256, 11008, 4096, False)])
def test_tiles_and_terms_are_shared_where_all_blocks_run_at_once(m, k, n, shared):
    """An H200 runs 66 clusters of two blocks, 39 of three, 30 of four."""
    with idle_context(), ir.Location.unknown():
        module, target = ir.Module.parse(matmul(m, n, k, "bf16", rhs="n,k")), find_target("sm_90a")
        kernel = kernels(module)[0]
        found = {s for _, s in candidates(kernel, parse_contraction(kernel), target) if s.parts or s.sends}
        assert found == {s for s in found if valid(kernel, s, target)}
    for s in found:
        tiles = -(-m // (s.tile_m * s.sharing[1])) * -(-n // (s.tile_n * s.sharing[0]))
        assert tiles * max(1, s.parts) <= {1: 132, 2: 66, 3: 39, 4: 30}[s.blocks]
        assert s.cluster == 1 or (s.parts and s.across == (m > n))
    assert {(s.parts > 0, s.cluster > 1) for s in found} == {(True, False), (False, False), *([(True, True)] if shared else [])}


@pytest.mark.parametrize("m, taken", [(512, True), (640, False)])
def test_blocks_with_parts_of_the_terms_share_tiles_that_there_are(m, taken):
    """Of five tiles down two blocks share the last one with none; and those of a cluster share tiles or terms, not both."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(matmul(m, 512, 8192, "bf16", rhs="n,k"))
        alone = Wgmma(128, 128, 6, 2, persistent=False, split=2, spread=True, sends=True)
        both, dealt = replace(alone, cluster=2), Wgmma(128, 128, 6, 2, cluster=2, stream=True, parts=3, lead=8)
        found = [valid(kernels(module)[0], s, find_target("sm_90a")) for s in (alone, both, dealt)]
    assert found == [True, False, taken]
