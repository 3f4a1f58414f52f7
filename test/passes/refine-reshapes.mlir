// RUN: inferno-opt -p refine-reshapes,canonicalize,cse %s --split-input-file | FileCheck %s

#all3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#words = affine_map<(d0, d1, d2) -> (d0, d2)>
#scales = affine_map<(d0, d1, d2) -> (d0, d2)>

/// Numbers of a word's bits, and scales for many of them: [256, 8] and [16, 128] are groupings of [16, 16, 8].
// CHECK-LABEL: func.func @unpacked
// CHECK-SAME: %[[W:.*]]: tensor<256x64xi32>, %[[S:.*]]: tensor<16x64xf32>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[W]] {{\[}}[0, 1], [2]] output_shape [16, 16, 64]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[E]] : tensor<16x16x64xi32>) outs({{.*}} : tensor<16x16x8x64xi32>)
// CHECK: linalg.index 2
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[S]] : tensor<16x16x8x64xi32>, tensor<16x64xf32>) outs({{.*}} : tensor<16x16x8x64xf32>)
// CHECK: %[[F:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1, 2], [3]] : tensor<16x16x8x64xf32> into tensor<16x128x64xf32>
// CHECK: return %[[F]]
func.func @unpacked(%w: tensor<256x64xi32>, %s: tensor<16x64xf32>) -> tensor<16x128x64xf32> {
  %four = arith.constant 4 : i32
  %e = tensor.empty() : tensor<256x8x64xi32>
  %o = tensor.empty() : tensor<16x128x64xf32>
  %p = linalg.generic {indexing_maps = [#words, #all3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<256x64xi32>) outs(%e : tensor<256x8x64xi32>) {
  ^bb0(%a: i32, %x: i32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.muli %j, %four : i32
    %v = arith.shrui %a, %k : i32
    linalg.yield %v : i32
  } -> tensor<256x8x64xi32>
  %c = tensor.collapse_shape %p [[0, 1], [2]] : tensor<256x8x64xi32> into tensor<2048x64xi32>
  %g = tensor.expand_shape %c [[0, 1], [2]] output_shape [16, 128, 64] : tensor<2048x64xi32> into tensor<16x128x64xi32>
  %r = linalg.generic {indexing_maps = [#all3, #scales, #all3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %s : tensor<16x128x64xi32>, tensor<16x64xf32>) outs(%o : tensor<16x128x64xf32>) {
  ^bb0(%a: i32, %b: f32, %x: f32):
    %n = arith.sitofp %a : i32 to f32
    %v = arith.mulf %n, %b : f32
    linalg.yield %v : f32
  } -> tensor<16x128x64xf32>
  return %r : tensor<16x128x64xf32>
}

// -----

#all3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

/// No sizes group to [6, 4] and to [8, 3]: 6 is no multiple of 8, and 8 none of 6.
// CHECK-LABEL: func.func @mixed
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
func.func @mixed(%x: tensor<6x4x5xf32>) -> tensor<8x3x5xf32> {
  %e = tensor.empty() : tensor<6x4x5xf32>
  %o = tensor.empty() : tensor<8x3x5xf32>
  %p = linalg.generic {indexing_maps = [#all3, #all3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x4x5xf32>) outs(%e : tensor<6x4x5xf32>) {
  ^bb0(%a: f32, %w: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<6x4x5xf32>
  %c = tensor.collapse_shape %p [[0, 1], [2]] : tensor<6x4x5xf32> into tensor<24x5xf32>
  %g = tensor.expand_shape %c [[0, 1], [2]] output_shape [8, 3, 5] : tensor<24x5xf32> into tensor<8x3x5xf32>
  %r = linalg.generic {indexing_maps = [#all3, #all3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g : tensor<8x3x5xf32>) outs(%o : tensor<8x3x5xf32>) {
  ^bb0(%a: f32, %w: f32):
    %v = arith.addf %a, %a : f32
    linalg.yield %v : f32
  } -> tensor<8x3x5xf32>
  return %r : tensor<8x3x5xf32>
}

// -----

#all3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#l = affine_map<(d0, d1, d2) -> (d0, d2)>
#r = affine_map<(d0, d1, d2) -> (d2, d1)>
#o = affine_map<(d0, d1, d2) -> (d0, d1)>
#two = affine_map<(d0, d1) -> (d0, d1)>

/// What ends a product keeps its loops.
// CHECK-LABEL: func.func @product
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
func.func @product(%x: tensor<32x16xf32>, %w: tensor<16x64xf32>) -> tensor<16x128xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<32x64xf32>) -> tensor<32x64xf32>
  %m = linalg.generic {indexing_maps = [#l, #r, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x16xf32>, tensor<16x64xf32>) outs(%f : tensor<32x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %v = arith.addf %c, %p : f32
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  %g = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<32x64xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%a: f32, %w1: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  %c = tensor.collapse_shape %g [[0, 1]] : tensor<32x64xf32> into tensor<2048xf32>
  %h = tensor.expand_shape %c [[0, 1]] output_shape [16, 128] : tensor<2048xf32> into tensor<16x128xf32>
  %o = tensor.empty() : tensor<16x128xf32>
  %r = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%h : tensor<16x128xf32>) outs(%o : tensor<16x128xf32>) {
  ^bb0(%a: f32, %w2: f32):
    %v = arith.addf %a, %a : f32
    linalg.yield %v : f32
  } -> tensor<16x128xf32>
  return %r : tensor<16x128xf32>
}
