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
