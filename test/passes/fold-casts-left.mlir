// RUN: inferno-opt %s -p fold-casts | FileCheck %s

// Nothing to say: no casts, casts that tell more than what was before, and casts of what has no rank.
// CHECK-LABEL: func.func @none
// CHECK-NEXT: %[[R:.*]] = tensor.concat dim(0) %arg0, %arg0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: return %[[R]]
// CHECK-LABEL: func.func @tells_more
// CHECK: %[[C:.*]] = tensor.cast
// CHECK: tensor.concat dim(0) %[[C]], %[[C]]
// CHECK-LABEL: func.func @unranked
// CHECK: %[[C:.*]] = tensor.cast
// CHECK: tensor.concat dim(0) %[[C]], %[[C]] : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NOT: tensor.cast
// CHECK: return
func.func @none(%x: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %0 = tensor.concat dim(0) %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @tells_more(%x: tensor<?x?xf32>) -> tensor<?x4xf32> {
  %c = tensor.cast %x : tensor<?x?xf32> to tensor<?x4xf32>
  %0 = tensor.concat dim(0) %c, %c : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
func.func @unranked(%x: tensor<*xf32>) -> tensor<?x4xf32> {
  %c = tensor.cast %x : tensor<*xf32> to tensor<?x4xf32>
  %0 = tensor.concat dim(0) %c, %c : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// A size of 0 is known; what reads a cast and is no concatenation keeps it.
// CHECK-LABEL: func.func @nothing
// CHECK: %[[C:.*]] = tensor.cast %arg0
// CHECK: tensor.concat dim(0) %arg0, %arg1 : (tensor<0x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK: return %{{.*}}, %[[C]]
func.func @nothing(%x: tensor<0x4xf32>, %y: tensor<3x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %c = tensor.cast %x : tensor<0x4xf32> to tensor<?x4xf32>
  %0 = tensor.concat dim(0) %c, %y : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
  return %0, %c : tensor<?x4xf32>, tensor<?x4xf32>
}

// One concatenation of another: both become static.
// CHECK-LABEL: func.func @nested
// CHECK: %[[A:.*]] = tensor.concat dim(1) %arg0, %arg0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
// CHECK: tensor.concat dim(0) %[[A]], %[[A]] : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
func.func @nested(%x: tensor<2x4xf32>) -> tensor<4x8xf32> {
  %c = tensor.cast %x : tensor<2x4xf32> to tensor<?x?xf32>
  %0 = tensor.concat dim(1) %c, %c : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %d = tensor.cast %0 : tensor<?x?xf32> to tensor<?x8xf32>
  %1 = tensor.concat dim(0) %d, %d : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
