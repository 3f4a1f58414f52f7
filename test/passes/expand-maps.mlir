// RUN: inferno-opt %s -p expand-maps,fuse-elementwise | FileCheck %s

module attributes {inferno.expand_pieces} {
/// Two halves of bytes are flattened, and cut into groups that are scaled: one operation, of the loops of both.
// CHECK-LABEL: func.func @unpack
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]
// CHECK: tensor.collapse_shape
// CHECK-NOT: linalg.generic
func.func @unpack(%q: tensor<8x16xi8>, %s: tensor<8x4xf32>) -> tensor<8x4x8xf32> {
  %e = tensor.empty() : tensor<8x16x2xi8>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q : tensor<8x16xi8>) outs(%e : tensor<8x16x2xi8>) {
  ^bb0(%a: i8, %o: i8):
    %c = arith.constant 4 : i8
    %k = linalg.index 2 : index
    %n = arith.index_cast %k : index to i8
    %m = arith.muli %n, %c : i8
    %h = arith.shrui %a, %m : i8
    linalg.yield %h : i8
  } -> tensor<8x16x2xi8>
  %f = tensor.collapse_shape %p [[0], [1, 2]] : tensor<8x16x2xi8> into tensor<8x32xi8>
  %g = tensor.expand_shape %f [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xi8> into tensor<8x4x8xi8>
  %r = tensor.empty() : tensor<8x4x8xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %s : tensor<8x4x8xi8>, tensor<8x4xf32>) outs(%r : tensor<8x4x8xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %w = arith.sitofp %a : i8 to f32
    %y = arith.mulf %w, %b : f32
    linalg.yield %y : f32
  } -> tensor<8x4x8xf32>
  return %x : tensor<8x4x8xf32>
}

/// What is scaled and split into heads, of which there are sums, has the heads' loops, and is split once.
// CHECK-LABEL: func.func @heads
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: arith.mulf
// CHECK-NOT: tensor.expand_shape
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: arith.divf
// CHECK-NOT: linalg.generic
func.func @heads(%x: tensor<8x32xf32>, %s: tensor<32xf32>) -> tensor<8x4x8xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8x32xf32>
  %g = tensor.expand_shape %y [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xf32> into tensor<8x4x8xf32>
  %h = tensor.expand_shape %y [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xf32> into tensor<8x4x8xf32>
  %z = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%t : tensor<8x4xf32>) -> tensor<8x4xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%g : tensor<8x4x8xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %a, %o : f32
    linalg.yield %p : f32
  } -> tensor<8x4xf32>
  %r = tensor.empty() : tensor<8x4x8xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h, %u : tensor<8x4x8xf32>, tensor<8x4xf32>) outs(%r : tensor<8x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<8x4x8xf32>
  return %q : tensor<8x4x8xf32>
}
}
