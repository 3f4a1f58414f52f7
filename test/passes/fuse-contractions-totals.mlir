// RUN: inferno-opt %s -p 'fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s

#all = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
#one = affine_map<() -> ()>

// What is made of a total and of another number stays behind it, for the total is cut for all processors; of the total alone it is its end.
// CHECK-LABEL: @total
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]
// CHECK-NOT: arith.divf
// CHECK: linalg.generic {{.*}}iterator_types = []
// CHECK: arith.divf
func.func @total(%x: tensor<4096xf32>, %y: tensor<4096xf32>, %n: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %0 = linalg.generic {indexing_maps = [#all, #all, #none], iterator_types = ["reduction"]} ins(%x, %y : tensor<4096xf32>, tensor<4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %v = arith.addf %s, %p : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = []} ins(%0, %n : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %1 : tensor<f32>
}

// CHECK-LABEL: @scaled_total
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]
// CHECK: arith.divf
// CHECK-NOT: linalg.generic
func.func @scaled_total(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %0 = linalg.generic {indexing_maps = [#all, #all, #none], iterator_types = ["reduction"]} ins(%x, %y : tensor<4096xf32>, tensor<4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %v = arith.addf %s, %p : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [#one, #one], iterator_types = []} ins(%0 : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %s: f32):
    %v = arith.divf %a, %n : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %1 : tensor<f32>
}
