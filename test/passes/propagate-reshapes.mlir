// RUN: inferno-opt %s --pass-pipeline='propagate-reshapes,func.func(canonicalize,cse)' | FileCheck %s

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#last = affine_map<(d0, d1, d2) -> (d2)>
#swap = affine_map<(d0, d1, d2) -> (d1, d0, d2)>

/// What follows an expansion is computed before it; the other operand is collapsed, which is free.
// CHECK-LABEL: func.func @after
// CHECK: %[[Y:.*]] = tensor.collapse_shape %arg1
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%arg0, %[[Y]], %arg2 : tensor<6x8xf32>, tensor<6x8xf32>, tensor<8xf32>)
// CHECK: tensor.expand_shape %[[R]]
func.func @after(%x: tensor<6x8xf32>, %y: tensor<2x3x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %e = tensor.empty() : tensor<2x3x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #last, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0, %y, %b : tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    %m = arith.mulf %s, %d : f32
    linalg.yield %m : f32
  } -> tensor<2x3x8xf32>
  return %1 : tensor<2x3x8xf32>
}

/// Loops that another operand reads in another order cannot be merged.
// CHECK-LABEL: func.func @swapped
// CHECK: tensor.expand_shape
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic
func.func @swapped(%x: tensor<6x8xf32>, %y: tensor<3x2x8xf32>) -> tensor<2x3x8xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %e = tensor.empty() : tensor<2x3x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0, %y : tensor<2x3x8xf32>, tensor<3x2x8xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<2x3x8xf32>
  return %1 : tensor<2x3x8xf32>
}

// What only widens factors is widened by the contraction: the flattening goes in front of it.
// CHECK-LABEL: func.func @widens
// CHECK: %[[A:.*]] = tensor.collapse_shape %arg0
// CHECK: linalg.generic {{.*}} ins(%[[A]] : tensor<6x4x8xbf16>)
// CHECK: arith.extf
func.func @widens(%a: tensor<2x3x4x8xbf16>, %b: tensor<6x8x5xf32>, %c: tensor<6x4x5xf32>) -> tensor<6x4x5xf32> {
  %e = tensor.empty() : tensor<2x3x4x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, j, k, l)>, affine_map<(i, j, k, l) -> (i, j, k, l)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%a : tensor<2x3x4x8xbf16>) outs(%e : tensor<2x3x4x8xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32
  } -> tensor<2x3x4x8xf32>
  %f = tensor.collapse_shape %w [[0, 1], [2], [3]] : tensor<2x3x4x8xf32> into tensor<6x4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%f, %b : tensor<6x4x8xf32>, tensor<6x8x5xf32>) outs(%c : tensor<6x4x5xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<6x4x5xf32>
  return %r : tensor<6x4x5xf32>
}
