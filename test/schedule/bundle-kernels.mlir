// RUN: inferno-opt -p 'inferno-fuse,assign-schedules{target=sm_90a},bundle-kernels{target=sm_90a}' %s --split-input-file | FileCheck %s

// Two small kernels that do not wait for each other are one, in blocks of one size; the third one, which reads a result, and the fourth one,
// whose result may be written in the place of %y, are not.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @exp_bundle(%arg0, %arg1,
// CHECK: call @transpose(%[[R]]#0,
// CHECK: call @cos(%arg1,
// CHECK: func.func private @exp_bundle
// CHECK-SAME: generator = "bundle", parts = [{{{.*}}generator = "elementwise", threads = 64 {{.*}}}, {{{.*}}generator = "elementwise", threads = 64
// CHECK: math.exp
// CHECK: math.sin
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
module attributes {inferno.bundles} {
  func.func @main(%x: tensor<64xf32>, %y: tensor<16xf32>) -> (tensor<64x32xf32>, tensor<32x64xf32>, tensor<16x8xf32>, tensor<16xf32>) {
    %e = tensor.empty() : tensor<64x32xf32>
    %a = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64x32xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.exp %u : f32
      linalg.yield %w : f32
    } -> tensor<64x32xf32>
    %f = tensor.empty() : tensor<16x8xf32>
    %b = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<16xf32>) outs(%f : tensor<16x8xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.sin %u : f32
      linalg.yield %w : f32
    } -> tensor<16x8xf32>
    %t = tensor.empty() : tensor<32x64xf32>
    %c = linalg.transpose ins(%a : tensor<64x32xf32>) outs(%t : tensor<32x64xf32>) permutation = [1, 0]
    %g = tensor.empty() : tensor<16xf32>
    %d = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%y : tensor<16xf32>) outs(%g : tensor<16xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.cos %u : f32
      linalg.yield %w : f32
    } -> tensor<16xf32>
    return %a, %c, %b, %d : tensor<64x32xf32>, tensor<32x64xf32>, tensor<16x8xf32>, tensor<16xf32>
  }
}

// -----

// Rows of two numbers that vary, and of both in the one kernel.
// CHECK-LABEL: func.func @main
// CHECK: call @exp_bundle(%arg2, %arg0, %arg3, %arg1,
// CHECK-NOT: call
// CHECK: func.func private @exp_bundle
// CHECK-SAME: %{{.*}}: index {{{.*}}inferno.symbol = "n0"}, %{{.*}}: tensor<?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0)>}
// CHECK-SAME: %{{.*}}: index {{{.*}}inferno.symbol = "n1"}, %{{.*}}: tensor<?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s1)>}
// CHECK: math.exp
// CHECK: math.sin
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
module attributes {inferno.bundles} {
  func.func @main(%x: tensor<?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0)>}, %y: tensor<?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s1)>},
                  %n: index {inferno.divisor = 1 : i64, inferno.hint = 64 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "s0"},
                  %m: index {inferno.divisor = 1 : i64, inferno.hint = 64 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "s1"})
      -> (tensor<?x32xf32>, tensor<?x8xf32>) {
    %e = tensor.empty(%n) : tensor<?x32xf32>
    %a = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?xf32>) outs(%e : tensor<?x32xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.exp %u : f32
      linalg.yield %w : f32
    } -> tensor<?x32xf32>
    %f = tensor.empty(%m) : tensor<?x8xf32>
    %b = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<?xf32>) outs(%f : tensor<?x8xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.sin %u : f32
      linalg.yield %w : f32
    } -> tensor<?x8xf32>
    return %a, %b : tensor<?x32xf32>, tensor<?x8xf32>
  }
}

// -----

// What tells a scatter its places is left for its kernel; of two others one is what it puts there.
// CHECK-LABEL: func.func @main
// CHECK: call @addi(%arg0,
// CHECK: call @{{exp|sin}}_bundle(
// CHECK: func.func private
#flat = affine_map<(i) -> (i)>
#row = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
module attributes {inferno.bundles} {
  func.func @main(%i: tensor<64xi64>, %x: tensor<64xf32>) -> (tensor<80xf32>, tensor<64x8xf32>) {
    %c80 = arith.constant 80 : i64
    %e = tensor.empty() : tensor<64xi64>
    %p = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel"]} ins(%i : tensor<64xi64>) outs(%e : tensor<64xi64>) {
    ^bb0(%u: i64, %v: i64):
      %w = arith.addi %u, %c80 : i64
      linalg.yield %w : i64
    } -> tensor<64xi64>
    %f = tensor.empty() : tensor<64xf32>
    %y = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.exp %u : f32
      linalg.yield %w : f32
    } -> tensor<64xf32>
    %h = tensor.empty() : tensor<64x8xf32>
    %z = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64xf32>) outs(%h : tensor<64x8xf32>) {
    ^bb0(%u: f32, %v: f32):
      %w = math.sin %u : f32
      linalg.yield %w : f32
    } -> tensor<64x8xf32>
    %y1 = tensor.expand_shape %y [[0, 1]] output_shape [64, 1] : tensor<64xf32> into tensor<64x1xf32>
    %p1 = tensor.expand_shape %p [[0, 1]] output_shape [64, 1] : tensor<64xi64> into tensor<64x1xi64>
    %zero = arith.constant 0.0 : f32
    %g = tensor.empty() : tensor<80xf32>
    %begin = linalg.fill ins(%zero : f32) outs(%g : tensor<80xf32>) -> tensor<80xf32>
    %s = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y1, %p1 : tensor<64x1xf32>, tensor<64x1xi64>) outs(%begin : tensor<80xf32>) {
    ^bb0(%a: f32, %b: f32):
      %2 = arith.addf %b, %a : f32
      tm_tensor.yield %2 : f32
    } -> tensor<80xf32>
    return %s, %z : tensor<80xf32>, tensor<64x8xf32>
  }
}
