// RUN: inferno-opt -p 'compose-moves,canonicalize,cse' %s --split-input-file | FileCheck %s

// Rolled along two dimensions, cut into windows of 2x2: one operation reads each row where the tensor has it.
// CHECK-LABEL: func.func @windows
// CHECK-NOT: tensor.concat
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x2x2x32xf32>)
// CHECK: %[[C:.*]] = linalg.index 4
// CHECK: arith.select
// CHECK: arith.select
// CHECK: tensor.extract %arg0[%{{.*}}, %{{.*}}, %[[C]]] : tensor<4x6x32xf32>
// CHECK-NOT: linalg.generic
module attributes {inferno.expand_pieces} {
  func.func @windows(%x: tensor<4x6x32xf32>) -> tensor<2x3x2x2x32xf32> {
    %a = tensor.extract_slice %x[1, 0, 0] [3, 6, 32] [1, 1, 1] : tensor<4x6x32xf32> to tensor<3x6x32xf32>
    %b = tensor.extract_slice %x[0, 0, 0] [1, 6, 32] [1, 1, 1] : tensor<4x6x32xf32> to tensor<6x32xf32>
    %b1 = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 6, 32] : tensor<6x32xf32> into tensor<1x6x32xf32>
    %r = tensor.concat dim(0) %a, %b1 : (tensor<3x6x32xf32>, tensor<1x6x32xf32>) -> tensor<4x6x32xf32>
    %c = tensor.extract_slice %r[0, 4, 0] [4, 2, 32] [1, 1, 1] : tensor<4x6x32xf32> to tensor<4x2x32xf32>
    %d = tensor.extract_slice %r[0, 0, 0] [4, 4, 32] [1, 1, 1] : tensor<4x6x32xf32> to tensor<4x4x32xf32>
    %s = tensor.concat dim(1) %c, %d : (tensor<4x2x32xf32>, tensor<4x4x32xf32>) -> tensor<4x6x32xf32>
    %e = tensor.expand_shape %s [[0, 1], [2, 3], [4]] output_shape [2, 2, 3, 2, 32] : tensor<4x6x32xf32> into tensor<2x2x3x2x32xf32>
    %o = tensor.empty() : tensor<2x3x2x2x32xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e) -> (a, c, b, d, e)>, affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%e : tensor<2x2x3x2x32xf32>) outs(%o : tensor<2x3x2x2x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<2x3x2x2x32xf32>
    return %t : tensor<2x3x2x2x32xf32>
  }
}

// -----

// And back: windows are rows of a product's result, which one operation reads.
// CHECK-LABEL: func.func @back
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4x6x32xf32>
// CHECK: linalg.generic {{.*}} outs(%[[E]] : tensor<4x6x32xf32>)
// CHECK: arith.remui
// CHECK: arith.divui
// CHECK: tensor.extract %arg0[%{{.*}}, %{{.*}}] : tensor<24x32xf32>
// CHECK-NOT: linalg.generic
module attributes {inferno.expand_pieces} {
  func.func @back(%x: tensor<24x32xf32>) -> tensor<4x6x32xf32> {
    %e = tensor.expand_shape %x [[0, 1, 2, 3], [4]] output_shape [2, 3, 2, 2, 32] : tensor<24x32xf32> into tensor<2x3x2x2x32xf32>
    %o = tensor.empty() : tensor<2x2x3x2x32xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e) -> (a, c, b, d, e)>, affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%e : tensor<2x3x2x2x32xf32>) outs(%o : tensor<2x2x3x2x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<2x2x3x2x32xf32>
    %w = tensor.collapse_shape %t [[0, 1], [2, 3], [4]] : tensor<2x2x3x2x32xf32> into tensor<4x6x32xf32>
    %a = tensor.extract_slice %w[3, 0, 0] [1, 6, 32] [1, 1, 1] : tensor<4x6x32xf32> to tensor<1x6x32xf32>
    %b = tensor.extract_slice %w[0, 0, 0] [3, 6, 32] [1, 1, 1] : tensor<4x6x32xf32> to tensor<3x6x32xf32>
    %r = tensor.concat dim(0) %a, %b : (tensor<1x6x32xf32>, tensor<3x6x32xf32>) -> tensor<4x6x32xf32>
    return %r : tensor<4x6x32xf32>
  }
}

// -----

// Left alone: a roll along the last dimension, parts that are not all of the tensor, rows of few bytes, and a transposition of what nothing has moved.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: tensor.concat
// CHECK: %[[E:.*]] = tensor.expand_shape %arg0
// CHECK: linalg.generic {{.*}} ins(%[[E]]
module attributes {inferno.expand_pieces} {
  func.func @others(%x: tensor<4x32xf32>, %y: tensor<4x4xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x4xf32>, tensor<2x2x32xf32>) {
    %a = tensor.extract_slice %x[0, 8] [4, 24] [1, 1] : tensor<4x32xf32> to tensor<4x24xf32>
    %b = tensor.extract_slice %x[0, 0] [4, 8] [1, 1] : tensor<4x32xf32> to tensor<4x8xf32>
    %r = tensor.concat dim(1) %a, %b : (tensor<4x24xf32>, tensor<4x8xf32>) -> tensor<4x32xf32>
    %c = tensor.extract_slice %x[1, 0] [2, 32] [1, 1] : tensor<4x32xf32> to tensor<2x32xf32>
    %d = tensor.extract_slice %x[0, 0] [2, 32] [1, 1] : tensor<4x32xf32> to tensor<2x32xf32>
    %s = tensor.concat dim(0) %c, %d : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<4x32xf32>
    %f = tensor.extract_slice %y[2, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
    %g = tensor.extract_slice %y[0, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
    %u = tensor.concat dim(0) %f, %g : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 32] : tensor<4x32xf32> into tensor<2x2x32xf32>
    %o = tensor.empty() : tensor<2x2x32xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (b, a, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%e : tensor<2x2x32xf32>) outs(%o : tensor<2x2x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<2x2x32xf32>
    return %r, %s, %u, %t : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x4xf32>, tensor<2x2x32xf32>
  }
}

// -----

// A norm of rows that are moved behind it is computed of moved ones: its sum and what it makes of it go over rows of windows, and read the one that x has there.
// CHECK-LABEL: func.func @norm
// CHECK: %[[M:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x2x2x32xf32>)
// CHECK: tensor.extract %arg0[%{{.*}}, %{{.*}}] : tensor<24x32xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[M]] : tensor<2x3x2x2x32xf32>) outs(%{{.*}} : tensor<2x3x2x2xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[S]], %arg1 : tensor<2x3x2x2x32xf32>, tensor<2x3x2x2xf32>, tensor<32xf32>)
// CHECK: return %[[Y]], %arg0
module attributes {inferno.expand_pieces} {
  func.func @norm(%x: tensor<24x32xf32>, %w: tensor<32xf32>) -> (tensor<2x3x2x2x32xf32>, tensor<24x32xf32>) {
    %zero = arith.constant 0.0 : f32
    %se = tensor.empty() : tensor<24xf32>
    %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<24xf32>) -> tensor<24xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<24x32xf32>) outs(%sf : tensor<24xf32>) {
    ^bb0(%in: f32, %out: f32):
      %a = arith.addf %in, %out : f32
      linalg.yield %a : f32
    } -> tensor<24xf32>
    %ye = tensor.empty() : tensor<24x32xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %w : tensor<24x32xf32>, tensor<24xf32>, tensor<32xf32>) outs(%ye : tensor<24x32xf32>) {
    ^bb0(%in: f32, %s: f32, %c: f32, %out: f32):
      %a = arith.divf %in, %s : f32
      %b = arith.mulf %a, %c : f32
      linalg.yield %b : f32
    } -> tensor<24x32xf32>
    %e = tensor.expand_shape %y [[0, 1, 2, 3], [4]] output_shape [2, 2, 3, 2, 32] : tensor<24x32xf32> into tensor<2x2x3x2x32xf32>
    %o = tensor.empty() : tensor<2x3x2x2x32xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b, c, d, e) -> (a, c, b, d, e)>, affine_map<(a, b, c, d, e) -> (a, b, c, d, e)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%e : tensor<2x2x3x2x32xf32>) outs(%o : tensor<2x3x2x2x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<2x3x2x2x32xf32>
    return %t, %x : tensor<2x3x2x2x32xf32>, tensor<24x32xf32>
  }
}
