// RUN: inferno-opt -p lift-slices %s --split-input-file | FileCheck %s

// What is cropped and then regrouped: the crop is of what the product reads, and the reshape of what it makes.
// CHECK-LABEL: func.func @crop
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 1] [4, 7] [1, 1] : tensor<4x8xf32> to tensor<4x7xf32>
// CHECK: %[[B:.*]] = tensor.extract_slice %arg1[1] [7] [1]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[B]] : tensor<4x7xf32>, tensor<7xf32>)
// CHECK: tensor.expand_shape %[[P]] {{\[}}[0, 1], [2]] output_shape [2, 2, 7]
module attributes {inferno.expand_pieces} {
func.func @crop(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<2x2x7xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%u: f32, %c: f32, %o: f32):
    %v = arith.mulf %u, %c : f32
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  %s = tensor.extract_slice %y[0, 1] [4, 7] [1, 1] : tensor<4x8xf32> to tensor<4x7xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 2, 7] : tensor<4x7xf32> into tensor<2x2x7xf32>
  return %r : tensor<2x2x7xf32>
}
}

// -----

// Behind a reshape: every second row of a group is so before dimensions are flattened.
// CHECK-LABEL: func.func @behind
// CHECK: tensor.extract_slice %arg0[0, 1, 0] [3, 2, 8] [1, 2, 1] : tensor<3x4x8xf32> to tensor<3x2x8xf32>
// CHECK: %[[P:.*]] = linalg.generic
// CHECK: tensor.collapse_shape %[[P]] {{\[}}[0, 1], [2]] : tensor<3x2x8xf32> into tensor<6x8xf32>
module attributes {inferno.expand_pieces} {
func.func @behind(%x: tensor<3x4x8xf32>) -> tensor<6x8xf32> {
  %e = tensor.empty() : tensor<3x4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<3x4x8xf32>) outs(%e : tensor<3x4x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<3x4x8xf32>
  %r = tensor.collapse_shape %y [[0, 1], [2]] : tensor<3x4x8xf32> into tensor<12x8xf32>
  %s = tensor.extract_slice %r[1, 0] [6, 8] [2, 1] : tensor<12x8xf32> to tensor<6x8xf32>
  return %s : tensor<6x8xf32>
}
}

// -----

// Pixels without their border are no part of what is shuffled: they are read at computed places.
// CHECK-LABEL: func.func @pixels
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK-NOT: tensor.extract_slice
// CHECK: linalg.generic
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: %[[P:.*]] = arith.addi %[[J]], %c1
// CHECK-DAG: %[[Q:.*]] = arith.divui %[[P]], %c2
// CHECK-DAG: %[[R:.*]] = arith.remui %[[P]], %c2
// CHECK: tensor.extract %[[Y]][%{{.*}}, %[[Q]], %[[R]]] : tensor<3x32x2xf32>
module attributes {inferno.expand_pieces} {
func.func @pixels(%x: tensor<2x3x32xf32>) -> tensor<3x62xf32> {
  %e = tensor.empty() : tensor<3x32x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x3x32xf32>) outs(%e : tensor<3x32x2xf32>) {
  ^bb0(%u: f32, %o: f32):
    linalg.yield %u : f32
  } -> tensor<3x32x2xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2]] : tensor<3x32x2xf32> into tensor<3x64xf32>
  %s = tensor.extract_slice %r[0, 1] [3, 62] [1, 1] : tensor<3x64xf32> to tensor<3x62xf32>
  return %s : tensor<3x62xf32>
}
}

// -----

// What reads a sector for each of such pixels is made as it was.
// CHECK-LABEL: func.func @apart
// CHECK: linalg.generic
// CHECK: tensor.extract_slice %{{.*}}[0, 1, 0] [3, 62, 16]
module attributes {inferno.expand_pieces} {
func.func @apart(%z: tensor<16x2x3x32xf32>) -> tensor<3x62x16xf32> {
  %e = tensor.empty() : tensor<3x32x2x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (l, k, i, j)>, affine_map<(i, j, k, l) -> (i, j, k, l)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%z : tensor<16x2x3x32xf32>) outs(%e : tensor<3x32x2x16xf32>) {
  ^bb0(%u: f32, %o: f32):
    linalg.yield %u : f32
  } -> tensor<3x32x2x16xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2], [3]] : tensor<3x32x2x16xf32> into tensor<3x64x16xf32>
  %s = tensor.extract_slice %r[0, 1, 0] [3, 62, 16] [1, 1, 1] : tensor<3x64x16xf32> to tensor<3x62x16xf32>
  return %s : tensor<3x62x16xf32>
}
}

// -----

// Others read it, and a slice without a reshape next to it is hoist-slices'.
// CHECK-LABEL: func.func @others
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: tensor.extract_slice %[[Y]]
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: tensor.extract_slice %[[Z]]
module attributes {inferno.expand_pieces} {
func.func @others(%x: tensor<8x8xf32>) -> (tensor<2x2x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<8x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<8x8xf32>
  %s = tensor.extract_slice %y[4, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 2, 8] : tensor<4x8xf32> into tensor<2x2x8xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    linalg.yield %u : f32
  } -> tensor<8x8xf32>
  %t = tensor.extract_slice %z[4, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
  return %r, %y, %t : tensor<2x2x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
}
}

// -----

// What is made of sums is computed with these, whole.
// CHECK-LABEL: func.func @sums
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: %[[S:.*]] = tensor.extract_slice %[[Y]][0, 1] [4, 6]
// CHECK: tensor.expand_shape %[[S]]
module attributes {inferno.expand_pieces} {
func.func @sums(%x: tensor<4x8xf32>) -> tensor<4x2x3xf32> {
  %zero = arith.constant 0.0 : f32
  %v = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%u: f32, %o: f32):
    %w = arith.addf %u, %o : f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %t : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%u: f32, %c: f32, %o: f32):
    %w = arith.divf %u, %c : f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  %s = tensor.extract_slice %y[0, 1] [4, 6] [1, 1] : tensor<4x8xf32> to tensor<4x6xf32>
  %r = tensor.expand_shape %s [[0], [1, 2]] output_shape [4, 2, 3] : tensor<4x6xf32> into tensor<4x2x3xf32>
  return %r : tensor<4x2x3xf32>
}
}

// -----

// Modules for the CPU stay.
// CHECK-LABEL: func.func @cpu
// CHECK: linalg.generic {{.*}} ins(%arg0
// CHECK: tensor.extract_slice
func.func @cpu(%x: tensor<4x8xf32>) -> tensor<2x2x7xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  %s = tensor.extract_slice %y[0, 1] [4, 7] [1, 1] : tensor<4x8xf32> to tensor<4x7xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 2, 7] : tensor<4x7xf32> into tensor<2x2x7xf32>
  return %r : tensor<2x2x7xf32>
}

// -----

// Two operations read what is cropped: in front of both there is one crop, which goes on to what is reshaped.
// CHECK-LABEL: func.func @twice
// CHECK: tensor.extract_slice %arg0[0, 0, 1] [3, 4, 7] [1, 1, 1] : tensor<3x4x8xf32> to tensor<3x4x7xf32>
// CHECK-NOT: extract_slice
// CHECK: math.exp
// CHECK: tensor.collapse_shape {{.*}} : tensor<3x4x7xf32> into tensor<12x7xf32>
// CHECK-NOT: extract_slice
module attributes {inferno.expand_pieces} {
func.func @twice(%x: tensor<3x4x8xf32>) -> tensor<6x2x7xf32> {
  %e = tensor.empty() : tensor<3x4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<3x4x8xf32>) outs(%e : tensor<3x4x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<3x4x8xf32>
  %c = tensor.collapse_shape %y [[0, 1], [2]] : tensor<3x4x8xf32> into tensor<12x8xf32>
  %f = tensor.empty() : tensor<12x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<12x8xf32>) outs(%f : tensor<12x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = arith.negf %u : f32
    linalg.yield %v : f32
  } -> tensor<12x8xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%c, %n : tensor<12x8xf32>, tensor<12x8xf32>) outs(%f : tensor<12x8xf32>) {
  ^bb0(%u: f32, %w: f32, %o: f32):
    %v = arith.mulf %u, %w : f32
    linalg.yield %v : f32
  } -> tensor<12x8xf32>
  %s = tensor.extract_slice %m[0, 1] [12, 7] [1, 1] : tensor<12x8xf32> to tensor<12x7xf32>
  %r = tensor.expand_shape %s [[0, 1], [2]] output_shape [6, 2, 7] : tensor<12x7xf32> into tensor<6x2x7xf32>
  return %r : tensor<6x2x7xf32>
}
}
