// RUN: inferno-opt -p merge-phases %s --split-input-file | FileCheck %s

// Four pixels side by side, columns before rows, of slices of slices: a transposition.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1, d2, d4)>
// CHECK-LABEL: func.func @patches
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<2x3x2x2x8xf32>
// CHECK-NEXT: %[[X:.*]] = tensor.expand_shape %arg0 {{\[}}[0, 1], [2, 3], [4]] output_shape [2, 2, 3, 2, 8]
// CHECK-NEXT: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[READ]], #{{.*}}]{{.*}} ins(%[[X]]
// CHECK: tensor.collapse_shape %[[Y]] {{\[}}[0], [1], [2, 3, 4]] : tensor<2x3x2x2x8xf32> into tensor<2x3x32xf32>
// CHECK-NEXT: return
module attributes {inferno.expand_pieces} {
func.func @patches(%x: tensor<4x6x8xf32>) -> tensor<2x3x32xf32> {
  %r0 = tensor.extract_slice %x[0, 0, 0] [2, 6, 8] [2, 1, 1] : tensor<4x6x8xf32> to tensor<2x6x8xf32>
  %r1 = tensor.extract_slice %x[1, 0, 0] [2, 6, 8] [2, 1, 1] : tensor<4x6x8xf32> to tensor<2x6x8xf32>
  %a = tensor.extract_slice %r0[0, 0, 0] [2, 3, 8] [1, 2, 1] : tensor<2x6x8xf32> to tensor<2x3x8xf32>
  %b = tensor.extract_slice %r1[0, 0, 0] [2, 3, 8] [1, 2, 1] : tensor<2x6x8xf32> to tensor<2x3x8xf32>
  %c = tensor.extract_slice %r0[0, 1, 0] [2, 3, 8] [1, 2, 1] : tensor<2x6x8xf32> to tensor<2x3x8xf32>
  %d = tensor.extract_slice %r1[0, 1, 0] [2, 3, 8] [1, 2, 1] : tensor<2x6x8xf32> to tensor<2x3x8xf32>
  %y = tensor.concat dim(2) %a, %b, %c, %d : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x32xf32>
  return %y : tensor<2x3x32xf32>
}
}

// -----

// One image, of which slices have no dimension.
// CHECK-LABEL: func.func @one
// CHECK-NOT: tensor.concat
// CHECK: linalg.generic
// CHECK: tensor.collapse_shape {{.*}} into tensor<1x3x16xf32>
module attributes {inferno.expand_pieces} {
func.func @one(%x: tensor<1x6x8xf32>) -> tensor<1x3x16xf32> {
  %a = tensor.extract_slice %x[0, 0, 0] [1, 3, 8] [1, 2, 1] : tensor<1x6x8xf32> to tensor<3x8xf32>
  %b = tensor.extract_slice %x[0, 1, 0] [1, 3, 8] [1, 2, 1] : tensor<1x6x8xf32> to tensor<3x8xf32>
  %v = tensor.expand_shape %a [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %w = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 3, 8] : tensor<3x8xf32> into tensor<1x3x8xf32>
  %y = tensor.concat dim(2) %v, %w : (tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> tensor<1x3x16xf32>
  return %y : tensor<1x3x16xf32>
}
}

// -----

// Phases in an order of none of the dimensions, one twice, a row that none has, along what is cut, and of two tensors.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-5: tensor.concat
module attributes {inferno.expand_pieces} {
func.func @others(%x: tensor<6x8xf32>, %y: tensor<6x8xf32>) -> (tensor<3x16xf32>, tensor<3x16xf32>, tensor<2x16xf32>, tensor<6x8xf32>, tensor<3x16xf32>) {
  %a = tensor.extract_slice %x[0, 0] [3, 8] [2, 1] : tensor<6x8xf32> to tensor<3x8xf32>
  %b = tensor.extract_slice %x[1, 0] [3, 8] [2, 1] : tensor<6x8xf32> to tensor<3x8xf32>
  %c = tensor.extract_slice %y[1, 0] [3, 8] [2, 1] : tensor<6x8xf32> to tensor<3x8xf32>
  %d = tensor.extract_slice %x[0, 0] [2, 8] [3, 1] : tensor<6x8xf32> to tensor<2x8xf32>
  %e = tensor.extract_slice %x[1, 0] [2, 8] [3, 1] : tensor<6x8xf32> to tensor<2x8xf32>
  %u = tensor.concat dim(1) %b, %a : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x16xf32>
  %v = tensor.concat dim(1) %a, %a : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x16xf32>
  %w = tensor.concat dim(1) %d, %e : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x16xf32>
  %z = tensor.concat dim(0) %a, %b : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<6x8xf32>
  %q = tensor.concat dim(1) %a, %c : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x16xf32>
  return %u, %v, %w, %z, %q : tensor<3x16xf32>, tensor<3x16xf32>, tensor<2x16xf32>, tensor<6x8xf32>, tensor<3x16xf32>
}
}

// -----

// Modules for the CPU stay.
// CHECK-LABEL: func.func @cpu
// CHECK: tensor.concat
func.func @cpu(%x: tensor<6x8xf32>) -> tensor<3x16xf32> {
  %a = tensor.extract_slice %x[0, 0] [3, 8] [2, 1] : tensor<6x8xf32> to tensor<3x8xf32>
  %b = tensor.extract_slice %x[1, 0] [3, 8] [2, 1] : tensor<6x8xf32> to tensor<3x8xf32>
  %u = tensor.concat dim(1) %a, %b : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x16xf32>
  return %u : tensor<3x16xf32>
}
