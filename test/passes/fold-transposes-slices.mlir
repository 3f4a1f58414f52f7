// RUN: inferno-opt %s --pass-pipeline='fold-transposes,func.func(canonicalize,cse)' | FileCheck %s

/// Queries and keys that one transposition brings to the front: each reads its part, of which the transposition is a map.
// CHECK-LABEL: func.func @parts
// CHECK: %[[Q:.*]] = tensor.extract_slice %arg0[0, 0, 0, 0] [5, 1, 4, 8] [1, 1, 1, 1] : tensor<5x2x4x8xf32>
// CHECK: %[[K:.*]] = tensor.extract_slice %arg0[0, 1, 0, 0] [5, 1, 4, 8] [1, 1, 1, 1] : tensor<5x2x4x8xf32>
// CHECK: linalg.generic {indexing_maps = [#[[T:.*]], #[[T]], #{{.*}}], {{.*}} ins(%[[Q]], %[[K]] : tensor<5x1x4x8xf32>, tensor<5x1x4x8xf32>)
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
module attributes {inferno.expand_pieces} {
  func.func @parts(%x: tensor<5x2x4x8xf32>) -> tensor<1x4x5x8xf32> {
    %e = tensor.empty() : tensor<2x4x5x8xf32>
    %t = linalg.transpose ins(%x : tensor<5x2x4x8xf32>) outs(%e : tensor<2x4x5x8xf32>) permutation = [1, 2, 0, 3]
    %q = tensor.extract_slice %t[0, 0, 0, 0] [1, 4, 5, 8] [1, 1, 1, 1] : tensor<2x4x5x8xf32> to tensor<1x4x5x8xf32>
    %k = tensor.extract_slice %t[1, 0, 0, 0] [1, 4, 5, 8] [1, 1, 1, 1] : tensor<2x4x5x8xf32> to tensor<1x4x5x8xf32>
    %s = tensor.empty() : tensor<1x4x5x8xf32>
    %0 = linalg.add ins(%q, %k : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>) outs(%s : tensor<1x4x5x8xf32>) -> tensor<1x4x5x8xf32>
    return %0 : tensor<1x4x5x8xf32>
  }

  /// A dimension of one element in between makes no difference.
  // CHECK-LABEL: func.func @beginning
  // CHECK: %[[S:.*]] = tensor.extract_slice %arg0[2, 0] [6, 4] [1, 1] : tensor<9x4xf32> to tensor<6x4xf32>
  // CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<6x4xf32>)
  // CHECK: math.exp
  // CHECK-NOT: linalg.generic
  // CHECK: return
  func.func @beginning(%x: tensor<9x4xf32>) -> tensor<4x6xf32> {
    %e = tensor.empty() : tensor<4x9xf32>
    %t = linalg.transpose ins(%x : tensor<9x4xf32>) outs(%e : tensor<4x9xf32>) permutation = [1, 0]
    %w = tensor.expand_shape %t [[0, 1], [2]] output_shape [1, 4, 9] : tensor<4x9xf32> into tensor<1x4x9xf32>
    %q = tensor.extract_slice %w[0, 0, 2] [1, 4, 6] [1, 1, 1] : tensor<1x4x9xf32> to tensor<4x6xf32>
    %s = tensor.empty() : tensor<4x6xf32>
    %0 = linalg.exp ins(%q : tensor<4x6xf32>) outs(%s : tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}
