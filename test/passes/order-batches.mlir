// RUN: inferno-opt %s -p order-batches --split-input-file | FileCheck %s

#lhs = affine_map<(l, s, h, n) -> (l, h, n)>
#rhs = affine_map<(l, s, h, n) -> (s, h, n)>
#out = affine_map<(l, s, h, n) -> (l, s, h)>
#read = affine_map<(l, h, p, s) -> (l, s, h)>
#values = affine_map<(l, h, p, s) -> (s, h, p)>
#result = affine_map<(l, h, p, s) -> (l, h, p)>

// The batch lies innermost in what one product leaves for the other: it comes first.
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d0, d1)>
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK-LABEL: @main
// CHECK: %[[G:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #[[OUT]]]
// CHECK-SAME: outs(%{{.*}} : tensor<8x64x64xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[READ]],
// CHECK-SAME: ins(%[[G]], %arg2 : tensor<8x64x64xf32>, tensor<64x8x16xf32>)
func.func @main(%c: tensor<64x8x32xf32>, %b: tensor<64x8x32xf32>, %x: tensor<64x8x16xf32>) -> tensor<64x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<64x64x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<64x64x8xf32>) -> tensor<64x64x8xf32>
  %g = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%c, %b : tensor<64x8x32xf32>, tensor<64x8x32xf32>) outs(%1 : tensor<64x64x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %a = arith.addf %m, %o : f32
    linalg.yield %a : f32
  } -> tensor<64x64x8xf32>
  %2 = tensor.empty() : tensor<64x8x16xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<64x8x16xf32>) -> tensor<64x8x16xf32>
  %y = linalg.generic {indexing_maps = [#read, #values, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%g, %x : tensor<64x64x8xf32>, tensor<64x8x16xf32>) outs(%3 : tensor<64x8x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %a = arith.addf %m, %o : f32
    linalg.yield %a : f32
  } -> tensor<64x8x16xf32>
  return %y : tensor<64x8x16xf32>
}

// -----

#lhs = affine_map<(l, s, h, n) -> (l, h, n)>
#rhs = affine_map<(l, s, h, n) -> (s, h, n)>
#out = affine_map<(l, s, h, n) -> (l, s, h)>

// What the program gives back lies as it says.
// CHECK-LABEL: @main
// CHECK: outs(%{{.*}} : tensor<64x64x8xf32>)
func.func @main(%c: tensor<64x8x32xf32>, %b: tensor<64x8x32xf32>) -> tensor<64x64x8xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<64x64x8xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<64x64x8xf32>) -> tensor<64x64x8xf32>
  %g = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%c, %b : tensor<64x8x32xf32>, tensor<64x8x32xf32>) outs(%1 : tensor<64x64x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %a = arith.addf %m, %o : f32
    linalg.yield %a : f32
  } -> tensor<64x64x8xf32>
  return %g : tensor<64x64x8xf32>
}
