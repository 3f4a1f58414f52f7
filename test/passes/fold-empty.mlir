// RUN: inferno-opt %s --pass-pipeline='fold-empty,func.func(canonicalize)' | FileCheck %s

/// A matmul over nothing is what its sum starts from; one over something stays.
// CHECK-LABEL: func.func @nothing
// CHECK-NOT: linalg.matmul
// CHECK: return %arg2
// CHECK-LABEL: func.func @something
// CHECK: linalg.matmul
func.func @nothing(%x: tensor<4x0xf32>, %w: tensor<0x8xf32>, %f: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %m = linalg.matmul ins(%x, %w : tensor<4x0xf32>, tensor<0x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}
func.func @something(%x: tensor<4x2xf32>, %w: tensor<2x8xf32>, %f: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %m = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}
