// RUN: inferno-opt %s -p split-concats,sink-gathers | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// A layer of both nodes of each edge is two products of the nodes, of which each edge adds up two rows.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<5000x64xf32>, %[[W:.*]]: tensor<128x32xf32>
// CHECK-NOT: tensor.concat
// CHECK: %[[A:.*]] = tensor.extract_slice %[[W]][0, 0] [64, 32] [1, 1]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[A]] : tensor<5000x64xf32>, tensor<64x32xf32>)
// CHECK: tensor.extract %[[P]]
// CHECK: %[[B:.*]] = tensor.extract_slice %[[W]][64, 0] [64, 32] [1, 1]
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[B]] : tensor<5000x64xf32>, tensor<64x32xf32>)
// CHECK: tensor.extract %[[Q]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<100000x32xf32>, tensor<100000x32xf32>)
// CHECK: return %[[Y]]
func.func @main(%x: tensor<5000x64xf32>, %w: tensor<128x32xf32>, %s: tensor<100000xi64>, %d: tensor<100000xi64>) -> tensor<100000x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<100000x64xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<100000xi64>) outs(%e : tensor<100000x64xf32>) {
  ^bb0(%n: i64, %old: f32):
    %r = arith.index_cast %n : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<5000x64xf32>
    linalg.yield %v : f32
  } -> tensor<100000x64xf32>
  %h = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<100000xi64>) outs(%e : tensor<100000x64xf32>) {
  ^bb0(%n: i64, %old: f32):
    %r = arith.index_cast %n : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<5000x64xf32>
    linalg.yield %v : f32
  } -> tensor<100000x64xf32>
  %both = tensor.concat dim(1) %g, %h : (tensor<100000x64xf32>, tensor<100000x64xf32>) -> tensor<100000x128xf32>
  %m = tensor.empty() : tensor<100000x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<100000x32xf32>) -> tensor<100000x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%both, %w : tensor<100000x128xf32>, tensor<128x32xf32>) outs(%z : tensor<100000x32xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %sum, %p : f32
    linalg.yield %t : f32
  } -> tensor<100000x32xf32>
  return %y : tensor<100000x32xf32>
}
