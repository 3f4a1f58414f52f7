// RUN: inferno-opt %s -p restore-batches | FileCheck %s

#x = affine_map<(y, x, f, r, s, c) -> (y + r, x + s, c)>
#w = affine_map<(y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(y, x, f, r, s, c) -> (y, x, f)>
#b = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#v = affine_map<(n, x, f, s, c) -> (f, s, c)>
#p = affine_map<(n, x, f, s, c) -> (n, x, f)>

// The image of one, padded, is a batch; the result may stay as it is.
// CHECK: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (0, d0 + d3, d1 + d4, d5)>
// CHECK-LABEL: @one
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<4x4x8xf32> into tensor<1x4x4x8xf32>
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], {{.*}} ins(%[[P]], %arg1 : tensor<1x6x6x8xf32>, tensor<16x3x3x8xf32>) outs(%{{.*}} : tensor<4x4x16xf32>)
func.func @one(%x: tensor<4x4x8xf32>, %w: tensor<16x3x3x8xf32>, %o: tensor<4x4x16xf32>) -> tensor<4x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1, 1, 0] high[1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<4x4x8xf32> to tensor<6x6x8xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : tensor<6x6x8xf32>, tensor<16x3x3x8xf32>) outs(%o : tensor<4x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %1 = arith.mulf %a, %b {inferno.convolution} : f32
    %2 = arith.addf %c, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x4x16xf32>
  return %0 : tensor<4x4x16xf32>
}

// A batch of them stays.
// CHECK-LABEL: @batch
// CHECK-NOT: tensor.expand_shape
func.func @batch(%x: tensor<2x6x8xf32>, %w: tensor<16x3x8xf32>, %o: tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  %0 = linalg.generic {indexing_maps = [#b, #v, #p], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<2x6x8xf32>, tensor<16x3x8xf32>) outs(%o : tensor<2x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %1 = arith.mulf %a, %b {inferno.convolution} : f32
    %2 = arith.addf %c, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<2x4x16xf32>
  return %0 : tensor<2x4x16xf32>
}
