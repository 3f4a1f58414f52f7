// RUN: inferno-opt %s -p 'negate-terms' | FileCheck %s

#rows = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// What is taken off is added up negated, in whatever type.
// CHECK-LABEL: @sums
// CHECK: ^bb0(%[[A:.*]]: f32, %[[O:.*]]: f32)
// CHECK: %[[N:.*]] = arith.negf %[[A]]
// CHECK: %[[S:.*]] = arith.addf %[[O]], %[[N]]
// CHECK: linalg.yield %[[S]]
// CHECK: ^bb0(%[[A:.*]]: f32, %[[O:.*]]: bf16)
// CHECK: %[[W:.*]] = arith.extf %[[O]]
// CHECK: %[[N:.*]] = arith.negf %[[A]]
// CHECK: %[[S:.*]] = arith.addf %[[W]], %[[N]]
// CHECK: arith.truncf %[[S]]
func.func @sums(%x: tensor<8x16xf32>, %s: tensor<8xf32>, %t: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xbf16>) {
  %0 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x16xf32>) outs(%s : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.subf %o, %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x16xf32>) outs(%t : tensor<8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %w = arith.extf %o : bf16 to f32
    %v = arith.subf %w, %a : f32
    %r = arith.truncf %v : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<8xbf16>
  return %0, %1 : tensor<8xf32>, tensor<8xbf16>
}

// A difference whose sign changes with each term, or that takes something off terms, is no such sum.
// CHECK-LABEL: @others
// CHECK-NOT: arith.negf
// CHECK: return
func.func @others(%x: tensor<8x16xf32>, %s: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x16xf32>) {
  %0 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x16xf32>) outs(%s : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.subf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %1 = linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<8x16xf32>, tensor<8xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<8x16xf32>
  return %0, %1 : tensor<8xf32>, tensor<8x16xf32>
}
