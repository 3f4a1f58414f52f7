"""Rolled steps whose states are read one by one outside of them."""

from inferno.mlir import parse, walk
from inferno.passes.manager import run_pipeline
from inferno.schedule.passes import roll_steps

_TEXT = """
#h = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d2, d1)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>
!s = tensor<4x16xf32>
!o = tensor<4x8xf32>
func.func @main(%h: !s, %c: !s, %w: tensor<16x16xf32>, %v: tensor<16x8xf32>) -> (!o, !o, !o, !s) {
  %e = tensor.empty() : !s
  %f = tensor.empty() : !o
  %0 = call @product(%h, %w, %e) : (!s, tensor<16x16xf32>, !s) -> !s
  %c1 = call @first(%0, %h, %c, %e) : (!s, !s, !s, !s) -> !s
  %h1 = call @second(%c1, %h, %e) : (!s, !s, !s) -> !s
  %o1 = call @read(%h1, %v, %f) : (!s, tensor<16x8xf32>, !o) -> !o
  %1 = call @product(%h1, %w, %e) : (!s, tensor<16x16xf32>, !s) -> !s
  %c2 = call @first(%1, %h1, %c1, %e) : (!s, !s, !s, !s) -> !s
  %h2 = call @second(%c2, %h1, %e) : (!s, !s, !s) -> !s
  %o2 = call @read(%h2, %v, %f) : (!s, tensor<16x8xf32>, !o) -> !o
  %2 = call @product(%h2, %w, %e) : (!s, tensor<16x16xf32>, !s) -> !s
  %c3 = call @first(%2, %h2, %c2, %e) : (!s, !s, !s, !s) -> !s
  %h3 = call @second(%c3, %h2, %e) : (!s, !s, !s) -> !s
  %o3 = call @read(%h3, %v, %f) : (!s, tensor<16x8xf32>, !o) -> !o
  return %o1, %o2, %o3, %c3 : !o, !o, !o, !s
}
func.func private @product(%h: !s, %w: tensor<16x16xf32>, %out: !s) -> !s {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : !s) -> !s
  %0 = linalg.generic {indexing_maps = [#h, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h, %w : !s, tensor<16x16xf32>) outs(%start : !s) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> !s
  return %0 : !s
}
func.func private @read(%h: !s, %w: tensor<16x8xf32>, %out: !o) -> !o {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : !o) -> !o
  %0 = linalg.generic {indexing_maps = [#h, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h, %w : !s, tensor<16x8xf32>) outs(%start : !o) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> !o
  return %0 : !o
}
func.func private @first(%s: !s, %h: !s, %c: !s, %out: !s) -> !s {
  %0 = linalg.generic {indexing_maps = [#p, #p, #p, #p], iterator_types = ["parallel", "parallel"]} ins(%s, %h, %c : !s, !s, !s) outs(%out : !s) {
  ^bb0(%a: f32, %b: f32, %d: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    %2 = math.tanh %1 : f32
    %3 = arith.addf %2, %d : f32
    linalg.yield %3 : f32
  } -> !s
  return %0 : !s
}
func.func private @second(%c: !s, %h: !s, %out: !s) -> !s {
  %0 = linalg.generic {indexing_maps = [#p, #p, #p], iterator_types = ["parallel", "parallel"]} ins(%c, %h : !s, !s) outs(%out : !s) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.mulf %a, %b : f32
    linalg.yield %1 : f32
  } -> !s
  return %0 : !s
}
"""


def test_only_states_that_others_read_are_copied(monkeypatch):
    """The copies of %h1 to %h3 are given to the steps as well, which are replaced all the same: that makes no others of them."""
    copied, copy = [], roll_steps._Roll.copy

    def counted(roll, value, whole, place, call):
        copied.append((value.owner.attributes["callee"].value, place))
        return copy(roll, value, whole, place, call)

    monkeypatch.setattr(roll_steps._Roll, "copy", counted)
    module = parse(_TEXT)
    run_pipeline(module, "roll-steps{target=sm_90a always=1}")
    assert copied == [("second", 1), ("second", 2), ("second", 3), ("first", 3)]
    assert sum(c.attributes["callee"].value.startswith("extract_slice") for c in walk(module, "func.call")) == 4
