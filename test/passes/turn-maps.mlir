// RUN: inferno-opt -p turn-maps %s --split-input-file | FileCheck %s

#ijk = affine_map<(i, j, k) -> (i, j, k)>
#jik = affine_map<(i, j, k) -> (j, i, k)>

// A map and a sum go over rows of what is made in another order: it is made so, and they read it as they go.
// CHECK-DAG: #[[SAME:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[TURNED:.*]] = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
// CHECK-LABEL: func.func @rows
// CHECK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[TURNED]], #[[TURNED]], #[[SAME]]]{{.*}} outs(%{{.*}} : tensor<3x2x16xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[SAME]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[P]] : tensor<3x2x16xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[SAME]], #[[SAME]]]{{.*}} ins(%[[P]] : tensor<3x2x16xf32>)
func.func @rows(%x: tensor<2x3x16xf32>, %y: tensor<2x3x16xf32>, %o: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2x16xf32>) {
  %e = tensor.empty() : tensor<2x3x16xf32>
  %p = linalg.generic {indexing_maps = [#ijk, #ijk, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %y : tensor<2x3x16xf32>, tensor<2x3x16xf32>) outs(%e : tensor<2x3x16xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x3x16xf32>
  %s = linalg.generic {indexing_maps = [#jik, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p : tensor<2x3x16xf32>) outs(%o : tensor<3x2xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.addf %a, %old : f32
    linalg.yield %v : f32
  } -> tensor<3x2xf32>
  %f = tensor.empty() : tensor<3x2x16xf32>
  %q = linalg.generic {indexing_maps = [#jik, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x3x16xf32>) outs(%f : tensor<3x2x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<3x2x16xf32>
  return %s, %q : tensor<3x2xf32>, tensor<3x2x16xf32>
}

// -----

#ijk = affine_map<(i, j, k) -> (i, j, k)>
#jik = affine_map<(i, j, k) -> (j, i, k)>

// One of them goes over it as it is made.
// CHECK-LABEL: func.func @both
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x16xf32>)
func.func @both(%x: tensor<2x3x16xf32>) -> (tensor<2x3x16xf32>, tensor<3x2x16xf32>) {
  %e = tensor.empty() : tensor<2x3x16xf32>
  %p = linalg.generic {indexing_maps = [#ijk, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x3x16xf32>) outs(%e : tensor<2x3x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<2x3x16xf32>
  %r = linalg.generic {indexing_maps = [#ijk, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x3x16xf32>) outs(%e : tensor<2x3x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<2x3x16xf32>
  %f = tensor.empty() : tensor<3x2x16xf32>
  %q = linalg.generic {indexing_maps = [#jik, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x3x16xf32>) outs(%f : tensor<3x2x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<3x2x16xf32>
  return %r, %q : tensor<2x3x16xf32>, tensor<3x2x16xf32>
}

// -----

#ijk = affine_map<(i, j, k) -> (i, j, k)>
#jik = affine_map<(i, j, k) -> (j, i, k)>

// Lines are too short.
// CHECK-LABEL: func.func @short
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x8xf32>)
func.func @short(%x: tensor<2x3x8xf32>) -> (tensor<3x2x8xf32>, tensor<3x2x8xf32>) {
  %e = tensor.empty() : tensor<2x3x8xf32>
  %p = linalg.generic {indexing_maps = [#ijk, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x3x8xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<2x3x8xf32>
  %f = tensor.empty() : tensor<3x2x8xf32>
  %r = linalg.generic {indexing_maps = [#jik, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x3x8xf32>) outs(%f : tensor<3x2x8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<3x2x8xf32>
  %q = linalg.generic {indexing_maps = [#jik, #ijk], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x3x8xf32>) outs(%f : tensor<3x2x8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<3x2x8xf32>
  return %r, %q : tensor<3x2x8xf32>, tensor<3x2x8xf32>
}
