// RUN: inferno-opt %s -p 'expand-loops,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

#lhs = affine_map<(b, m, n, k) -> (b, m, k)>
#rhs = affine_map<(b, m, n, k) -> (b, k, n)>
#out = affine_map<(b, m, n, k) -> (b, m, n)>
#heads = affine_map<(b, m, h, n) -> (b, h, m, n)>
#points = affine_map<(b, m, h, n) -> (b, m, h, n)>

// A result that is scaled, expanded and then written with heads beside each other: batch and heads are loops of the product.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<2x3x4x5xf32>)
// CHECK-NOT: _shape
// CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<2x3x4x5xf32>) outs(%{{.*}} : tensor<2x4x3x5xf32>)
module attributes {inferno.expand_pieces} {
  func.func @main(%a: tensor<6x4x8xf32>, %b: tensor<6x8x5xf32>) -> tensor<2x4x3x5xf32> {
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2.0 : f32
    %e = tensor.empty() : tensor<6x4x5xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
    %p = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%a, %b : tensor<6x4x8xf32>, tensor<6x8x5xf32>) outs(%f : tensor<6x4x5xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<6x4x5xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%p : tensor<6x4x5xf32>) outs(%e : tensor<6x4x5xf32>) {
    ^bb0(%i: f32, %o: f32):
      %m = arith.mulf %i, %two : f32
      linalg.yield %m : f32
    } -> tensor<6x4x5xf32>
    %x = tensor.expand_shape %s [[0, 1], [2], [3]] output_shape [2, 3, 4, 5] : tensor<6x4x5xf32> into tensor<2x3x4x5xf32>
    %g = tensor.empty() : tensor<2x4x3x5xf32>
    %t = linalg.generic {indexing_maps = [#heads, #points], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%x : tensor<2x3x4x5xf32>) outs(%g : tensor<2x4x3x5xf32>) {
    ^bb0(%i: f32, %o: f32):
      linalg.yield %i : f32
    } -> tensor<2x4x3x5xf32>
    return %t : tensor<2x4x3x5xf32>
  }
}

// -----

// Where the innermost dimension would be another one, or batch and heads stay one behind the other, the result is as it was.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
#lhs = affine_map<(b, m, n, k) -> (b, m, k)>
#rhs = affine_map<(b, m, n, k) -> (b, k, n)>
#out = affine_map<(b, m, n, k) -> (b, m, n)>
#turned = affine_map<(b, n, h, m) -> (b, h, m, n)>
#behind = affine_map<(m, b, h, n) -> (b, h, m, n)>
#points = affine_map<(b, m, h, n) -> (b, m, h, n)>
module attributes {inferno.expand_pieces} {
  func.func @main(%a: tensor<6x4x8xf32>, %b: tensor<6x8x5xf32>, %c: tensor<6x4x8xf32>) -> (tensor<2x5x3x4xf32>, tensor<4x2x3x5xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6x4x5xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
    %p = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%a, %b : tensor<6x4x8xf32>, tensor<6x8x5xf32>) outs(%f : tensor<6x4x5xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<6x4x5xf32>
    %q = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%c, %b : tensor<6x4x8xf32>, tensor<6x8x5xf32>) outs(%f : tensor<6x4x5xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<6x4x5xf32>
    %x = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [2, 3, 4, 5] : tensor<6x4x5xf32> into tensor<2x3x4x5xf32>
    %y = tensor.expand_shape %q [[0, 1], [2], [3]] output_shape [2, 3, 4, 5] : tensor<6x4x5xf32> into tensor<2x3x4x5xf32>
    %g = tensor.empty() : tensor<2x5x3x4xf32>
    %t = linalg.generic {indexing_maps = [#turned, #points], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%x : tensor<2x3x4x5xf32>) outs(%g : tensor<2x5x3x4xf32>) {
    ^bb0(%i: f32, %o: f32):
      linalg.yield %i : f32
    } -> tensor<2x5x3x4xf32>
    %h = tensor.empty() : tensor<4x2x3x5xf32>
    %u = linalg.generic {indexing_maps = [#behind, #points], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%y : tensor<2x3x4x5xf32>) outs(%h : tensor<4x2x3x5xf32>) {
    ^bb0(%i: f32, %o: f32):
      linalg.yield %i : f32
    } -> tensor<4x2x3x5xf32>
    return %t, %u : tensor<2x5x3x4xf32>, tensor<4x2x3x5xf32>
  }
}
