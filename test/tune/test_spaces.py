"""The schedules that generators declare: each one generates, and the model's choice is one of them."""

import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from contractions import contraction, varying
from kernels import TARGET, build, matmul, unary
from test_dual import dual
from window_cases import Case

from inferno.codegen.generate import generate_kernels
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import choose, generators, kernels, read_known
from inferno.schedule.attributes import ATTRIBUTE, from_attribute, to_attribute
from inferno.schedule.known import key_of
from inferno.schedule.spaces import is_valid, space_of
from inferno.target import find_target

NORM = """func.func private @norm(%x: tensor<64x4096xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x4096xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%a: f32, %s: f32):
      %t = arith.mulf %a, %a : f32
      %u = arith.addf %s, %t : f32
      linalg.yield %u : f32 } -> tensor<64xf32>
  return %r : tensor<64xf32>
}"""
COLUMNS = """func.func private @columns(%x: tensor<1000003x23xf16>, %o: tensor<23xf16>) -> tensor<23xf16> {
  %z = arith.constant 0.0 : f16
  %f = linalg.fill ins(%z : f16) outs(%o : tensor<23xf16>) -> tensor<23xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (b)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<1000003x23xf16>) outs(%f : tensor<23xf16>) {
    ^bb0(%a: f16, %s: f16):
      %u = arith.addf %s, %a : f16
      linalg.yield %u : f16 } -> tensor<23xf16>
  return %r : tensor<23xf16>
}"""
SCAN = """func.func private @scan(%x: tensor<64x4096xf32>, %o: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x4096xf32>) outs(%o, %e : tensor<64x4096xf32>, tensor<64xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tm_tensor.yield %s : f32 } -> tensor<64x4096xf32>, tensor<64xf32>
  return %r#0 : tensor<64x4096xf32>
}"""


def normed(rows, columns, first):
    """A matrix over the sums of its rows, or columns, which lie along its first dimension."""
    whole, sums, sum_, kinds = f"tensor<{rows}x{columns}xf32>", f"tensor<{columns if first else rows}xf32>", "b" if first else "a", ("parallel", "reduction")
    return f"""func.func private @normed(%x: {whole}, %o: {whole}) -> {whole} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {sums}
  %f = linalg.fill ins(%z : f32) outs(%e : {sums}) -> {sums}
  %s = linalg.generic {{indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> ({sum_})>],
      iterator_types = ["{kinds[first]}", "{kinds[not first]}"]}} ins(%x : {whole}) outs(%f : {sums}) {{
    ^bb0(%a: f32, %t: f32):
      %u = arith.addf %t, %a : f32
      linalg.yield %u : f32 }} -> {sums}
  %r = linalg.generic {{indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> ({sum_})>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x, %s : {whole}, {sums}) outs(%o : {whole}) {{
    ^bb0(%a: f32, %t: f32, %u: f32):
      %v = arith.divf %a, %t : f32
      linalg.yield %v : f32 }} -> {whole}
  return %r : {whole}
}}"""


KERNELS = {
    "bf16": (matmul(640, 512, 512, "bf16", rhs="n,k"), {"wgmma", "mma", "simt"}),
    "rounds": (matmul(4096, 4096, 256, "bf16"), {"wgmma", "mma", "simt"}),
    "rewritten": (contraction({"m": 512, "n": 260, "k": 300}, "km", "kn", "mn", "bf16"), {"wgmma", "mma", "simt", "cublaslt"}),
    "tf32": (
        contraction({"m": 256, "n": 256, "k": 512}, "mk", "kn", "mn", "f32", attributes='{inferno.precision = "tf32"}'),
        {"wgmma", "mma", "simt", "cublaslt"},
    ),
    "f32": (matmul(512, 512, 512), {"bf16x6", "simt"}),
    "f64": (matmul(65, 33, 130).replace("f32", "f64"), {"mma", "simt"}),
    "vector": (matmul(1, 300, 500), {"simt", "vectors"}),
    "short vectors": (contraction({"b": 64, "n": 500, "k": 24}, "bnk", "bk", "bn", "f32"), {"simt", "vectors", "short_vectors"}),
    "small products": (contraction({"b": 65536, "n": 3, "k": 16}, "bk", "bkn", "bn", "f32"), {"simt", "reductions", "short_vectors", "small_products"}),
    "few": (matmul(16, 1024, 512, "bf16", rhs="n,k"), {"wgmma", "mma", "simt"}),
    "dual": (dual(512, 512, 640), {"dual"}),
    "dual, columns together": (dual(512, 512, 640, "kn"), {"dual"}),
    "elementwise": (unary("%y = math.exp %x0 : f32", (1000, 1000)), {"elementwise"}),
    "sum": (NORM, {"reductions"}),
    "sum of joined rows": (COLUMNS, {"reductions"}),
    "windows": (Case((4, 96, 28, 28), (1, 1, 3, 3), padding=1).text(main=False), {"windows"}),
    "rows side by side": (normed(300, 4096, True), {"columns"}),
    "rows of all blocks": (normed(64, 1 << 20, False), {"grid_rows", "rows"}),
    "scan": (SCAN, {"scans"}),
    "scan of few rows": (SCAN.replace("4096", "4194304"), {"scans"}),
    "scan across": (SCAN.replace("dimension(1)", "dimension(0)").replace("tensor<64xf32>", "tensor<4096xf32>"), {"scans"}),
}


@contextmanager
def parsed(text):
    """The only kernel of ``text``, whose module lives as long."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        yield kernels(module)[0]
        del module


@cache
def space(text, target=TARGET):
    """The schedules of the only kernel of ``text``, with their estimates."""
    with parsed(text) as kernel:
        return space_of(kernel, target, generators(target.kind), choose(kernel, target))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", KERNELS)
def test_the_space_of_a_kernel(name):
    text, made_by = KERNELS[name]
    found = space(text)
    schedules = [s for _, s in found]
    assert len(set(schedules)) == len(found) >= 20 and made_by <= {s.generator for s in schedules}
    assert [t for t, _ in found[1:]] == sorted(t for t, _ in found[1:]) and all(0 < t < 1e5 for t, _ in found)
    with parsed(text) as kernel:
        assert schedules[0] == choose(kernel, TARGET)
        for s in schedules[:: max(1, len(schedules) // 60)]:
            assert from_attribute(to_attribute(s)) == s
            assert is_valid(kernel, s, TARGET), s
            assert read_known(kernel, str(to_attribute(s)), TARGET) == s


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", KERNELS)
def test_schedules_generate(name):
    """Every so many of them, other ones for each kernel: all of them were tried when this was written."""
    text, _ = KERNELS[name]
    schedules = [s for _, s in space(text)]
    for s in schedules[list(KERNELS).index(name) :: max(1, len(schedules) // 12)]:
        with idle_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            kernels(module)[0].attributes[ATTRIBUTE] = to_attribute(s)
            generate_kernels(module, TARGET.name)  # which verifies


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name, generator, place", [
    ("rounds", "wgmma", 150), ("f32", "bf16x6", 200), ("elementwise", "elementwise", 20),
])
def test_they_assemble_without_spills(name, generator, place):
    text, _ = KERNELS[name]
    built = build(text, generator, [s for _, s in space(text) if s.generator == generator][place])
    assert not built.resources or built.resources.spills == 0


@pytest.mark.parametrize("schedule", [
    '{generator = "wgmma", tile_n = 40 : i64}', '{generator = "wgmma", stages = 50 : i64}', '{generator = "wgmma", tile_n = "many"}',
    '{generator = "wgmma", no_such_knob = 1 : i64}', '{generator = "none"}', '{generator = "bf16x6"}', '{generator = "loops"}', "{", "", "7 : i64",
    '{generator = "wgmma", cluster = 4 : i64, tile_m = 256 : i64, tile_n = 128 : i64}',
])
def test_what_a_kernel_cannot_have_is_not_read(schedule):
    with parsed(KERNELS["bf16"][0]) as kernel:
        assert read_known(kernel, schedule, TARGET) is None
        assert read_known(kernel, str(to_attribute(choose(kernel, TARGET))), TARGET) is not None


def test_kernels_of_varying_sizes_are_the_models():
    text = varying(contraction({"m": 100, "n": 256, "k": 128}, "mk", "kn", "mn", "bf16"), {100: (1, 4096)})
    assert len(space(text)) == 1


def test_the_target_decides():
    assert {s.generator for _, s in space(KERNELS["bf16"][0], find_target("sm_80"))} == {"mma", "simt", "cublaslt"}
    assert len(space(KERNELS["bf16"][0], find_target("cpu"))) == 1


def test_the_key_is_of_what_is_computed():
    def key(text, **attributes):
        with parsed(text) as kernel:
            for name, value in attributes.items():
                kernel.attributes[f"inferno.{name}"] = ir.Attribute.parse(value)
            return key_of(kernel)

    text = KERNELS["f32"][0]
    assert key(text) == key(text.replace("@mm", "@another")) == key(text, schedule='{generator = "simt"}') == key(text, overwrites="array<i64: 0>")
    assert len({key(text), key(KERNELS["bf16"][0]), key(matmul(512, 512, 513)), key(text, precision='"tf32"')}) == 4
