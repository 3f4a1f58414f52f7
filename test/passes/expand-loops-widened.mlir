// RUN: inferno-opt %s -p 'inferno-fuse' | FileCheck %s

// Scores in float32 of 16-bit queries and keys, two queries to a key: nothing is widened or repeated in memory, one kernel reads both as they are.
// CHECK-LABEL: func.func @main
// CHECK: %1 = call @batch_matmul(%expanded, %arg1, %0)
// CHECK-SAME: (tensor<3x2x2x5x8xbf16>, tensor<3x2x7x8xbf16>, tensor<3x2x2x5x7xf32>)
// CHECK-NOT: call
// CHECK: return
func.func @main(%q: tensor<3x4x5x8xbf16>, %k: tensor<3x2x7x8xbf16>) -> tensor<3x4x5x7xf32> {
  %e = tensor.empty() : tensor<3x2x2x7x8xbf16>
  %b = linalg.broadcast ins(%k : tensor<3x2x7x8xbf16>) outs(%e : tensor<3x2x2x7x8xbf16>) dimensions = [2]
  %c = tensor.collapse_shape %b [[0], [1, 2], [3], [4]] : tensor<3x2x2x7x8xbf16> into tensor<3x4x7x8xbf16>
  %f = tensor.empty() : tensor<3x4x8x7xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, d, c)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c : tensor<3x4x7x8xbf16>) outs(%f : tensor<3x4x8x7xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32
  } -> tensor<3x4x8x7xf32>
  %g = tensor.empty() : tensor<3x4x5x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q : tensor<3x4x5x8xbf16>) outs(%g : tensor<3x4x5x8xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32
  } -> tensor<3x4x5x8xf32>
  %l = tensor.collapse_shape %w [[0, 1], [2], [3]] : tensor<3x4x5x8xf32> into tensor<12x5x8xf32>
  %r = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<3x4x8x7xf32> into tensor<12x8x7xf32>
  %zero = arith.constant 0.0 : f32
  %h = tensor.empty() : tensor<12x5x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%h : tensor<12x5x7xf32>) -> tensor<12x5x7xf32>
  %s = linalg.batch_matmul ins(%l, %r : tensor<12x5x8xf32>, tensor<12x8x7xf32>) outs(%z : tensor<12x5x7xf32>) -> tensor<12x5x7xf32>
  %u = tensor.expand_shape %s [[0, 1], [2], [3]] output_shape [3, 4, 5, 7] : tensor<12x5x7xf32> into tensor<3x4x5x7xf32>
  return %u : tensor<3x4x5x7xf32>
}
