// RUN: inferno-opt -p 'inferno-fuse,fuse-reductions{target=sm_90a},fuse-sum-maps{target=sm_90a},merge-reads{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'inferno-fuse,fuse-reductions{target=cpu},fuse-sum-maps{target=cpu},merge-reads{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1) -> ()>
#one = affine_map<() -> ()>

/// Magnitudes and squares of a difference, which is not written, and what is made of both sums.
// CHECK-LABEL: func.func @main
// CHECK: call @[[K:[a-z_0-9]*]](%arg0, %arg1,
// CHECK-NOT: call
// CHECK: func.func private @[[K]](%{{.*}}: tensor<4096x4096xf32>, %{{.*}}: tensor<4096x4096xf32>, %{{.*}}: tensor<f32>) -> tensor<f32>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: arith.subf
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]
// CHECK: math.absf
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}}iterator_types = []
// CHECK-NOT: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call
func.func @main(%x: tensor<4096x4096xf32>, %y: tensor<4096x4096xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x4096xf32>
  %o = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4096x4096xf32>, tensor<4096x4096xf32>) outs(%e : tensor<4096x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4096x4096xf32>
  %s = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction", "reduction"]} ins(%d : tensor<4096x4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %w: f32):
    %t = math.absf %a : f32
    %v = arith.addf %t, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction", "reduction"]} ins(%d : tensor<4096x4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %w: f32):
    %t = arith.mulf %a, %a : f32
    %v = arith.addf %t, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = []} ins(%s, %q : tensor<f32>, tensor<f32>) outs(%o : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1) -> ()>

/// A map that is given back, behind a sum of what both read: it comes first in the kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[K:[a-z_0-9]*]](%arg0,
// CHECK-NOT: call
// CHECK: return %[[R]]#{{[01]}}, %[[R]]#{{[01]}}
// CHECK: func.func private @[[K]]
// CHECK: math.exp
// CHECK: iterator_types = ["reduction", "reduction"]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<4096x4096xf32>) -> (tensor<4096x4096xf32>, tensor<f32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x4096xf32>
  %o = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<4096x4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %w: f32):
    %v = arith.addf %a, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %d = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4096x4096xf32>) outs(%e : tensor<4096x4096xf32>) {
  ^bb0(%a: f32, %w: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<4096x4096xf32>
  return %d, %s : tensor<4096x4096xf32>, tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1) -> ()>

/// A map that waits for the sum stays by itself.
// CHECK-LABEL: func.func @main
// CHECK: call
// CHECK: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x4096xf32>
  %o = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<4096x4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %w: f32):
    %v = arith.addf %a, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %d = linalg.generic {indexing_maps = [#points, #all, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4096x4096xf32>, tensor<f32>) outs(%e : tensor<4096x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4096x4096xf32>
  return %d : tensor<4096x4096xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#rows = affine_map<(d0, d1) -> (d0)>

/// A map that writes across what it reads has tiles, which sums have not.
// CHECK-LABEL: func.func @main
// CHECK: call
// CHECK: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<256x65536xf32>, %y: tensor<65536x256xf32>) -> (tensor<65536x256xf32>, tensor<256xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<65536x256xf32>
  %o = tensor.empty() : tensor<256xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<256xf32>) -> tensor<256xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<256x65536xf32>) outs(%f : tensor<256xf32>) {
  ^bb0(%a: f32, %w: f32):
    %t = math.absf %a : f32
    %v = arith.addf %t, %w : f32
    linalg.yield %v : f32
  } -> tensor<256xf32>
  %d = linalg.generic {indexing_maps = [#points, #transposed, #transposed], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<256x65536xf32>, tensor<65536x256xf32>) outs(%e : tensor<65536x256xf32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<65536x256xf32>
  return %d, %s : tensor<65536x256xf32>, tensor<256xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1) -> ()>

/// Rows that vary in number: the difference is written, and its magnitudes are added up, by one kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[K:[a-z_0-9]*]](%arg2, %arg0, %arg1,
// CHECK-NOT: call
// CHECK: func.func private @[[K]](%{{.*}}: index {{.*}}, %{{.*}}: tensor<?x4096xf32>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<?x4096xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 4096)>}, %y: tensor<?x4096xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 4096)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 4096 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "s0"})
    -> (tensor<?x4096xf32>, tensor<f32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x4096xf32>
  %o = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<?x4096xf32>, tensor<?x4096xf32>) outs(%e : tensor<?x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<?x4096xf32>
  %s = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction", "reduction"]} ins(%d : tensor<?x4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %w: f32):
    %t = math.absf %a : f32
    %v = arith.addf %t, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %d, %s : tensor<?x4096xf32>, tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> ()>

/// Both read the weights, but rows of numbers that are equal in the example alone.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call
// CHECK: return
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<?x64xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 64)>}, %y: tensor<?x64xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s1, 64)>},
                %g: tensor<64xf32>,
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "s0"},
                %k: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "s1"})
    -> (tensor<f32>, tensor<f32>) {
  %z = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [#points, #row, #all], iterator_types = ["reduction", "reduction"]} ins(%x, %g : tensor<?x64xf32>, tensor<64xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %t = arith.mulf %a, %b : f32
    %u = math.absf %t : f32
    %v = arith.addf %u, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#points, #row, #all], iterator_types = ["reduction", "reduction"]} ins(%y, %g : tensor<?x64xf32>, tensor<64xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %t = arith.mulf %a, %b : f32
    %u = math.absf %t : f32
    %v = arith.addf %u, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %s, %q : tensor<f32>, tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1) -> ()>
#half = affine_map<()[s0] -> (s0 floordiv 2)>

/// What reshapes a result by a size that is computed behind the calls stays behind both.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @
// CHECK: %[[N:.*]] = affine.apply #
// CHECK: tensor.expand_shape %[[R]]#0 {{.*}}[%[[N]], 2, 4096]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<?x4096xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 4096)>}, %y: tensor<?x4096xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 4096)>},
                %n: index {inferno.divisor = 2 : i64, inferno.hint = 4096 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "s0"})
    -> (tensor<?x2x4096xf32>, tensor<f32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x4096xf32>
  %o = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<?x4096xf32>, tensor<?x4096xf32>) outs(%e : tensor<?x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %w: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<?x4096xf32>
  %s = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction", "reduction"]} ins(%d : tensor<?x4096xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %w: f32):
    %t = math.absf %a : f32
    %v = arith.addf %t, %w : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  %q = affine.apply #half()[%n]
  %r = tensor.expand_shape %d [[0, 1], [2]] output_shape [%q, 2, 4096] : tensor<?x4096xf32> into tensor<?x2x4096xf32>
  return %r, %s : tensor<?x2x4096xf32>, tensor<f32>
}
