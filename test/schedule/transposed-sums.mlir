// Sums of tensors of which neighbours lie along different loops: a warp has as many sums, which are neighbours in one, as terms, which are in the other.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a},inferno-generate{target=sm_90a}' | FileCheck %s --check-prefix=GPU

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>
#rows = affine_map<(r, c) -> (r)>

/// Vectors of terms, and of the other tensor the same places, one by one.
// CHECK: func.func private @sums({{.*}}across = 64 : i64, along = 4 : i64, {{.*}}generator = "reductions", {{.*}}transposed = true, {{.*}}vector = 8 : i64
// GPU-LABEL: gpu.func @sums(
// GPU-SAME: known_block_size = array<i32: 256, 1, 1>
// GPU: scf.for
// GPU: vector.load %arg0
// GPU-COUNT-8: memref.load %arg1
// GPU-COUNT-4: gpu.shuffle
// GPU-NOT: gpu.shuffle
// GPU: gpu.return
func.func @main(%x: tensor<4096x2048xbf16>, %y: tensor<2048x4096xbf16>) -> tensor<4096xf32> {
  %e = tensor.empty() : tensor<4096xf32>
  %0 = call @sums(%x, %y, %e) : (tensor<4096x2048xbf16>, tensor<2048x4096xbf16>, tensor<4096xf32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}
func.func private @sums(%x: tensor<4096x2048xbf16>, %y: tensor<2048x4096xbf16>, %out: tensor<4096xf32>) -> tensor<4096xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<4096xf32>) -> tensor<4096xf32>
  %1 = linalg.generic {indexing_maps = [#points, #transposed, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %y : tensor<4096x2048xbf16>, tensor<2048x4096xbf16>) outs(%0 : tensor<4096xf32>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %d = arith.subf %p, %q : f32
    %v = math.absf %d : f32
    %s = arith.addf %v, %sum : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %1 : tensor<4096xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>
#one = affine_map<(r, c) -> ()>

/// A block's threads have parts of one sum, which it puts together.
// CHECK: func.func private @loss({{.*}}across = 64 : i64, along = 4 : i64, {{.*}}transposed = true
// GPU-LABEL: gpu.func @loss(
// GPU: scf.for
// GPU-COUNT-10: gpu.shuffle
// GPU-NOT: gpu.shuffle
// GPU: gpu.barrier
// GPU: gpu.return
// GPU-LABEL: gpu.func @loss_sums(
func.func @main(%x: tensor<4096x2048xf32>, %y: tensor<2048x4096xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %0 = call @loss(%x, %y, %e) : (tensor<4096x2048xf32>, tensor<2048x4096xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @loss(%x: tensor<4096x2048xf32>, %y: tensor<2048x4096xf32>, %out: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<f32>) -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [#points, #transposed, #one], iterator_types = ["reduction", "reduction"]}
      ins(%x, %y : tensor<4096x2048xf32>, tensor<2048x4096xf32>) outs(%0 : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %d = arith.subf %a, %b : f32
    %v = math.absf %d : f32
    %s = arith.addf %v, %sum : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %1 : tensor<f32>
}
