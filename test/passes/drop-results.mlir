// RUN: inferno-opt -p drop-results %s --split-input-file | FileCheck %s

// The largest element and its place, which nothing reads.
// CHECK-LABEL: @largest
// CHECK: %[[R:.*]] = linalg.generic
// CHECK-SAME: outs(%{{.*}} : tensor<8xf32>)
// CHECK-NOT: linalg.index
// CHECK: arith.maximumf
// CHECK: linalg.yield %{{.*}} : f32
// CHECK: return %[[R]]
func.func @largest(%x: tensor<8x100xf32>, %m: tensor<8xf32>, %p: tensor<8xi64>) -> tensor<8xf32> {
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x100xf32>) outs(%m, %p : tensor<8xf32>, tensor<8xi64>) {
  ^bb0(%v: f32, %old: f32, %place: i64):
    %n = linalg.index 1 : index
    %i = arith.index_cast %n : index to i64
    %y = arith.maximumf %v, %old : f32
    %c = arith.cmpf ogt, %v, %old : f32
    %q = arith.select %c, %i, %place : i64
    linalg.yield %y, %q : f32, i64
  } -> (tensor<8xf32>, tensor<8xi64>)
  return %r#0 : tensor<8xf32>
}

// -----

// The place depends on the largest element so far: both stay.
// CHECK-LABEL: @place
// CHECK: linalg.yield %{{.*}}, %{{.*}} : f32, i64
func.func @place(%x: tensor<8x100xf32>, %m: tensor<8xf32>, %p: tensor<8xi64>) -> tensor<8xi64> {
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x100xf32>) outs(%m, %p : tensor<8xf32>, tensor<8xi64>) {
  ^bb0(%v: f32, %old: f32, %place: i64):
    %n = linalg.index 1 : index
    %i = arith.index_cast %n : index to i64
    %y = arith.maximumf %v, %old : f32
    %c = arith.cmpf ogt, %v, %old : f32
    %q = arith.select %c, %i, %place : i64
    linalg.yield %y, %q : f32, i64
  } -> (tensor<8xf32>, tensor<8xi64>)
  return %r#1 : tensor<8xi64>
}

// -----

// Two maps in one, of which the first alone is read.
// CHECK-LABEL: @maps
// CHECK: math.exp
// CHECK-NOT: math.log
// CHECK: linalg.yield %{{.*}} : f32
func.func @maps(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  %r:2 = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e, %e : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%v: f32, %old: f32, %older: f32):
    %y = math.exp %v : f32
    %z = math.log %v : f32
    linalg.yield %y, %z : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  return %r#0 : tensor<8xf32>
}
