// RUN: inferno-opt %s -p 'expand-loops,func.func(canonicalize,cse),fold-transposes' | FileCheck %s

#copy = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
#same = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#lhs = affine_map<(b, m, n, k) -> (b, m, k)>
#rhs = affine_map<(b, m, n, k) -> (b, n, k)>
#out = affine_map<(b, m, n, k) -> (b, m, n)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

/// Scores of 4 heads, two of which share each key: no copy of either is left, and the scaled result has the loops of both.
// CHECK-DAG: #[[Q:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d1, d2, d5)>
// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d5)>
// CHECK-LABEL: func.func @shared_heads
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{\[\[}}0], [1], [2, 3], [4]] output_shape [2, 5, 2, 2, 8]
// CHECK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[Q]], #[[K]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %arg1 : tensor<2x5x2x2x8xf32>, tensor<2x2x7x8xf32>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<2x2x2x5x7xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[S]] {{\[\[}}0], [1, 2], [3], [4]]
// CHECK-NEXT: return %[[R]] : tensor<2x4x5x7xf32>
func.func @shared_heads(%q: tensor<2x5x4x8xf32>, %k: tensor<2x2x7x8xf32>) -> tensor<2x4x5x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x4x5x8xf32>
  %queries = linalg.generic {indexing_maps = [#copy, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q : tensor<2x5x4x8xf32>) outs(%e0 : tensor<2x4x5x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x4x5x8xf32>
  %e1 = tensor.empty() : tensor<2x2x2x7x8xf32>
  %keys = linalg.generic {indexing_maps = [affine_map<(b, h, g, t, d) -> (b, h, t, d)>, affine_map<(b, h, g, t, d) -> (b, h, g, t, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%k : tensor<2x2x7x8xf32>) outs(%e1 : tensor<2x2x2x7x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x2x2x7x8xf32>
  %a = tensor.collapse_shape %queries [[0, 1], [2], [3]] : tensor<2x4x5x8xf32> into tensor<8x5x8xf32>
  %b = tensor.collapse_shape %keys [[0, 1, 2], [3], [4]] : tensor<2x2x2x7x8xf32> into tensor<8x7x8xf32>
  %e2 = tensor.empty() : tensor<8x5x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<8x5x7xf32>) -> tensor<8x5x7xf32>
  %p = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<8x5x8xf32>, tensor<8x7x8xf32>) outs(%f : tensor<8x5x7xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x5x7xf32>
  %y = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<8x5x7xf32>) outs(%e2 : tensor<8x5x7xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.addf %i, %i : f32
    linalg.yield %t : f32
  } -> tensor<8x5x7xf32>
  %r = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [2, 4, 5, 7] : tensor<8x5x7xf32> into tensor<2x4x5x7xf32>
  return %r : tensor<2x4x5x7xf32>
}

/// Rows and terms stay as they are: a batch of few rows would make short tiles.
// CHECK-LABEL: func.func @rows
// CHECK: tensor.collapse_shape
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
func.func @rows(%x: tensor<2x5x4x8xf32>, %w: tensor<3x32xf32>) -> tensor<10x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x4x5x8xf32>
  %t = linalg.generic {indexing_maps = [#copy, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x5x4x8xf32>) outs(%e0 : tensor<2x4x5x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x4x5x8xf32>
  %a = tensor.collapse_shape %t [[0, 1, 2], [3]] : tensor<2x4x5x8xf32> into tensor<40x8xf32>
  %c = tensor.expand_shape %a [[0, 1], [2]] output_shape [10, 4, 8] : tensor<40x8xf32> into tensor<10x4x8xf32>
  %d = tensor.collapse_shape %c [[0], [1, 2]] : tensor<10x4x8xf32> into tensor<10x32xf32>
  %e2 = tensor.empty() : tensor<10x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<10x3xf32>) -> tensor<10x3xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%d, %w : tensor<10x32xf32>, tensor<3x32xf32>) outs(%f : tensor<10x3xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<10x3xf32>
  return %p : tensor<10x3xf32>
}

/// Two readers, one of which reads the other.
// CHECK-LABEL: func.func @readers
// CHECK: "reduction"]
// CHECK: } -> tensor<2x3x4x5xf32>
// CHECK: } -> tensor<2x3x4x5xf32>
// CHECK: } -> tensor<2x3x4x5xf32>
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @readers(%x: tensor<2x4x3x8xf32>, %w: tensor<6x5x8xf32>) -> (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x3x4x8xf32>
  %t = linalg.generic {indexing_maps = [#copy, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x3x8xf32>) outs(%e0 : tensor<2x3x4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x3x4x8xf32>
  %a = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<2x3x4x8xf32> into tensor<6x4x8xf32>
  %e = tensor.empty() : tensor<6x4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %p = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<6x4x8xf32>, tensor<6x5x8xf32>) outs(%f : tensor<6x4x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<6x4x5xf32>
  %y = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<6x4x5xf32>) outs(%e : tensor<6x4x5xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %i : f32
    linalg.yield %s : f32
  } -> tensor<6x4x5xf32>
  %z = linalg.generic {indexing_maps = [#three, #three, #three], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %p : tensor<6x4x5xf32>, tensor<6x4x5xf32>) outs(%e : tensor<6x4x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<6x4x5xf32>
  %r = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [2, 3, 4, 5] : tensor<6x4x5xf32> into tensor<2x3x4x5xf32>
  %q = tensor.expand_shape %z [[0, 1], [2], [3]] output_shape [2, 3, 4, 5] : tensor<6x4x5xf32> into tensor<2x3x4x5xf32>
  return %r, %q : tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>
}

// Rows of a product of few terms, to which each image adds the same: the sum has the product's loops.
#rows = affine_map<(m, n, k) -> (m, k)>
#transposed = affine_map<(m, n, k) -> (k, n)>
#results = affine_map<(m, n, k) -> (m, n)>
#places = affine_map<(b, t, n) -> (t, n)>
// CHECK-LABEL: @places
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} : tensor<12x16xf32> into tensor<3x4x16xf32>
// CHECK: %[[P:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %arg1 : tensor<3x4x16xf32>, tensor<16x8xf32>)
// CHECK-NOT: _shape
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %arg2 : tensor<3x4x8xf32>, tensor<4x8xf32>)
// CHECK: return %[[S]]
func.func @places(%x: tensor<12x16xf32>, %w: tensor<16x8xf32>, %p: tensor<4x8xf32>) -> tensor<3x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<12x8xf32>) -> tensor<12x8xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #transposed, #results], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<12x16xf32>, tensor<16x8xf32>) outs(%f : tensor<12x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<12x8xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [3, 4, 8] : tensor<12x8xf32> into tensor<3x4x8xf32>
  %g = tensor.empty() : tensor<3x4x8xf32>
  %2 = linalg.generic {indexing_maps = [#three, #places, #three], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%1, %p : tensor<3x4x8xf32>, tensor<4x8xf32>) outs(%g : tensor<3x4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<3x4x8xf32>
  return %2 : tensor<3x4x8xf32>
}
