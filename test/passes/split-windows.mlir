// RUN: inferno-opt -p split-windows %s --split-input-file | FileCheck %s

#image = affine_map<(n, i, j, h, w) -> (n, i + h, j + w)>
#window = affine_map<(n, i, j, h, w) -> (h, w)>
#points = affine_map<(n, i, j, h, w) -> (n, i, j)>

/// Columns of seven first, for all that are in a row of windows, then what these come to.
// CHECK-DAG: #[[DOWN:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 + d3, d2)>
// CHECK-DAG: #[[ALONG:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 + d3)>
// CHECK-LABEL: func.func @main
// CHECK: %[[SUMS:.*]] = linalg.generic {indexing_maps = [#[[DOWN]], {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, {{.*}} outs({{.*}} : tensor<4x26x32xf32>)
// CHECK: arith.extf
// CHECK: arith.addf
// CHECK: linalg.generic {indexing_maps = [#[[ALONG]], {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[SUMS]], {{.*}} outs({{.*}} : tensor<4x26x26xf32>)
// CHECK-NOT: arith.extf
// CHECK: arith.addf
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x32x32xbf16>, %w: tensor<7x7xf32>) -> tensor<4x26x26xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x26x26xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x26x26xf32>) -> tensor<4x26x26xf32>
    %r = linalg.generic {indexing_maps = [#image, #window, #points], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
        ins(%x, %w : tensor<4x32x32xbf16>, tensor<7x7xf32>) outs(%f : tensor<4x26x26xf32>) {
    ^bb0(%a: bf16, %b: f32, %old: f32):
      %v = arith.extf %a : bf16 to f32
      %s = arith.addf %old, %v : f32
      linalg.yield %s : f32
    } -> tensor<4x26x26xf32>
    return %r : tensor<4x26x26xf32>
  }
}

// -----

#image = affine_map<(i, j, h, w) -> (i * 7 + h, j * 7 + w)>
#window = affine_map<(i, j, h, w) -> (h, w)>
#points = affine_map<(i, j, h, w) -> (i, j)>

/// Windows next to each other have no columns in common.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<28x28xf32>, %w: tensor<7x7xf32>) -> tensor<4x4xf32> {
    %least = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<4x4xf32>
    %f = linalg.fill ins(%least : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = linalg.generic {indexing_maps = [#image, #window, #points], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
        ins(%x, %w : tensor<28x28xf32>, tensor<7x7xf32>) outs(%f : tensor<4x4xf32>) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %m = arith.maximumf %old, %a : f32
      linalg.yield %m : f32
    } -> tensor<4x4xf32>
    return %r : tensor<4x4xf32>
  }
}

// -----

#image = affine_map<(i, j, h, w) -> (i + h, j + w)>
#window = affine_map<(i, j, h, w) -> (h, w)>
#points = affine_map<(i, j, h, w) -> (i, j)>

/// A convolution stays: its weight is walked by the window alone.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<32x32xf32>, %w: tensor<7x7xf32>) -> tensor<26x26xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<26x26xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<26x26xf32>) -> tensor<26x26xf32>
    %r = linalg.generic {indexing_maps = [#image, #window, #points], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
        ins(%x, %w : tensor<32x32xf32>, tensor<7x7xf32>) outs(%f : tensor<26x26xf32>) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %m, %old : f32
      linalg.yield %s : f32
    } -> tensor<26x26xf32>
    return %r : tensor<26x26xf32>
  }
}
