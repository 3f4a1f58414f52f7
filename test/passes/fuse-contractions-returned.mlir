// RUN: inferno-opt %s --pass-pipeline='fuse-contractions' | FileCheck %s

/// What the program returns is in memory in any case: it is read there, not computed again for every tile.
// CHECK-LABEL: func.func @returned
// CHECK: linalg.generic
// CHECK: arith.negf
// CHECK: linalg.generic
// CHECK-NOT: arith.negf
// CHECK: arith.mulf
// CHECK: return
func.func @returned(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %e: tensor<4x16xf32>, %o: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%p: f32, %q: f32):
    %y = arith.negf %p : f32
    linalg.yield %y : f32
  } -> tensor<4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%n, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  %flat = tensor.collapse_shape %n [[0, 1]] : tensor<4x16xf32> into tensor<64xf32>
  return %m, %flat : tensor<4x8xf32>, tensor<64xf32>
}
