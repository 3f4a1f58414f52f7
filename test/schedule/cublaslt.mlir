// A contraction as a call of cuBLASLt: where it is asked for, assign-schedules gives it that schedule, and the plan calls the library.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s --check-prefix=SCHEDULED
// RUN: inferno-opt %s --split-input-file -p 'inferno-schedule{target=sm_90a},inferno-generate{target=sm_90a}' | FileCheck %s --check-prefix=PLAN

// Bias and GELU are the library's: one call, no kernel, and a workspace for the library behind the plan's other buffers.

// SCHEDULED: module {
// SCHEDULED: func.func private @linear_gelu({{.*}}attributes {inferno.schedule = {algorithm = 0 : i64, generator = "cublaslt", workspace = 33554432 : i64}}
// PLAN: func.func @main(%[[X:.*]]: memref<64x32xbf16>, %[[W:.*]]: memref<48x32xbf16>, %[[B:.*]]: memref<48xbf16>, %[[OUT:.*]]: memref<64x48xbf16> {inferno.result = 0 : i64})
// PLAN-SAME: inferno.workspace_bytes = 33554432 : i64
// PLAN-DAG: %[[SCRATCH:.*]] = "inferno.workspace"() {offset = 0 : i64} : () -> memref<33554432xi8>
// PLAN-DAG: %[[PX:.*]] = "inferno.pointer"(%[[X]])
// PLAN-DAG: %[[PW:.*]] = "inferno.pointer"(%[[W]])
// PLAN-DAG: %[[PB:.*]] = "inferno.pointer"(%[[B]])
// PLAN-DAG: %[[PS:.*]] = "inferno.pointer"(%[[SCRATCH]])
// PLAN-DAG: %[[POUT:.*]] = "inferno.pointer"(%[[OUT]])
// PLAN: "inferno.library"(%[[PX]], %[[PW]], %[[PB]], %[[PS]], %[[POUT]]) {function = "cublaslt", inferno.kernel = "linear_gelu"
// PLAN-SAME: options = {activation = "gelu_tanh", algorithm = 0 : i64, alpha = 1.000000e+00 : f64, beta = 0.000000e+00 : f64, bias = true, compute = "f32", lhs = [0, 32, 1]
// PLAN-SAME: out = [0, 48, 1], rhs = [0, 1, 32], sizes = [1, 64, 48, 32]
// PLAN-NOT: gpu.module
module attributes {inferno.matmul = "library"} {
  func.func @main(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %b: tensor<48xbf16>) -> tensor<64x48xbf16> {
    %e = tensor.empty() : tensor<64x48xbf16>
    %0 = call @linear_gelu(%x, %w, %b, %e) : (tensor<64x32xbf16>, tensor<48x32xbf16>, tensor<48xbf16>, tensor<64x48xbf16>) -> tensor<64x48xbf16>
    return %0 : tensor<64x48xbf16>
  }
  func.func private @linear_gelu(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %b: tensor<48xbf16>, %out: tensor<64x48xbf16>) -> tensor<64x48xbf16> {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %three = arith.constant 3 : i32
    %cubed = arith.constant 0.044715 : f32
    %q = arith.constant 0.79788456 : f32
    %e = tensor.empty() : tensor<64x48xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e : tensor<64x48xf32>) -> tensor<64x48xf32>
    %sum = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x, %w : tensor<64x32xbf16>, tensor<48x32xbf16>) outs(%start : tensor<64x48xf32>) {
    ^bb0(%a: bf16, %c: bf16, %acc: f32):
      %aw = arith.extf %a : bf16 to f32
      %cw = arith.extf %c : bf16 to f32
      %p = arith.mulf %aw, %cw : f32
      %s = arith.addf %acc, %p : f32
      linalg.yield %s : f32
    } -> tensor<64x48xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%sum, %b : tensor<64x48xf32>, tensor<48xbf16>) outs(%out : tensor<64x48xbf16>) {
    ^bb0(%v: f32, %bias: bf16, %old: bf16):
      %wide = arith.extf %bias : bf16 to f32
      %z = arith.addf %v, %wide : f32
      %z3 = math.fpowi %z, %three : f32, i32
      %cubic = arith.mulf %z3, %cubed : f32
      %t = arith.addf %z, %cubic : f32
      %u = arith.mulf %t, %q : f32
      %v2 = math.tanh %u : f32
      %v3 = arith.addf %v2, %one : f32
      %v4 = arith.mulf %z, %half : f32
      %r = arith.mulf %v4, %v3 : f32
      %n = arith.truncf %r : f32 to bf16
      linalg.yield %n : bf16
    } -> tensor<64x48xbf16>
    return %y : tensor<64x48xbf16>
  }
}

// -----

// A sigmoid is none of the library's epilogues: a kernel of ours goes over the sums, which are where the result is to be.

// SCHEDULED: module {
// SCHEDULED: func.func private @sigmoid({{.*}}attributes {inferno.schedule = {algorithm = 0 : i64, generator = "cublaslt", workspace = 33554432 : i64}}
// PLAN: func.func @main({{.*}}, %[[OUT:.*]]: memref<64x48xf32> {inferno.result = 0 : i64})
// PLAN: %[[SUMS:.*]] = "inferno.pointer"(%[[OUT]])
// PLAN: "inferno.library"({{.*}}, %[[SUMS]]) {function = "cublaslt"{{.*}}activation = "none"
// PLAN: %[[RESULT:.*]] = "inferno.pointer"(%[[OUT]])
// PLAN: "inferno.launch"(%[[RESULT]]) {{{.*}}kernel = @sigmoid_gpu::@sigmoid_after
// PLAN: gpu.module @sigmoid_gpu
module attributes {inferno.matmul = "library"} {
  func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>) -> tensor<64x48xf32> {
    %e = tensor.empty() : tensor<64x48xf32>
    %0 = call @sigmoid(%x, %w, %e) : (tensor<64x32xf32>, tensor<32x48xf32>, tensor<64x48xf32>) -> tensor<64x48xf32>
    return %0 : tensor<64x48xf32>
  }
  func.func private @sigmoid(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %out: tensor<64x48xf32>) -> tensor<64x48xf32> {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<64x48xf32>) -> tensor<64x48xf32>
    %sum = linalg.matmul ins(%x, %w : tensor<64x32xf32>, tensor<32x48xf32>) outs(%start : tensor<64x48xf32>) -> tensor<64x48xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]
    } ins(%sum : tensor<64x48xf32>) outs(%out : tensor<64x48xf32>) {
    ^bb0(%v: f32, %old: f32):
      %minus = arith.negf %v : f32
      %e = math.exp %minus : f32
      %d = arith.addf %e, %one : f32
      %q = arith.divf %one, %d : f32
      linalg.yield %q : f32
    } -> tensor<64x48xf32>
    return %y : tensor<64x48xf32>
  }
}

// -----

// Where nobody asks, a schedule that is written by hand holds, and another kernel is ours.

// SCHEDULED: func.func private @by_hand({{.*}}attributes {inferno.schedule = {algorithm = 2 : i64, generator = "cublaslt", workspace = 1024 : i64}}
// SCHEDULED: func.func private @unasked({{.*}}attributes {inferno.schedule = {{{.*}}generator = "simt"
// PLAN: "inferno.library"({{.*}}options = {activation = "none", algorithm = 2 : i64, {{.*}}sizes = [12, 16, 8, 32]
// PLAN: "inferno.launch"
module {
  func.func @main(%x: tensor<12x16x32xf32>, %w: tensor<12x32x8xf32>) -> (tensor<12x16x8xf32>, tensor<12x16x8xf32>) {
    %e = tensor.empty() : tensor<12x16x8xf32>
    %f = tensor.empty() : tensor<12x16x8xf32>
    %0 = call @by_hand(%x, %w, %e) : (tensor<12x16x32xf32>, tensor<12x32x8xf32>, tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
    %1 = call @unasked(%x, %w, %f) : (tensor<12x16x32xf32>, tensor<12x32x8xf32>, tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
    return %0, %1 : tensor<12x16x8xf32>, tensor<12x16x8xf32>
  }
  func.func private @by_hand(%x: tensor<12x16x32xf32>, %w: tensor<12x32x8xf32>, %out: tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
      attributes {inferno.schedule = {algorithm = 2 : i64, generator = "cublaslt", workspace = 1024 : i64}} {
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
    %sum = linalg.batch_matmul ins(%x, %w : tensor<12x16x32xf32>, tensor<12x32x8xf32>) outs(%start : tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
    return %sum : tensor<12x16x8xf32>
  }
  func.func private @unasked(%x: tensor<12x16x32xf32>, %w: tensor<12x32x8xf32>, %out: tensor<12x16x8xf32>) -> tensor<12x16x8xf32> {
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
    %sum = linalg.batch_matmul ins(%x, %w : tensor<12x16x32xf32>, tensor<12x32x8xf32>) outs(%start : tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
    return %sum : tensor<12x16x8xf32>
  }
}
