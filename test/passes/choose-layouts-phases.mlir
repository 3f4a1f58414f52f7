// RUN: inferno-opt %s -p 'skip-zeros,mark-convolutions,func.func(linalg-fold-unit-extent-dims,canonicalize,cse),choose-layouts,func.func(canonicalize,cse)' | FileCheck %s

// A transposed convolution whose window is its step, of a row-major image, given back so: neighbours in the result are columns and rows of the product by turns,
// of which there are no tiles. It is written with its features innermost, and transposed.
// CHECK-DAG: #[[BACK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-LABEL: @main
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins({{.*}}) outs(%{{.*}} : tensor<2x4x2x6xf32>)
// CHECK: inferno.convolution
// CHECK: %[[Y:.*]] = tensor.collapse_shape %{{.*}} {{\[}}[0], [1, 2], [3]] : tensor<2x4x2x6xf32> into tensor<2x8x6xf32>
// CHECK: linalg.generic {indexing_maps = [#[[BACK]], {{.*}}} ins(%[[Y]] : tensor<2x8x6xf32>) outs(%{{.*}} : tensor<2x6x8xf32>)
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<2x5x4xf32>, %w: tensor<6x5x2xf32>) -> tensor<2x6x8xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x5x9xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x9xf32>) -> tensor<2x5x9xf32>
    %wide = tensor.insert_slice %x into %f[0, 0, 1] [2, 5, 4] [1, 1, 2] : tensor<2x5x4xf32> into tensor<2x5x9xf32>
    %o = tensor.empty() : tensor<2x6x8xf32>
    %z = linalg.fill ins(%zero : f32) outs(%o : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(n, f, p, c, t) -> (n, c, p + t)>, affine_map<(n, f, p, c, t) -> (f, c, t)>, affine_map<(n, f, p, c, t) -> (n, f, p)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%wide, %w : tensor<2x5x9xf32>, tensor<6x5x2xf32>) outs(%z : tensor<2x6x8xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %m = arith.mulf %a, %b : f32
      %r = arith.addf %s, %m : f32
      linalg.yield %r : f32
    } -> tensor<2x6x8xf32>
    return %y : tensor<2x6x8xf32>
  }
}
