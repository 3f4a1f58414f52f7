// RUN: inferno-opt %s -p 'roll-steps{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'roll-steps{target=sm_90a always=1},assign-schedules{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=SCHEDULED
// RUN: inferno-opt %s -p 'roll-steps{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=NONE

#h = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

// Three steps, each of a product and of a function of it, of what a step reads, and of the state. What puts the states together is none: they lie so.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<3x4x16xf32>, %[[H:.*]]: tensor<4x16xf32>, %[[W:.*]]: tensor<16x16xf32>)
// CHECK: %[[R:.*]] = call @steps_product(%[[W]], %[[X]], %[[H]],
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @steps_product(%[[W:.*]]: tensor<16x16xf32>, %[[X:.*]]: tensor<3x4x16xf32>, %[[H:.*]]: tensor<4x16xf32>, %[[ALL:.*]]: tensor<3x4x16xf32>)
// CHECK: scf.for %[[T:.*]] = %{{.*}} to %c3{{.*}} step %{{.*}} iter_args(%[[STATE:.*]] = %[[H]], %[[MADE:.*]] = %[[ALL]])
// CHECK: linalg.generic {{.*}} ins(%[[STATE]], %[[W]] :
// CHECK: %[[MOVED:.*]] = arith.muli %[[T]],
// CHECK: tensor.extract_slice %[[X]][%{{.*}}, 0, 0] [1, 4, 16] [1, 1, 1]
// CHECK: %[[NEW:.*]] = linalg.generic
// CHECK: %[[LONGER:.*]] = tensor.insert_slice %[[NEW]] into %[[MADE]][%[[T]], 0, 0] [1, 4, 16] [1, 1, 1]
// CHECK: scf.yield %[[NEW]], %[[LONGER]]
// SCHEDULED: func.func private @steps_product({{.*}}generator = "recurrence"
// NONE-LABEL: func.func @main
// NONE-COUNT-7: call @
func.func @main(%x: tensor<3x4x16xf32>, %h: tensor<4x16xf32>, %w: tensor<16x16xf32>) -> tensor<3x4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = call @product(%h, %w, %e) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %1 = call @first(%x, %0, %h, %e) : (tensor<3x4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %2 = call @product(%1, %w, %e) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %3 = call @second(%x, %2, %1, %e) : (tensor<3x4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %4 = call @product(%3, %w, %e) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %5 = call @third(%x, %4, %3, %e) : (tensor<3x4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %a = tensor.empty() : tensor<3x4x16xf32>
  %6 = call @stack(%1, %3, %5, %a) : (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<3x4x16xf32>) -> tensor<3x4x16xf32>
  return %6 : tensor<3x4x16xf32>
}
func.func private @product(%h: tensor<4x16xf32>, %w: tensor<16x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#h, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h, %w : tensor<4x16xf32>, tensor<16x16xf32>) outs(%start : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func private @first(%x: tensor<3x4x16xf32>, %s: tensor<4x16xf32>, %h: tensor<4x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %t = tensor.extract_slice %x[0, 0, 0] [1, 4, 16] [1, 1, 1] : tensor<3x4x16xf32> to tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#p, #p, #p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%t, %s, %h : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) outs(%out : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    %2 = math.tanh %1 : f32
    %3 = arith.addf %2, %c : f32
    linalg.yield %3 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func private @second(%x: tensor<3x4x16xf32>, %s: tensor<4x16xf32>, %h: tensor<4x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %t = tensor.extract_slice %x[1, 0, 0] [1, 4, 16] [1, 1, 1] : tensor<3x4x16xf32> to tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#p, #p, #p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%t, %s, %h : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) outs(%out : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    %2 = math.tanh %1 : f32
    %3 = arith.addf %2, %c : f32
    linalg.yield %3 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func private @third(%x: tensor<3x4x16xf32>, %s: tensor<4x16xf32>, %h: tensor<4x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %t = tensor.extract_slice %x[2, 0, 0] [1, 4, 16] [1, 1, 1] : tensor<3x4x16xf32> to tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#p, #p, #p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%t, %s, %h : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) outs(%out : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    %2 = math.tanh %1 : f32
    %3 = arith.addf %2, %c : f32
    linalg.yield %3 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func private @stack(%a: tensor<4x16xf32>, %b: tensor<4x16xf32>, %c: tensor<4x16xf32>, %out: tensor<3x4x16xf32>) -> tensor<3x4x16xf32> {
  %0 = tensor.expand_shape %a [[0, 1], [2]] output_shape [1, 4, 16] : tensor<4x16xf32> into tensor<1x4x16xf32>
  %1 = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 4, 16] : tensor<4x16xf32> into tensor<1x4x16xf32>
  %2 = tensor.expand_shape %c [[0, 1], [2]] output_shape [1, 4, 16] : tensor<4x16xf32> into tensor<1x4x16xf32>
  %3 = tensor.concat dim(0) %0, %1, %2 : (tensor<1x4x16xf32>, tensor<1x4x16xf32>, tensor<1x4x16xf32>) -> tensor<3x4x16xf32>
  %4 = linalg.copy ins(%3 : tensor<3x4x16xf32>) outs(%out : tensor<3x4x16xf32>) -> tensor<3x4x16xf32>
  return %4 : tensor<3x4x16xf32>
}

// -----

#h = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>

// Products with other weights in every step are no loop.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: call @product(
// CHECK-NOT: scf.for
func.func @main(%h: tensor<4x16xf32>, %v: tensor<16x16xf32>, %w: tensor<16x16xf32>, %u: tensor<16x16xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = call @product(%h, %v, %e) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %1 = call @product(%0, %w, %e) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %2 = call @product(%1, %u, %e) : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}
func.func private @product(%h: tensor<4x16xf32>, %w: tensor<16x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#h, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h, %w : tensor<4x16xf32>, tensor<16x16xf32>) outs(%start : tensor<4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
