"""Readers of what is stored in 16 bits: one that reads it as it is and reshaped is made anew for each."""

from erased_handles import erased_kept

from inferno.mlir import ir, parse, walk
from inferno.passes.manager import run_pipeline

_TEXT = """
#point = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (b)>
func.func @main(%x: tensor<1x8xbf16>, %s: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %e = tensor.empty() : tensor<1x8xf32>
  %t = linalg.generic {indexing_maps = [#point, #point], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x8xbf16>) outs(%e : tensor<1x8xf32>) {
  ^bb0(%v: bf16, %o: f32):
    %n = arith.negf %v : bf16
    %w = arith.extf %n : bf16 to f32
    linalg.yield %w : f32
  } -> tensor<1x8xf32>
  %v = tensor.collapse_shape %t [[0, 1]] : tensor<1x8xf32> into tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#point, #row, #point], iterator_types = ["parallel", "parallel"]}
      ins(%t, %v : tensor<1x8xf32>, tensor<8xf32>) outs(%s : tensor<1x8xf32>) {
  ^bb0(%y: f32, %z: f32, %o: f32):
    %q = arith.addf %y, %z : f32
    linalg.yield %q : f32
  } -> tensor<1x8xf32>
  return %r : tensor<1x8xf32>
}
"""


def test_who_reads_a_value_and_a_view_of_it_is_made_anew_for_both():
    for again in (False, True):  # the second time the view is the first one of the value's users
        with erased_kept():
            module = parse(_TEXT)
            if again:
                first = walk(module, "linalg.generic")[0]
                with module.context, ir.InsertionPoint(first):
                    other = first.clone()
                first.results[0].replace_all_uses_with(other.results[0])
                first.erase()
            run_pipeline(module, "narrow-intermediates")
            stored, last = walk(module, "linalg.generic")
            assert str(stored.results[0].type) == "tensor<1x8xbf16>"
            assert [str(v.type) for v in last.operands] == ["tensor<1x8xbf16>", "tensor<8xbf16>", "tensor<1x8xf32>"]
