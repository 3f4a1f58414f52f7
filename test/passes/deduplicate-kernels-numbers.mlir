// RUN: inferno-opt %s -p deduplicate-kernels --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p deduplicate-kernels,deduplicate-kernels --split-input-file | FileCheck %s

// Numbers have no gaps, and leave out a name that something else has.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: call @exp(
// CHECK-NEXT: call @exp(
// CHECK-NEXT: call @exp_2(
// CHECK-NEXT: call @exp_2(
// CHECK-NEXT: return
// CHECK-LABEL: func.func @exp_1(
// CHECK-LABEL: func.func private @exp(
// CHECK-LABEL: func.func private @exp_2(
// CHECK: linalg.log
// CHECK-NOT: func.func
func.func @main(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @exp(%x, %o) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = call @exp_3(%0, %o) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = call @exp_4(%1, %o) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = call @exp_5(%2, %o) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func @exp_1(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @exp(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @exp_3(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @exp_4(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.log ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @exp_5(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.log ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// One shape, one constant or one order of arguments apart: not equal.
// CHECK-LABEL: func.func private @scale(
// CHECK-LABEL: func.func private @scale_1(
// CHECK-LABEL: func.func private @scale_2(
// CHECK-LABEL: func.func private @difference(
// CHECK-LABEL: func.func private @difference_1(
func.func private @scale(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<2.0> : tensor<8xf32>
  %0 = linalg.mul ins(%x, %c : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @scale_1(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<2.00000024> : tensor<8xf32>
  %0 = linalg.mul ins(%x, %c : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @scale_2(%x: tensor<9xf32>, %o: tensor<9xf32>) -> tensor<9xf32> {
  %c = arith.constant dense<2.0> : tensor<9xf32>
  %0 = linalg.mul ins(%x, %c : tensor<9xf32>, tensor<9xf32>) outs(%o : tensor<9xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
func.func private @difference(%x: tensor<8xf32>, %y: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.sub ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @difference_1(%x: tensor<8xf32>, %y: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.sub ins(%y, %x : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
