// RUN: inferno-opt %s -p split-frozen --split-input-file | FileCheck %s

// Batch norm: the reciprocal root of the variance, for each channel, comes in front; the mean is read as it is.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[MEAN:.*]]: tensor<8xf32> {inferno.frozen}, %[[VAR:.*]]: tensor<8xf32> {inferno.frozen}
// CHECK: %[[R:.*]] = linalg.generic {{.*}}["parallel"]} ins(%[[VAR]] : tensor<8xf32>)
// CHECK: arith.addf
// CHECK-NEXT: math.rsqrt
// CHECK-NEXT: linalg.yield
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[MEAN]], %[[VAR]], %[[R]] : {{.*}} attrs = {kept} {
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32, %[[D:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[E:.*]] = arith.subf %[[A]], %[[B]]
// CHECK-NEXT: arith.mulf %[[E]], %[[D]]
// CHECK-NEXT: linalg.yield
#both = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<4x8xf32>, %mean: tensor<8xf32> {inferno.frozen}, %var: tensor<8xf32> {inferno.frozen}) -> tensor<4x8xf32>
    attributes {inferno.freeze = 1024 : i64} {
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#both, #row, #row, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %mean, %var : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) attrs = {kept} {
  ^bb0(%a: f32, %b: f32, %v: f32, %o: f32):
    %1 = arith.addf %v, %eps : f32
    %2 = math.rsqrt %1 : f32
    %3 = arith.subf %a, %b : f32
    %4 = arith.mulf %3, %2 : f32
    linalg.yield %4 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// The outer product of two weights would be larger than both, an index is no weight, and a widened number takes more memory.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
#both = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#column = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<4x8xf32>, %v: tensor<4xf32> {inferno.frozen}, %w: tensor<8xf32> {inferno.frozen}, %h: tensor<8xbf16> {inferno.frozen})
    -> tensor<4x8xf32> attributes {inferno.freeze = 1024 : i64} {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#both, #column, #row, #row, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %v, %w, %h : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xbf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: bf16, %o: f32):
    %1 = arith.mulf %b, %c : f32
    %2 = arith.addf %a, %1 : f32
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %3 = arith.addf %k, %2 : f32
    %l = arith.extf %d : bf16 to f32
    %4 = arith.addf %3, %l : f32
    linalg.yield %4 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
