// RUN: inferno-opt %s --pass-pipeline='import-row-extremes' --split-input-file | FileCheck %s
// RUN: inferno-opt %s --pass-pipeline='import-row-extremes,torch-backend-to-linalg-on-tensors-backend-pipeline' --split-input-file | FileCheck %s --check-prefix=LINALG

// CHECK-LABEL: @largest
// CHECK-DAG: %[[X:.*]] = torch_c.to_builtin_tensor %arg0 : !torch.vtensor<[20,8],si32> -> tensor<20x8xi32>
// CHECK-DAG: %[[R:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0, 1], [2]] output_shape [90, 1, 8]
// CHECK-DAG: %[[P:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0, 1]] output_shape [90, 1]
// CHECK: %[[S:.*]] = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%[[R]], %[[P]] : tensor<90x1x8xi32>, tensor<90x1xi64>) outs(%[[X]] : tensor<20x8xi32>)
// CHECK: ^bb0(%[[U:.*]]: i32, %[[O:.*]]: i32):
// CHECK: arith.maxsi %[[O]], %[[U]]
// CHECK: torch_c.from_builtin_tensor %[[S]]
// LINALG-LABEL: @largest
// LINALG: tm_tensor.scatter
func.func @largest(%x: !torch.vtensor<[20,8],si32>, %places: !torch.vtensor<[90],si64>, %rows: !torch.vtensor<[90,8],si32>) -> !torch.vtensor<[20,8],si32> {
  %kind = torch.constant.str "amax"
  %0 = torch.operator "torch.inferno.reduce_rows"(%x, %places, %rows, %kind) : (!torch.vtensor<[20,8],si32>, !torch.vtensor<[90],si64>, !torch.vtensor<[90,8],si32>, !torch.str) -> !torch.vtensor<[20,8],si32>
  return %0 : !torch.vtensor<[20,8],si32>
}

// -----

// Of sizes that vary.
// CHECK-LABEL: @smallest
// CHECK: tensor.expand_shape %{{.*}} {{\[}}[0, 1], [2]] output_shape [%{{.*}}, 1, 8] : tensor<?x8xi64> into tensor<?x1x8xi64>
// CHECK: arith.minsi
// LINALG-LABEL: @smallest
// LINALG: tm_tensor.scatter
func.func @smallest(%x: !torch.vtensor<[?,8],si64>, %places: !torch.vtensor<[?],si64>, %rows: !torch.vtensor<[?,8],si64>) -> !torch.vtensor<[?,8],si64> {
  %kind = torch.constant.str "amin"
  %0 = torch.operator "torch.inferno.reduce_rows"(%x, %places, %rows, %kind) : (!torch.vtensor<[?,8],si64>, !torch.vtensor<[?],si64>, !torch.vtensor<[?,8],si64>, !torch.str) -> !torch.vtensor<[?,8],si64>
  return %0 : !torch.vtensor<[?,8],si64>
}
