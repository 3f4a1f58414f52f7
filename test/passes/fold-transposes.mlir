// RUN: inferno-opt %s --pass-pipeline='fold-transposes,func.func(canonicalize,cse)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

/// The transposed weight of a matmul is read by another map.
// CHECK: #[[W:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: func.func @matmul
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[W]], #{{.*}}]
// CHECK-SAME: ins(%{{.*}}, %arg1
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @matmul(%x: tensor<4x16xf32>, %w: tensor<8x16xf32>, %f: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %t0 = tensor.empty() : tensor<16x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x16xf32>) outs(%t0 : tensor<16x8xf32>) permutation = [1, 0]
  %m = linalg.matmul ins(%x, %t : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

/// Where the moved tensor itself is wanted, it is still made.
// CHECK-LABEL: func.func @returned
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK: return
func.func @returned(%x: tensor<4x16xf32>, %w: tensor<8x16xf32>, %f: tensor<4x8xf32>) -> (tensor<16x8xf32>, tensor<4x8xf32>) {
  %t0 = tensor.empty() : tensor<16x8xf32>
  %t = linalg.transpose ins(%w : tensor<8x16xf32>) outs(%t0 : tensor<16x8xf32>) permutation = [1, 0]
  %m = linalg.matmul ins(%x, %t : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %t, %m : tensor<16x8xf32>, tensor<4x8xf32>
}

/// Sizes that are not known are left alone.
// CHECK-LABEL: func.func @dynamic
// CHECK-COUNT-2: linalg.generic
func.func @dynamic(%w: tensor<?x16xf32>, %t0: tensor<16x?xf32>, %e: tensor<16x?xf32>) -> tensor<16x?xf32> {
  %t = linalg.transpose ins(%w : tensor<?x16xf32>) outs(%t0 : tensor<16x?xf32>) permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<16x?xf32>) outs(%e : tensor<16x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<16x?xf32>
  return %0 : tensor<16x?xf32>
}
