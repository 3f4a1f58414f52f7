// RUN: inferno-opt -p 'split-totals{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'split-totals{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> ()>

// A total of what is below the largest of each row: of rows, and of these.
// CHECK-LABEL: func.func @main
// CHECK: %[[L:.*]] = call @largest(%arg0, %{{.*}})
// CHECK: %[[R:.*]] = call @[[ROWS:total_[0-9]+]](%arg0, %[[L]], %{{.*}}) {inferno.source = ["total"]} : {{.*}} -> tensor<4096xf32>
// CHECK: %[[T:.*]] = call @[[ALL:total_[0-9]+]](%[[R]], %{{.*}}) {inferno.source = ["total"]} : {{.*}} -> tensor<f32>
// CHECK: return %[[T]]
// CHECK: func.func private @[[ROWS]]
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: func.func private @[[ALL]]
// CHECK: iterator_types = ["reduction"]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
// CPU-NOT: call
func.func @main(%x: tensor<4096x512xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<4096xf32>
  %l = call @largest(%x, %e) {inferno.source = ["largest"]} : (tensor<4096x512xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %o = tensor.empty() : tensor<f32>
  %t = call @total(%x, %l, %o) {inferno.source = ["total"]} : (tensor<4096x512xf32>, tensor<4096xf32>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
func.func private @largest(%x: tensor<4096x512xf32>, %o: tensor<4096xf32>) -> tensor<4096xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4096xf32>) -> tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x512xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %w: f32):
    %v = arith.maximumf %a, %w : f32
    linalg.yield %v : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}
func.func private @total(%x: tensor<4096x512xf32>, %l: tensor<4096xf32>, %o: tensor<f32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #row, #all], iterator_types = ["reduction", "reduction"]} ins(%x, %l : tensor<4096x512xf32>, tensor<4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %d = arith.subf %a, %b : f32
    %v = arith.addf %d, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> ()>

// Weights of rows that nobody has reduced: all multiprocessors read all at the rate of memory.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: call
// CHECK-NOT: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<4096x512xf32>, %l: tensor<4096xf32>) -> tensor<f32> {
  %o = tensor.empty() : tensor<f32>
  %t = call @total(%x, %l, %o) : (tensor<4096x512xf32>, tensor<4096xf32>, tensor<f32>) -> tensor<f32>
  return %t : tensor<f32>
}
func.func private @total(%x: tensor<4096x512xf32>, %l: tensor<4096xf32>, %o: tensor<f32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #row, #all], iterator_types = ["reduction", "reduction"]} ins(%x, %l : tensor<4096x512xf32>, tensor<4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %d = arith.mulf %a, %b : f32
    %v = arith.addf %d, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
