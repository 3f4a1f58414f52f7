// RUN: inferno-opt -p expand-patches %s --split-input-file | FileCheck %s

// Windows of 4x2 side by side: the image has a dimension for windows and one for places in each, and the bias is added afterwards.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2, d5, d3, d6)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
// CHECK-LABEL: func.func @main
// CHECK: %[[Z:.*]] = linalg.fill ins(%{{.*}} : f32)
// CHECK: %[[E:.*]] = tensor.expand_shape %arg0 {{\[\[}}0], [1], [2, 3], [4, 5]] output_shape [2, 3, 5, 4, 7, 2]
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHT]], #{{.*}}], {{.*}} ins(%[[E]], %arg1 : {{.*}}) outs(%[[Z]] :
// CHECK: linalg.generic {{.*}} ins(%[[S]], %arg2 :
// CHECK: arith.addf
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<2x3x20x14xf32>, %w: tensor<8x3x4x2xf32>, %b: tensor<2x8x5x7xf32>) -> tensor<2x8x5x7xf32> {
    %r = linalg.generic {indexing_maps = [affine_map<(n, f, y, x, c, r, s) -> (n, c, y * 4 + r, x * 2 + s)>,
        affine_map<(n, f, y, x, c, r, s) -> (f, c, r, s)>, affine_map<(n, f, y, x, c, r, s) -> (n, f, y, x)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%x, %w : tensor<2x3x20x14xf32>, tensor<8x3x4x2xf32>) outs(%b : tensor<2x8x5x7xf32>) {
    ^bb0(%a: f32, %v: f32, %old: f32):
      %p = arith.mulf %a, %v : f32
      %t = arith.addf %old, %p : f32
      linalg.yield %t : f32
    } -> tensor<2x8x5x7xf32>
    return %r : tensor<2x8x5x7xf32>
  }
}

// -----

// Windows that overlap, an image with more than the windows, and windows with gaps stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT: expand_shape
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<9xf32>, %y: tensor<11xf32>, %w: tensor<3xf32>) -> (tensor<4xf32>, tensor<3xf32>, tensor<3xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %g = tensor.empty() : tensor<3xf32>
    %h = linalg.fill ins(%zero : f32) outs(%g : tensor<3xf32>) -> tensor<3xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i * 2 + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
        iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<9xf32>, tensor<3xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%u: f32, %v: f32, %old: f32):
      %p = arith.mulf %u, %v : f32
      %t = arith.addf %old, %p : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %b = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i * 3 + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
        iterator_types = ["parallel", "reduction"]} ins(%y, %w : tensor<11xf32>, tensor<3xf32>) outs(%h : tensor<3xf32>) {
    ^bb0(%u: f32, %v: f32, %old: f32):
      %p = arith.mulf %u, %v : f32
      %t = arith.addf %old, %p : f32
      linalg.yield %t : f32
    } -> tensor<3xf32>
    %c = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i * 4 + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
        iterator_types = ["parallel", "reduction"]} ins(%y, %w : tensor<11xf32>, tensor<3xf32>) outs(%h : tensor<3xf32>) {
    ^bb0(%u: f32, %v: f32, %old: f32):
      %p = arith.mulf %u, %v : f32
      %t = arith.addf %old, %p : f32
      linalg.yield %t : f32
    } -> tensor<3xf32>
    return %a, %b, %c : tensor<4xf32>, tensor<3xf32>, tensor<3xf32>
  }
}

// -----

// The libraries of other machines take convolutions.
// CHECK-LABEL: func.func @main
// CHECK-NOT: expand_shape
func.func @main(%x: tensor<9xf32>, %w: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
  %a = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i * 3 + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<9xf32>, tensor<3xf32>) outs(%b : tensor<3xf32>) {
  ^bb0(%u: f32, %v: f32, %old: f32):
    %p = arith.mulf %u, %v : f32
    %t = arith.addf %old, %p : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %a : tensor<3xf32>
}
