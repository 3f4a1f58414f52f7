// RUN: inferno-opt -p 'draw-numbers,func.func(canonicalize,cse)' %s | FileCheck %s

// Numbers of attention's scores are functions of the seed and of three places: of the head, which is 4 * batch + head, of the query and of the key.
// CHECK-LABEL: func.func @main(%arg0: tensor<i64>, %arg1: tensor<8x32x48xf32>)
// Where nothing else is read with them, they are a tensor of their own, in front.
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<i64>) outs(%{{.*}} : tensor<2x4x32x48xf32>)
// CHECK: linalg.generic {{.*}} ins(%arg1, %arg0 : tensor<8x32x48xf32>, tensor<i64>)
// CHECK-DAG: %[[HEAD:.*]] = linalg.index 0
// CHECK-DAG: %[[QUERY:.*]] = linalg.index 1
// CHECK-DAG: %[[KEY:.*]] = linalg.index 2
// CHECK-DAG: arith.index_cast %[[HEAD]] : index to i32
// CHECK-DAG: arith.index_cast %[[QUERY]] : index to i32
// CHECK-DAG: arith.index_cast %[[KEY]] : index to i32
// Seven rounds of two products, of which each is two operations.
// CHECK-COUNT-28: arith.muli
// CHECK: arith.uitofp
#same = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @main(
  %seed: tensor<i64>,
  %n: tensor<2x4x32x48xf32> {inferno.random = {base = 0 : i64, kind = "scores", offset = 0 : i64, seed = 0 : i64, span = 1 : i64, threads = 0 : i64, vector = 0 : i64}},
  %x: tensor<8x32x48xf32>,
  %m: tensor<2x4x32x48xf32> {inferno.random = {base = 0 : i64, kind = "scores", offset = 0 : i64, seed = 0 : i64, span = 1 : i64, threads = 0 : i64, vector = 0 : i64}}
) -> (tensor<8x32x48xf32>, tensor<2x4x32x48xf32>) {
  %w = tensor.collapse_shape %n [[0, 1], [2], [3]] : tensor<2x4x32x48xf32> into tensor<8x32x48xf32>
  %e = tensor.empty() : tensor<8x32x48xf32>
  %sum = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %x : tensor<8x32x48xf32>, tensor<8x32x48xf32>) outs(%e : tensor<8x32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x32x48xf32>
  return %sum, %m : tensor<8x32x48xf32>, tensor<2x4x32x48xf32>
}
