// RUN: inferno-opt -p 'merge-sums{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'merge-sums{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(d0) -> (d0)>
#sum = affine_map<(d0) -> ()>

// Two reductions of a tensor are one operation of one kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[K:.*]](%arg0, %{{.*}}, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[R]]#0, %[[R]]#1
// CHECK: func.func private @[[K]](
// CHECK: linalg.generic
// CHECK-SAME: "reduction"
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<16777216xf32>) -> (tensor<f32>, tensor<f32>) {
  %e = tensor.empty() : tensor<f32>
  %a = call @sum(%x, %e) : (tensor<16777216xf32>, tensor<f32>) -> tensor<f32>
  %b = call @most(%x, %e) : (tensor<16777216xf32>, tensor<f32>) -> tensor<f32>
  return %a, %b : tensor<f32>, tensor<f32>
}
func.func private @sum(%x: tensor<16777216xf32>, %o: tensor<f32>) -> tensor<f32> {
  %c = arith.constant 0.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #sum], iterator_types = ["reduction"]} ins(%x : tensor<16777216xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %old : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
func.func private @most(%x: tensor<16777216xf32>, %o: tensor<f32>) -> tensor<f32> {
  %c = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #sum], iterator_types = ["reduction"]} ins(%x : tensor<16777216xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.maximumf %a, %old : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

#points = affine_map<(d0) -> (d0)>
#sum = affine_map<(d0) -> ()>

// What is compared with a sum waits for it.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<16777216xf32>) -> (tensor<f32>, tensor<f32>) {
  %e = tensor.empty() : tensor<f32>
  %a = call @sum(%x, %e) : (tensor<16777216xf32>, tensor<f32>) -> tensor<f32>
  %b = call @farthest(%x, %a, %e) : (tensor<16777216xf32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %a, %b : tensor<f32>, tensor<f32>
}
func.func private @sum(%x: tensor<16777216xf32>, %o: tensor<f32>) -> tensor<f32> {
  %c = arith.constant 0.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #sum], iterator_types = ["reduction"]} ins(%x : tensor<16777216xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %old : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
func.func private @farthest(%x: tensor<16777216xf32>, %s: tensor<f32>, %o: tensor<f32>) -> tensor<f32> {
  %c = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #sum, #sum], iterator_types = ["reduction"]} ins(%x, %s : tensor<16777216xf32>, tensor<f32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %d = arith.subf %a, %b : f32
    %y = arith.maximumf %d, %old : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

#points = affine_map<(d0) -> (d0)>
#sum = affine_map<(d0) -> ()>

// A size that varies is the same one for both.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[K:.*]](%arg1, %arg0, %{{.*}}, %{{.*}})
// CHECK-NOT: call
// CHECK: func.func private @[[K]](%{{.*}}: index {{.*}}, %{{.*}}: tensor<?xf32>
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 16777216 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "s0"})
    -> (tensor<f32>, tensor<f32>) {
  %e = tensor.empty() : tensor<f32>
  %a = call @sum(%n, %x, %e) : (index, tensor<?xf32>, tensor<f32>) -> tensor<f32>
  %b = call @most(%n, %x, %e) : (index, tensor<?xf32>, tensor<f32>) -> tensor<f32>
  return %a, %b : tensor<f32>, tensor<f32>
}
func.func private @sum(%n: index {inferno.divisor = 1 : i64, inferno.hint = 16777216 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n0"},
                       %x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}, %o: tensor<f32>) -> tensor<f32> {
  %c = arith.constant 0.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #sum], iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %old : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
func.func private @most(%n: index {inferno.divisor = 1 : i64, inferno.hint = 16777216 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n0"},
                        %x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}, %o: tensor<f32>) -> tensor<f32> {
  %c = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%c : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #sum], iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.maximumf %a, %old : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
