// RUN: inferno-opt -p expand-groups %s | FileCheck %s

// The image is expanded in front of its padding, and the epilogue has a loop for groups and one for the channels of a group; the flat result is a view.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{\[\[}}0], [1], [2, 3]] output_shape [2, 9, 4, 3]
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 1, 0, 0] high[0, 2, 0, 0]
// CHECK: linalg.generic {{.*}} ins(%[[P]], %arg1 :
// CHECK: inferno.convolution
// CHECK: %[[B:.*]] = tensor.expand_shape %arg2 {{\[\[}}0, 1]] output_shape [4, 5]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[B]] : tensor<2x10x4x5xf32>, tensor<4x5xf32>)
// CHECK: %[[V:.*]] = tensor.collapse_shape %[[Y]] {{\[\[}}0], [1], [2, 3]]
// CHECK: return %[[V]]
#all = affine_map<(n, y, c) -> (n, y, c)>
func.func @main(%x: tensor<2x9x12xf32>, %w: tensor<4x5x3x3xf32>, %b: tensor<20xf32>) -> tensor<2x10x20xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 0] high[0, 2, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<2x9x12xf32> to tensor<2x12x12xf32>
  %g = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [2, 12, 4, 3] : tensor<2x12x12xf32> into tensor<2x12x4x3xf32>
  %e = tensor.empty() : tensor<2x10x4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x10x4x5xf32>) -> tensor<2x10x4x5xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, y, g, f, r, c) -> (n, y + r, g, c)>, affine_map<(n, y, g, f, r, c) -> (g, f, r, c)>,
      affine_map<(n, y, g, f, r, c) -> (n, y, g, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%g, %w : tensor<2x12x4x3xf32>, tensor<4x5x3x3xf32>) outs(%f : tensor<2x10x4x5xf32>) {
  ^bb0(%a: f32, %v: f32, %old: f32):
    %q = arith.mulf %a, %v {inferno.convolution} : f32
    %t = arith.addf %old, %q : f32
    linalg.yield %t : f32
  } -> tensor<2x10x4x5xf32>
  %flat = tensor.collapse_shape %s [[0], [1], [2, 3]] : tensor<2x10x4x5xf32> into tensor<2x10x20xf32>
  %o = tensor.empty() : tensor<2x10x20xf32>
  %y = linalg.generic {indexing_maps = [#all, affine_map<(n, y, c) -> (c)>, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%flat, %b : tensor<2x10x20xf32>, tensor<20xf32>) outs(%o : tensor<2x10x20xf32>) {
  ^bb0(%a: f32, %v: f32, %old: f32):
    %t = arith.addf %a, %v : f32
    linalg.yield %t : f32
  } -> tensor<2x10x20xf32>
  return %y : tensor<2x10x20xf32>
}
