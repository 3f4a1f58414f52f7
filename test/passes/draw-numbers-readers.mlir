// RUN: inferno-opt -p 'draw-numbers,func.func(canonicalize,cse)' %s | FileCheck %s

// A reader that is no elementwise operation, one that reads each number several times, a result: the numbers are a tensor.  Without
// readers they are nothing.
// CHECK-LABEL: func.func @main(%arg0: tensor<i64>, %arg1: tensor<i64>) -> (tensor<f64>, tensor<2x3xi64>, tensor<7x3xf32>)
// CHECK: %[[ROW:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<i64>, tensor<i64>) outs(%{{.*}} : tensor<3xf32>)
// CHECK: %[[INTEGERS:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<i64>, tensor<i64>) outs(%{{.*}} : tensor<6xi64>)
// CHECK: arith.remui {{.*}}, %c9_i32
// CHECK: %[[N:.*]] = tensor.expand_shape %[[INTEGERS]]
// CHECK: %[[U:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<i64>, tensor<i64>) outs(%{{.*}} : tensor<5xf64>)
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]{{.*}} ins(%[[U]] : tensor<5xf64>)
// CHECK: linalg.generic {{.*}} ins(%[[ROW]] : tensor<3xf32>) outs(%{{.*}} : tensor<7x3xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
#line = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
func.func @main(
  %seed: tensor<i64>, %offset: tensor<i64>,
  %u: tensor<5xf64> {inferno.random = {base = 0 : i64, kind = "float64", offset = 1 : i64, seed = 0 : i64, span = 1 : i64, threads = 256 : i64, vector = 0 : i64}},
  %n: tensor<2x3xi64> {inferno.random = {base = -4 : i64, kind = "integer", offset = 1 : i64, seed = 0 : i64, span = 9 : i64, threads = 256 : i64, vector = 0 : i64}},
  %row: tensor<3xf32> {inferno.random = {base = 0 : i64, kind = "float32", offset = 1 : i64, seed = 0 : i64, span = 1 : i64, threads = 256 : i64, vector = 0 : i64}},
  %unread: tensor<4xf32> {inferno.random = {base = 0 : i64, kind = "float32", offset = 1 : i64, seed = 0 : i64, span = 1 : i64, threads = 256 : i64, vector = 0 : i64}}
) -> (tensor<f64>, tensor<2x3xi64>, tensor<7x3xf32>) {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<f64>
  %f = linalg.fill ins(%zero : f64) outs(%e : tensor<f64>) -> tensor<f64>
  %sum = linalg.generic {indexing_maps = [#line, #none], iterator_types = ["reduction"]} ins(%u : tensor<5xf64>) outs(%f : tensor<f64>) {
  ^bb0(%a: f64, %old: f64):
    %s = arith.addf %a, %old : f64
    linalg.yield %s : f64
  } -> tensor<f64>
  %g = tensor.empty() : tensor<7x3xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%row : tensor<3xf32>) outs(%g : tensor<7x3xf32>) {
  ^bb0(%a: f32, %out: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<7x3xf32>
  return %sum, %n, %rows : tensor<f64>, tensor<2x3xi64>, tensor<7x3xf32>
}
