// RUN: inferno-opt -p 'merge-reads{target=sm_90a}' %s | FileCheck %s

#points = affine_map<(d0, d1) -> (d1)>
#groups = affine_map<(d0, d1) -> (d0)>
#same = affine_map<(d0) -> (d0)>

/// Counts, and their running sum as other integers: what is made of the sums is read by a scan, in front of which it stays.
// CHECK-LABEL: func.func @main
// CHECK: %[[COUNTS:.*]] = call @counts
// CHECK: call @ends(%[[COUNTS]],
// CHECK: func.func private @ends(%[[ARG:.*]]: tensor<16xi64>
// CHECK: %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[ARG]] :
// CHECK: tm_tensor.scan {{.*}} ins(%[[NARROW]] :
func.func @main(%x: tensor<1024xi64>) -> tensor<16xi32> {
  %e = tensor.empty() : tensor<16xi64>
  %t = tensor.empty() : tensor<16xi32>
  %n = call @counts(%x, %e) : (tensor<1024xi64>, tensor<16xi64>) -> tensor<16xi64>
  %s = call @ends(%n, %t) : (tensor<16xi64>, tensor<16xi32>) -> tensor<16xi32>
  return %s : tensor<16xi32>
}
func.func private @counts(%x: tensor<1024xi64>, %to: tensor<16xi64>) -> tensor<16xi64> {
  %z = arith.constant 0 : i64
  %f = linalg.fill ins(%z : i64) outs(%to : tensor<16xi64>) -> tensor<16xi64>
  %n = linalg.generic {indexing_maps = [#points, #groups], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024xi64>) outs(%f : tensor<16xi64>) {
  ^bb0(%a: i64, %w: i64):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %k = arith.cmpi eq, %a, %j : i64
    %o = arith.extui %k : i1 to i64
    %v = arith.addi %o, %w : i64
    linalg.yield %v : i64
  } -> tensor<16xi64>
  return %n : tensor<16xi64>
}
func.func private @ends(%n: tensor<16xi64>, %to: tensor<16xi32>) -> tensor<16xi32> {
  %c = arith.constant 0 : i32
  %t = tensor.empty() : tensor<16xi32>
  %m = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]} ins(%n : tensor<16xi64>) outs(%t : tensor<16xi32>) {
  ^bb0(%a: i64, %w: i32):
    %v = arith.trunci %a : i64 to i32
    linalg.yield %v : i32
  } -> tensor<16xi32>
  %u = tensor.empty() : tensor<i32>
  %last = linalg.fill ins(%c : i32) outs(%u : tensor<i32>) -> tensor<i32>
  %first = linalg.fill ins(%c : i32) outs(%to : tensor<16xi32>) -> tensor<16xi32>
  %s:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%m : tensor<16xi32>) outs(%first, %last : tensor<16xi32>, tensor<i32>) {
  ^bb0(%a: i32, %b: i32):
    %v = arith.addi %a, %b : i32
    tm_tensor.yield %v : i32
  } -> tensor<16xi32>, tensor<i32>
  return %s#0 : tensor<16xi32>
}
