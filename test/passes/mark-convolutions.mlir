// RUN: inferno-opt %s -p mark-convolutions --split-input-file | FileCheck %s

// One of 1x1 is marked as well, before its window's loops are folded away; its bias is added after the sum.
#x = affine_map<(n, f, y, x, c, r, s) -> (n, c, y + r, x + s)>
#w = affine_map<(n, f, y, x, c, r, s) -> (f, c, r, s)>
#o = affine_map<(n, f, y, x, c, r, s) -> (n, f, y, x)>
module attributes {inferno.expand_pieces} {
  // CHECK: inferno.convolutions
  // CHECK-LABEL: @one
  // CHECK: %[[ZERO:.*]] = linalg.fill ins(%{{.*}} : f32)
  // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} outs(%[[ZERO]] : tensor<2x4x5x5xf32>)
  // CHECK: arith.mulf {{.*}} {inferno.convolution, inferno.exact} : f32
  // CHECK: linalg.generic {{.*}} ins(%[[SUM]], %arg2 : tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>)
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: arith.addf
  func.func @one(%x: tensor<2x3x5x5xf32>, %w: tensor<4x3x1x1xf32>, %b: tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32> {
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x3x5x5xf32>, tensor<4x3x1x1xf32>) outs(%b : tensor<2x4x5x5xf32>) {
    ^bb0(%a: f32, %b0: f32, %c: f32):
      %1 = arith.mulf %a, %b0 : f32
      %2 = arith.addf %c, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<2x4x5x5xf32>
    return %0 : tensor<2x4x5x5xf32>
  }
}

// -----

// Neither float64, nor a pooling, nor a matmul, nor a module that does not ask.
#x = affine_map<(y, c, r) -> (c, y + r)>
#w = affine_map<(y, c, r) -> (c, r)>
#o = affine_map<(y, c, r) -> (y)>
#l = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (k, n)>
#d = affine_map<(m, n, k) -> (m, n)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @others
  // CHECK-NOT: inferno.convolution
  func.func @others(%x: tensor<3x6xf64>, %w: tensor<3x2xf64>, %o: tensor<5xf64>, %p: tensor<4x4xf32>) -> (tensor<5xf64>, tensor<5xf64>, tensor<4x4xf32>) {
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<3x6xf64>, tensor<3x2xf64>) outs(%o : tensor<5xf64>) {
    ^bb0(%a: f64, %b: f64, %c: f64):
      %1 = arith.mulf %a, %b : f64
      %2 = arith.addf %c, %1 : f64
      linalg.yield %2 : f64
    } -> tensor<5xf64>
    %3 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<3x6xf64>, tensor<3x2xf64>) outs(%o : tensor<5xf64>) {
    ^bb0(%a: f64, %b: f64, %c: f64):
      %1 = arith.maximumf %a, %c : f64
      linalg.yield %1 : f64
    } -> tensor<5xf64>
    %4 = linalg.generic {indexing_maps = [#l, #r, #d], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p, %p : tensor<4x4xf32>, tensor<4x4xf32>) outs(%p : tensor<4x4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %1 = arith.mulf %a, %b : f32
      %2 = arith.addf %c, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<4x4xf32>
    return %0, %3, %4 : tensor<5xf64>, tensor<5xf64>, tensor<4x4xf32>
  }
}

// -----

#x = affine_map<(y, c, r) -> (c, y + r)>
#w = affine_map<(y, c, r) -> (c, r)>
#o = affine_map<(y, c, r) -> (y)>
module {
  // CHECK-LABEL: @elsewhere
  // CHECK-NOT: inferno.convolution
  func.func @elsewhere(%x: tensor<3x6xf32>, %w: tensor<3x2xf32>, %o: tensor<5xf32>) -> tensor<5xf32> {
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<3x6xf32>, tensor<3x2xf32>) outs(%o : tensor<5xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %1 = arith.mulf %a, %b : f32
      %2 = arith.addf %c, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }
}
