// RUN: inferno-opt %s -p fold-casts,canonicalize | FileCheck %s

// CHECK-LABEL: func.func @roll
// CHECK: tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
// CHECK-NOT: tensor.cast
func.func @roll(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %0 = tensor.extract_slice %x[4, 0] [2, 4] [1, 1] : tensor<6x4xf32> to tensor<2x4xf32>
  %1 = tensor.cast %0 : tensor<2x4xf32> to tensor<?x4xf32>
  %2 = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<6x4xf32> to tensor<4x4xf32>
  %3 = tensor.cast %2 : tensor<4x4xf32> to tensor<?x?xf32>
  %4 = tensor.cast %3 : tensor<?x?xf32> to tensor<?x4xf32>
  %5 = tensor.concat dim(0) %1, %4 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<6x4xf32>
  return %5 : tensor<6x4xf32>
}

// The result's sizes become known too; users still see the type that they had.
// CHECK-LABEL: func.func @result
// CHECK: %[[C:.*]] = tensor.concat dim(1) %arg0, %arg1 : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>
// CHECK: %[[R:.*]] = tensor.cast %[[C]] : tensor<2x7xf32> to tensor<?x?xf32>
// CHECK: return %[[R]]
func.func @result(%a: tensor<2x4xf32>, %b: tensor<2x3xf32>) -> tensor<?x?xf32> {
  %0 = tensor.cast %a : tensor<2x4xf32> to tensor<2x?xf32>
  %1 = tensor.cast %b : tensor<2x3xf32> to tensor<?x?xf32>
  %2 = tensor.concat dim(1) %0, %1 : (tensor<2x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %2 : tensor<?x?xf32>
}

// A size that one operand does not tell stays dynamic; a cast that tells more than what is before it stays.
// CHECK-LABEL: func.func @dynamic
// CHECK: %[[S:.*]] = tensor.cast %arg1 : tensor<?x?xf32> to tensor<2x?xf32>
// CHECK: tensor.concat dim(1) %arg0, %[[S]] : (tensor<2x4xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>
func.func @dynamic(%a: tensor<2x4xf32>, %b: tensor<?x?xf32>) -> tensor<2x?xf32> {
  %0 = tensor.cast %a : tensor<2x4xf32> to tensor<2x?xf32>
  %1 = tensor.cast %b : tensor<?x?xf32> to tensor<2x?xf32>
  %2 = tensor.concat dim(1) %0, %1 : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>
  return %2 : tensor<2x?xf32>
}
