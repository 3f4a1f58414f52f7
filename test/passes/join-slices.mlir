// RUN: inferno-opt -p join-slices %s --split-input-file | FileCheck %s

// Steps multiply, and begins add up; a dimension that is gone keeps its place.
// CHECK-LABEL: func.func @joined
// CHECK-NEXT: %[[P:.*]] = tensor.extract_slice %arg0[4, 5, 10] [1, 3, 5] [1, 2, 4] : tensor<8x16x64xf32> to tensor<3x5xf32>
// CHECK-NEXT: return %[[P]]
func.func @joined(%x: tensor<8x16x64xf32>) -> tensor<3x5xf32> {
  %a = tensor.extract_slice %x[4, 1, 2] [1, 7, 20] [1, 2, 2] : tensor<8x16x64xf32> to tensor<7x20xf32>
  %b = tensor.extract_slice %a[2, 4] [3, 5] [1, 2] : tensor<7x20xf32> to tensor<3x5xf32>
  return %b : tensor<3x5xf32>
}

// -----

// Who reads the first part still has it.
// CHECK-LABEL: func.func @both
// CHECK-DAG: tensor.extract_slice %arg0[0, 8] [8, 8] [1, 1]
// CHECK-DAG: tensor.extract_slice %arg0[2, 8] [1, 8] [1, 1] : tensor<8x16xf32> to tensor<8xf32>
// CHECK: return
func.func @both(%x: tensor<8x16xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %a = tensor.extract_slice %x[0, 8] [8, 8] [1, 1] : tensor<8x16xf32> to tensor<8x8xf32>
  %b = tensor.extract_slice %a[2, 0] [1, 8] [1, 1] : tensor<8x8xf32> to tensor<8xf32>
  return %a, %b : tensor<8x8xf32>, tensor<8xf32>
}

// -----

// Sizes that vary stay.
// CHECK-LABEL: func.func @varies
// CHECK-COUNT-2: tensor.extract_slice
func.func @varies(%x: tensor<?x16xf32>, %n: index) -> tensor<?x4xf32> {
  %a = tensor.extract_slice %x[0, 8] [%n, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %b = tensor.extract_slice %a[0, 0] [%n, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
  return %b : tensor<?x4xf32>
}

// -----

// Dimensions of one element between the two make no difference.
// CHECK-LABEL: func.func @ones
// CHECK-NEXT: %[[P:.*]] = tensor.extract_slice %arg0[0, 0, 4] [16, 5, 5] [1, 1, 1] : tensor<16x64x64xf32> to tensor<16x5x5xf32>
// CHECK-NEXT: %[[E:.*]] = tensor.expand_shape %[[P]] {{\[}}[0, 1], [2], [3]] output_shape [1, 16, 5, 5]
// CHECK-NEXT: return %[[E]]
func.func @ones(%x: tensor<16x64x64xf32>) -> tensor<1x16x5x5xf32> {
  %a = tensor.extract_slice %x[0, 0, 0] [16, 5, 64] [1, 1, 1] : tensor<16x64x64xf32> to tensor<16x5x64xf32>
  %b = tensor.expand_shape %a [[0, 1], [2], [3]] output_shape [1, 16, 5, 64] : tensor<16x5x64xf32> into tensor<1x16x5x64xf32>
  %c = tensor.extract_slice %b[0, 0, 0, 4] [1, 16, 5, 5] [1, 1, 1, 1] : tensor<1x16x5x64xf32> to tensor<1x16x5x5xf32>
  return %c : tensor<1x16x5x5xf32>
}

// -----

// CHECK-LABEL: func.func @one_is_taken
// CHECK-NEXT: %[[P:.*]] = tensor.extract_slice %arg0[0, 3, 0] [16, 1, 2] [1, 1, 1] : tensor<16x64x64xf32> to tensor<16x2xf32>
// CHECK-NEXT: return %[[P]]
func.func @one_is_taken(%x: tensor<16x64x64xf32>) -> tensor<16x2xf32> {
  %a = tensor.extract_slice %x[0, 3, 0] [16, 1, 64] [1, 1, 1] : tensor<16x64x64xf32> to tensor<16x1x64xf32>
  %b = tensor.collapse_shape %a [[0], [1, 2]] : tensor<16x1x64xf32> into tensor<16x64xf32>
  %c = tensor.extract_slice %b[0, 0] [16, 2] [1, 1] : tensor<16x64xf32> to tensor<16x2xf32>
  return %c : tensor<16x2xf32>
}

// -----

// Others are groups of what is there: what is a slice of them is none.
// CHECK-LABEL: func.func @groups
// CHECK-COUNT-2: tensor.extract_slice
func.func @groups(%x: tensor<16x64xf32>) -> tensor<2x16xf32> {
  %a = tensor.extract_slice %x[0, 32] [16, 32] [1, 1] : tensor<16x64xf32> to tensor<16x32xf32>
  %b = tensor.expand_shape %a [[0, 1], [2]] output_shape [4, 4, 32] : tensor<16x32xf32> into tensor<4x4x32xf32>
  %c = tensor.extract_slice %b[1, 0, 0] [1, 2, 16] [1, 1, 1] : tensor<4x4x32xf32> to tensor<2x16xf32>
  return %c : tensor<2x16xf32>
}
