// RUN: inferno-opt %s --pass-pipeline='propagate-reshapes' --split-input-file | FileCheck %s

// A factor that only contractions read stays on their shape, where they compute it: heads of a flat row, transposed and extended.
// CHECK-LABEL: @factor
// CHECK: tensor.expand_shape %arg1
// CHECK-NEXT: tensor.empty() : tensor<12x64x512xf32>
// CHECK: arith.extf
// CHECK-NOT: expand_shape
// CHECK: linalg.batch_matmul
func.func @factor(%q: tensor<12x512x64xf32>, %k: tensor<512x768xbf16>) -> tensor<12x512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %expanded = tensor.expand_shape %k [[0], [1, 2]] output_shape [512, 12, 64] : tensor<512x768xbf16> into tensor<512x12x64xbf16>
  %e = tensor.empty() : tensor<12x64x512xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(h, d, s) -> (s, h, d)>, affine_map<(h, d, s) -> (h, d, s)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<512x12x64xbf16>) outs(%e : tensor<12x64x512xf32>) {
  ^bb0(%x: bf16, %old: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32 } -> tensor<12x64x512xf32>
  %o = tensor.empty() : tensor<12x512x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<12x512x512xf32>) -> tensor<12x512x512xf32>
  %r = linalg.batch_matmul ins(%q, %wide : tensor<12x512x64xf32>, tensor<12x64x512xf32>) outs(%f : tensor<12x512x512xf32>) -> tensor<12x512x512xf32>
  return %r : tensor<12x512x512xf32>
}

// -----

// With another reader it moves, as everything elementwise.
// CHECK-LABEL: @another_reader
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<512x768xbf16>)
// CHECK: tensor.expand_shape
func.func @another_reader(%q: tensor<12x512x64xf32>, %k: tensor<512x768xbf16>) -> (tensor<12x512x512xf32>, tensor<12x64x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %expanded = tensor.expand_shape %k [[0], [1, 2]] output_shape [512, 12, 64] : tensor<512x768xbf16> into tensor<512x12x64xbf16>
  %e = tensor.empty() : tensor<12x64x512xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(h, d, s) -> (s, h, d)>, affine_map<(h, d, s) -> (h, d, s)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<512x12x64xbf16>) outs(%e : tensor<12x64x512xf32>) {
  ^bb0(%x: bf16, %old: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32 } -> tensor<12x64x512xf32>
  %o = tensor.empty() : tensor<12x512x512xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<12x512x512xf32>) -> tensor<12x512x512xf32>
  %r = linalg.batch_matmul ins(%q, %wide : tensor<12x512x64xf32>, tensor<12x64x512xf32>) outs(%f : tensor<12x512x512xf32>) -> tensor<12x512x512xf32>
  return %r, %wide : tensor<12x512x512xf32>, tensor<12x64x512xf32>
}
