// RUN: inferno-opt %s -p deduplicate-kernels | FileCheck %s
// RUN: inferno-opt %s -p deduplicate-kernels --mlir-print-debuginfo | FileCheck %s --check-prefix=SOURCE

// Equal but for the name and the locations: one function, called twice, each call with its own source.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[A:.*]] = call @exp(%arg0, %arg1) {inferno.source = ["first"]}
// CHECK-NEXT: %[[B:.*]] = call @exp(%[[A]], %arg1) {inferno.source = ["second"]}
// CHECK-NEXT: %[[C:.*]] = call @exp_1(%[[B]], %arg1)
// CHECK-NEXT: %[[D:.*]] = call @exp_2(%[[C]], %arg1)
// CHECK-NEXT: return %[[D]]
// CHECK-LABEL: func.func private @exp(
// CHECK: linalg.exp
// CHECK-LABEL: func.func private @exp_1(
// CHECK: linalg.log
// CHECK-LABEL: func.func private @exp_2(
// CHECK-SAME: inferno.schedule
// CHECK: linalg.exp
// CHECK-LABEL: func.func @public
// CHECK-LABEL: func.func private @declared(
// CHECK-LABEL: func.func private @declared_1(
// SOURCE: call @exp(%{{.*}}, %{{.*}}) {inferno.source = ["second"]} {{.*}} loc(
func.func @main(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @exp(%x, %o) {inferno.source = ["first"]} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = call @exp_1(%0, %o) {inferno.source = ["second"]} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = call @exp_2(%1, %o) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = call @exp_3(%2, %o) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func private @exp(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32> loc("here")
  return %0 : tensor<8xf32>
}
func.func private @exp_1(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32> loc("there")
  return %0 : tensor<8xf32>
}
// Differs in an operation; differs in an attribute.
func.func private @exp_2(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.log ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @exp_3(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "loops"}} {
  %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
// Not kernels: a public function, and functions without a body.
func.func @public(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @declared(tensor<8xf32>) -> tensor<8xf32>
func.func private @declared_1(tensor<8xf32>) -> tensor<8xf32>
