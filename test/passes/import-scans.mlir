// RUN: inferno-opt %s --pass-pipeline='import-scans' | FileCheck %s
// RUN: inferno-opt %s --pass-pipeline='import-scans,torch-backend-to-linalg-on-tensors-backend-pipeline' | FileCheck %s --check-prefix=LINALG

// CHECK-LABEL: @max
// CHECK: %[[B:.*]] = torch_c.to_builtin_tensor %arg0
// CHECK: %[[S:.*]]:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%[[B]]
// CHECK: arith.maxsi
// CHECK: torch_c.from_builtin_tensor %[[S]]#0
// LINALG-LABEL: @max
// LINALG: tm_tensor.scan dimension(1) inclusive(true) ins(%arg0 : tensor<4x9xi64>)
func.func @max(%x: !torch.vtensor<[4,9],si64>) -> !torch.vtensor<[4,9],si64> {
  %dim = torch.constant.int -1
  %kind = torch.constant.str "max"
  %0 = torch.operator "torch.inferno.running"(%x, %dim, %kind) : (!torch.vtensor<[4,9],si64>, !torch.int, !torch.str) -> !torch.vtensor<[4,9],si64>
  return %0 : !torch.vtensor<[4,9],si64>
}

// A body of several operations says what it is.
// CHECK-LABEL: @logaddexp
// CHECK: tm_tensor.scan dimension(0) inclusive(true) {inferno.running = "logaddexp"}
// CHECK: arith.maximumf
// CHECK: math.log1p
// LINALG-LABEL: @logaddexp
// LINALG: tm_tensor.scan dimension(0) inclusive(true) {inferno.running = "logaddexp"}
func.func @logaddexp(%x: !torch.vtensor<[?,9],f32>) -> !torch.vtensor<[?,9],f32> {
  %dim = torch.constant.int 0
  %kind = torch.constant.str "logaddexp"
  %0 = torch.operator "torch.inferno.running"(%x, %dim, %kind) : (!torch.vtensor<[?,9],f32>, !torch.int, !torch.str) -> !torch.vtensor<[?,9],f32>
  return %0 : !torch.vtensor<[?,9],f32>
}

// A recurrence is a scan of pairs.
// CHECK-LABEL: @recurrence
// CHECK: %[[W:.*]] = linalg.generic
// CHECK: arith.shli
// CHECK: %[[S:.*]]:2 = tm_tensor.scan dimension(1) inclusive(true) {inferno.running = "linear"} ins(%[[W]] : tensor<4x9xi64>)
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} ins(%[[S]]#0
// CHECK: arith.bitcast {{.*}} : i32 to f32
func.func @recurrence(%a: !torch.vtensor<[4,9],f32>, %b: !torch.vtensor<[4,9],f32>) -> !torch.vtensor<[4,9],f32> {
  %dim = torch.constant.int 1
  %0 = torch.operator "torch.inferno.recurrence"(%a, %b, %dim) : (!torch.vtensor<[4,9],f32>, !torch.vtensor<[4,9],f32>, !torch.int) -> !torch.vtensor<[4,9],f32>
  return %0 : !torch.vtensor<[4,9],f32>
}
