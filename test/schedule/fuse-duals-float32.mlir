// RUN: inferno-opt %s -p 'fuse-duals{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-duals{target=sm_90a always=1},assign-schedules{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=SCHEDULED
// RUN: inferno-opt %s -p 'fuse-duals{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=NONE

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

// In float32 few rows are CUDA cores'.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @dual_up(%arg0, %arg1, %arg2,
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @dual_up(
// SCHEDULED: func.func private @dual_up({{.*}}generator = "dual_vectors"
// NONE-LABEL: func.func @main
// NONE-COUNT-2: call @
func.func @main(%x: tensor<4x64xf32>, %g: tensor<40x64xf32>, %u: tensor<40x64xf32>) -> tensor<4x40xf32> {
  %e0 = tensor.empty() : tensor<4x40xf32>
  %0 = call @gate(%x, %g, %e0) : (tensor<4x64xf32>, tensor<40x64xf32>, tensor<4x40xf32>) -> tensor<4x40xf32>
  %e1 = tensor.empty() : tensor<4x40xf32>
  %1 = call @up(%x, %u, %0, %e1) : (tensor<4x64xf32>, tensor<40x64xf32>, tensor<4x40xf32>, tensor<4x40xf32>) -> tensor<4x40xf32>
  return %1 : tensor<4x40xf32>
}
func.func private @gate(%x: tensor<4x64xf32>, %w: tensor<40x64xf32>, %out: tensor<4x40xf32>) -> tensor<4x40xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x40xf32>) -> tensor<4x40xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x64xf32>, tensor<40x64xf32>) outs(%start : tensor<4x40xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x40xf32>
  return %0 : tensor<4x40xf32>
}
func.func private @up(%x: tensor<4x64xf32>, %w: tensor<40x64xf32>, %g: tensor<4x40xf32>, %out: tensor<4x40xf32>) -> tensor<4x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x40xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x40xf32>) -> tensor<4x40xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x64xf32>, tensor<40x64xf32>) outs(%start : tensor<4x40xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x40xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0, %g : tensor<4x40xf32>, tensor<4x40xf32>) outs(%out : tensor<4x40xf32>) {
  ^bb0(%v: f32, %c: f32, %old: f32):
    %2 = math.tanh %c : f32
    %3 = arith.mulf %2, %v : f32
    linalg.yield %3 : f32
  } -> tensor<4x40xf32>
  return %1 : tensor<4x40xf32>
}

// -----

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

// More rows are products of bf16 on tensor cores.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @dual_up(%arg0, %arg1, %arg2,
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @dual_up(
// SCHEDULED: func.func private @dual_up({{.*}}generator = "dual_bf16x6"
// NONE-LABEL: func.func @main
// NONE-COUNT-2: call @
func.func @main(%x: tensor<16x64xf32>, %g: tensor<40x64xf32>, %u: tensor<40x64xf32>) -> tensor<16x40xf32> {
  %e0 = tensor.empty() : tensor<16x40xf32>
  %0 = call @gate(%x, %g, %e0) : (tensor<16x64xf32>, tensor<40x64xf32>, tensor<16x40xf32>) -> tensor<16x40xf32>
  %e1 = tensor.empty() : tensor<16x40xf32>
  %1 = call @up(%x, %u, %0, %e1) : (tensor<16x64xf32>, tensor<40x64xf32>, tensor<16x40xf32>, tensor<16x40xf32>) -> tensor<16x40xf32>
  return %1 : tensor<16x40xf32>
}
func.func private @gate(%x: tensor<16x64xf32>, %w: tensor<40x64xf32>, %out: tensor<16x40xf32>) -> tensor<16x40xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<16x40xf32>) -> tensor<16x40xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<16x64xf32>, tensor<40x64xf32>) outs(%start : tensor<16x40xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<16x40xf32>
  return %0 : tensor<16x40xf32>
}
func.func private @up(%x: tensor<16x64xf32>, %w: tensor<40x64xf32>, %g: tensor<16x40xf32>, %out: tensor<16x40xf32>) -> tensor<16x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x40xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<16x40xf32>) -> tensor<16x40xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<16x64xf32>, tensor<40x64xf32>) outs(%start : tensor<16x40xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<16x40xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0, %g : tensor<16x40xf32>, tensor<16x40xf32>) outs(%out : tensor<16x40xf32>) {
  ^bb0(%v: f32, %c: f32, %old: f32):
    %2 = math.tanh %c : f32
    %3 = arith.mulf %2, %v : f32
    linalg.yield %3 : f32
  } -> tensor<16x40xf32>
  return %1 : tensor<16x40xf32>
}
