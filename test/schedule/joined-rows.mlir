// Rows of few columns are read as if several were one, where vectors do not divide one.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a},inferno-generate{target=sm_90a}' | FileCheck %s --check-prefix=GPU

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>
#columns = affine_map<(r, c) -> (c)>

/// Eight rows are 23 vectors, and 22 times as many a block's.  What a row has is read for the two that a vector touches, and what a column has in front of
/// the loop.
// CHECK: func.func private @sum({{.*}}across = 23 : i64, along = 22 : i64, {{.*}}generator = "reductions", {{.*}}rows = 8 : i64, {{.*}}vector = 8 : i64
// GPU-LABEL: gpu.func @sum(
// GPU-SAME: known_block_size = array<i32: 506, 1, 1>
// GPU-COUNT-8: memref.load %arg2
// GPU: scf.for
// GPU: vector.load %arg0
// GPU: memref.load %arg1
// GPU: memref.load %arg1
// GPU-NOT: memref.load %arg1
// GPU: vector.load %arg0
func.func @main(%x: tensor<1000003x23xf16>, %w: tensor<1000003xf16>, %b: tensor<23xf16>) -> tensor<23xf32> {
  %e = tensor.empty() : tensor<23xf32>
  %0 = call @sum(%x, %w, %b, %e) : (tensor<1000003x23xf16>, tensor<1000003xf16>, tensor<23xf16>, tensor<23xf32>) -> tensor<23xf32>
  return %0 : tensor<23xf32>
}
func.func private @sum(%x: tensor<1000003x23xf16>, %w: tensor<1000003xf16>, %b: tensor<23xf16>, %out: tensor<23xf32>) -> tensor<23xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<23xf32>) -> tensor<23xf32>
  %1 = linalg.generic {indexing_maps = [#points, #rows, #columns, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%x, %w, %b : tensor<1000003x23xf16>, tensor<1000003xf16>, tensor<23xf16>) outs(%0 : tensor<23xf32>) {
  ^bb0(%a: f16, %s: f16, %t: f16, %sum: f32):
    %p = arith.extf %a : f16 to f32
    %q = arith.extf %s : f16 to f32
    %r = arith.extf %t : f16 to f32
    %u = arith.mulf %p, %q : f32
    %v = arith.maximumf %u, %r : f32
    %y = arith.addf %v, %sum : f32
    linalg.yield %y : f32
  } -> tensor<23xf32>
  return %1 : tensor<23xf32>
}

// -----

/// Vectors divide rows of 32 as they are.
// CHECK: func.func private @even({{.*}}across = 4 : i64, {{.*}}generator = "reductions", {{.*}}rows = 0 : i64, {{.*}}vector = 8 : i64
func.func @main(%x: tensor<1000003x32xi16>) -> tensor<32xi16> {
  %e = tensor.empty() : tensor<32xi16>
  %0 = call @even(%x, %e) : (tensor<1000003x32xi16>, tensor<32xi16>) -> tensor<32xi16>
  return %0 : tensor<32xi16>
}
func.func private @even(%x: tensor<1000003x32xi16>, %out: tensor<32xi16>) -> tensor<32xi16> {
  %zero = arith.constant 0 : i16
  %0 = linalg.fill ins(%zero : i16) outs(%out : tensor<32xi16>) -> tensor<32xi16>
  %1 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (c)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<1000003x32xi16>) outs(%0 : tensor<32xi16>) {
  ^bb0(%a: i16, %sum: i16):
    %y = arith.addi %a, %sum : i16
    linalg.yield %y : i16
  } -> tensor<32xi16>
  return %1 : tensor<32xi16>
}
