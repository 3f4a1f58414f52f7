// RUN: inferno-opt %s -p 'mark-terms,fuse-elementwise,keep-exact' --split-input-file | FileCheck %s

// A product that was elementwise is marked where a sum adds it up; a scale, and the product of a contraction, are not.
#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (n, k)>
#all = affine_map<(m, n, k) -> (m, n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @sum
  // CHECK: iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK: arith.mulf %{{.*}}, %{{.*}} {inferno.exact} : f32
  // CHECK-NEXT: arith.addf
  func.func @sum(%x: tensor<8x16xf32>, %y: tensor<4x16xf32>) -> tensor<8x4xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x4x16xf32>
    %0 = linalg.generic {indexing_maps = [#x, #y, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %y : tensor<8x16xf32>, tensor<4x16xf32>) outs(%e : tensor<8x4x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      linalg.yield %p : f32
    } -> tensor<8x4x16xf32>
    %i = tensor.empty() : tensor<8x4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%i : tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = linalg.generic {indexing_maps = [#all, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0 : tensor<8x4x16xf32>) outs(%f : tensor<8x4xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %c, %a : f32
      linalg.yield %s : f32
    } -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, k) -> (m, k)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @product
  // CHECK-NOT: inferno.exact
  // CHECK-NOT: inferno.term
  func.func @product(%x: tensor<8x16xf32>, %y: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %t = tensor.empty() : tensor<8x16xf32>
    %0 = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%t : tensor<8x16xf32>) {
    ^bb0(%a: f32, %c: f32):
      %p = arith.mulf %a, %a : f32
      linalg.yield %p : f32
    } -> tensor<8x16xf32>
    %1 = linalg.generic {indexing_maps = [#x, #y, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0, %y : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    } -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
