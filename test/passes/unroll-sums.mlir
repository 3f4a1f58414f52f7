// RUN: inferno-opt %s -p unroll-sums --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// Sums of three rows that are taken off them are computed with each point.
// CHECK-LABEL: func.func @main(%arg0: tensor<3x64xbf16>)
// CHECK-NOT: "reduction"
// CHECK-COUNT-3: tensor.extract_slice %arg0
// CHECK: linalg.generic
// CHECK-COUNT-3: arith.addf
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
module {
  func.func @main(%x: tensor<3x64xbf16>) -> tensor<3x64xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64xf32>
    %p = tensor.empty() : tensor<3x64xf32>
    %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
    %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<3x64xbf16>) outs(%s0 : tensor<64xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %w = arith.extf %a : bf16 to f32
      %y = arith.addf %w, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<3x64xbf16>, tensor<64xf32>) outs(%p : tensor<3x64xf32>) {
    ^bb0(%a: bf16, %b: f32, %o: f32):
      %w = arith.extf %a : bf16 to f32
      %d = arith.subf %w, %b : f32
      linalg.yield %d : f32
    } -> tensor<3x64xf32>
    return %q : tensor<3x64xf32>
  }
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#rows = affine_map<(r, c) -> (r)>

// Sums that are returned, and those of rows, stay.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: "reduction"
module {
  func.func @main(%x: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = tensor.empty() : tensor<3xf32>
    %p = tensor.empty() : tensor<3x4xf32>
    %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %t0 = linalg.fill ins(%zero : f32) outs(%f : tensor<3xf32>) -> tensor<3xf32>
    %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%s0 : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %y = arith.addf %a, %o : f32
      linalg.yield %y : f32
    } -> tensor<4xf32>
    %t = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x4xf32>) outs(%t0 : tensor<3xf32>) {
    ^bb0(%a: f32, %o: f32):
      %y = arith.addf %a, %o : f32
      linalg.yield %y : f32
    } -> tensor<3xf32>
    %q = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %t : tensor<3x4xf32>, tensor<3xf32>) outs(%p : tensor<3x4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<3x4xf32>
    return %s, %q : tensor<4xf32>, tensor<3x4xf32>
  }
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#number = affine_map<(r, c) -> ()>

// One number times rows, in that order: what is read at no loop says nothing of which are neighbours.
// CHECK-LABEL: func.func @main(%arg0: tensor<f32>, %arg1: tensor<3x64xf32>)
// CHECK-NOT: "reduction"
// CHECK-COUNT-3: tensor.extract_slice %arg1
// CHECK: linalg.generic
// CHECK-COUNT-3: arith.mulf
// CHECK: arith.subf
module {
  func.func @main(%k: tensor<f32>, %x: tensor<3x64xf32>) -> tensor<3x64xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64xf32>
    %p = tensor.empty() : tensor<3x64xf32>
    %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
    %s = linalg.generic {indexing_maps = [#number, #points, #columns], iterator_types = ["reduction", "parallel"]} ins(%k, %x : tensor<f32>, tensor<3x64xf32>) outs(%s0 : tensor<64xf32>) {
    ^bb0(%n: f32, %a: f32, %o: f32):
      %m = arith.mulf %n, %a : f32
      %y = arith.addf %m, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<3x64xf32>, tensor<64xf32>) outs(%p : tensor<3x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<3x64xf32>
    return %q : tensor<3x64xf32>
  }
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#all = affine_map<(r, h, c) -> (r, h, c)>
#inner = affine_map<(r, h, c) -> (h, c)>
#heads = affine_map<(r, h, c) -> (r, h)>

// Totals that are read in another shape, by a reduction that has taken a map in: it computes them.
// CHECK-LABEL: func.func @main(%arg0: tensor<2x64xf32>)
// CHECK-NOT: "reduction", "parallel"
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK-COUNT-2: arith.addf
// CHECK: arith.subf
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic
module {
  func.func @main(%x: tensor<2x64xf32>) -> tensor<2x4xf32> {
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<64xf32>
    %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
    %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<2x64xf32>) outs(%s0 : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %y = arith.addf %a, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %xs = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 4, 16] : tensor<2x64xf32> into tensor<2x4x16xf32>
    %ss = tensor.expand_shape %s [[0, 1]] output_shape [4, 16] : tensor<64xf32> into tensor<4x16xf32>
    %m = tensor.empty() : tensor<2x4xf32>
    %m0 = linalg.fill ins(%low : f32) outs(%m : tensor<2x4xf32>) -> tensor<2x4xf32>
    %r = linalg.generic {indexing_maps = [#all, #inner, #heads], iterator_types = ["parallel", "parallel", "reduction"]} ins(%xs, %ss : tensor<2x4x16xf32>, tensor<4x16xf32>) outs(%m0 : tensor<2x4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      %y = arith.maximumf %d, %o : f32
      linalg.yield %y : f32
    } -> tensor<2x4xf32>
    return %r : tensor<2x4xf32>
  }
}
