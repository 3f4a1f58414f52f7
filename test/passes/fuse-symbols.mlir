// RUN: inferno-opt %s --pass-pipeline='name-symbols,inferno-fuse' --split-input-file | FileCheck %s

// Bias and GELU-like work on [batch, length, 8] goes into the matmul on [batch * length, 8], as with sizes that are numbers: that
// the two are the same elements is known of the symbols.  The kernel knows one size, their product.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:[^ ]*]]: index {{{[^}]*}}inferno.symbol = "s0"}, %[[B:[^ ]*]]: index {{{[^}]*}}inferno.symbol = "s1"}
// CHECK: %[[N:.*]] = arith.muli %[[A]], %[[B]] : index
// CHECK: tensor.empty(%[[N]]) : tensor<?x8xf32>
// CHECK: call @matmul_addf_maximumf(%[[N]],
// CHECK: func.func private @matmul_addf_maximumf(%{{.*}}: index {inferno.divisor = 1 : i64, inferno.hint = 15 : i64, inferno.range = [1, 4096], inferno.symbol = "n0"},
// CHECK-SAME: tensor<?x16xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 16)>}
func.func @main(%x: tensor<?x?x16xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 16)>}, %w: tensor<16x8xf32>, %bias: tensor<8xf32>)
    -> tensor<?x?x8xf32> attributes {
    inferno.symbols = [{inferno.symbol = "s0", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 3},
                       {inferno.symbol = "s1", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 5}]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %a = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %b = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %n = arith.muli %a, %b : index
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x16xf32> into tensor<?x16xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %0 = linalg.matmul ins(%flat, %w : tensor<?x16xf32>, tensor<16x8xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [%a, %b, 8] : tensor<?x8xf32> into tensor<?x?x8xf32>
  %e1 = tensor.empty(%a, %b) : tensor<?x?x8xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%1, %bias : tensor<?x?x8xf32>, tensor<8xf32>) outs(%e1 : tensor<?x?x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    %r = arith.maximumf %s, %zero : f32
    linalg.yield %r : f32
  } -> tensor<?x?x8xf32>
  return %2 : tensor<?x?x8xf32>
}

// -----

// A sum of varying length takes what follows it too: at its last step the index + 1 is its length, which is the kernel's size.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul_tanh(
// CHECK: func.func private @matmul_tanh(%[[K:[^ ]*]]: index
// CHECK: linalg.generic
// CHECK: %[[I:.*]] = linalg.index 2
// CHECK: %[[NEXT:.*]] = arith.addi %[[I]], %c1
// CHECK: arith.cmpi eq, %[[NEXT]], %[[K]]
// CHECK: math.tanh
// CHECK-NOT: linalg.generic
func.func @main(%x: tensor<?x4xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 4)>}, %w: tensor<?x8xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 8)>})
    -> tensor<4x8xf32> attributes {inferno.symbols = [{inferno.symbol = "s0", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 3}]} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x4xf32>, tensor<?x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// One that may be empty has no last step.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul(
// CHECK: call @tanh(
func.func @main(%x: tensor<?x4xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 4)>}, %w: tensor<?x8xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 8)>})
    -> tensor<4x8xf32> attributes {inferno.symbols = [{inferno.symbol = "s0", inferno.range = [0, 64], inferno.divisor = 1, inferno.hint = 3}]} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x4xf32>, tensor<?x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
