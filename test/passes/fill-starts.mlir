// RUN: inferno-opt -p 'fill-starts,func.func(canonicalize,cse)' %s | FileCheck %s

// What a scatter begins as, and what it adds, behind a reshape; what else is one number stays a map.
// CHECK-LABEL: func.func @count
// CHECK-DAG: %[[START:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<?xf32>) -> tensor<?xf32>
// CHECK-DAG: %[[ONES:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<?x1xf32>) -> tensor<?x1xf32>
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: linalg.yield %cst
// CHECK: tm_tensor.scatter {{.*}} ins(%[[ONES]], %arg0 : {{.*}}) outs(%[[START]]
#same = affine_map<(d0) -> (d0)>
func.func @count(%places: tensor<?x1xi64>, %n: index, %m: index) -> (tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %start = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<?xf32>
  %f = tensor.empty(%m) : tensor<?xf32>
  %ones = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel"]} outs(%f : tensor<?xf32>) {
  ^bb0(%out: f32):
    linalg.yield %one : f32
  } -> tensor<?xf32>
  %column = tensor.expand_shape %ones [[0, 1]] output_shape [%m, 1] : tensor<?xf32> into tensor<?x1xf32>
  %other = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%out: f32):
    linalg.yield %one : f32
  } -> tensor<?xf32>
  %sum = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%column, %places : tensor<?x1xf32>, tensor<?x1xi64>) outs(%start : tensor<?xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %old, %new : f32
    tm_tensor.yield %s : f32
  } -> tensor<?xf32>
  return %sum, %other : tensor<?xf32>, tensor<?xf32>
}
