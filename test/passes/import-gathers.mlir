// RUN: inferno-opt %s --pass-pipeline='import-gathers' | FileCheck %s

// Indices that meet in a dimension that varies; a negative one counts from the end.
// CHECK-LABEL: @behind
// CHECK-DAG: %[[X:.*]] = torch_c.to_builtin_tensor %arg0
// CHECK-DAG: %[[I:.*]] = torch_c.to_builtin_tensor %arg1
// CHECK-DAG: %[[J:.*]] = torch_c.to_builtin_tensor %arg2
// CHECK: linalg.generic {{.*}} ins(%[[I]], %[[J]] : tensor<?xi64>, tensor<?xi64>) outs({{.*}} : tensor<3x?x4xf32>)
// CHECK: %[[FIRST:.*]] = linalg.index 0
// CHECK: arith.cmpi slt
// CHECK: %[[P:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: %[[Q:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: %[[LAST:.*]] = linalg.index 2
// CHECK: tensor.extract %[[X]][%[[FIRST]], %[[P]], %[[Q]], %[[LAST]]]
func.func @behind(%x: !torch.vtensor<[3,?,9,4],f32>, %i: !torch.vtensor<[?],si64>, %j: !torch.vtensor<[?],si64>) -> !torch.vtensor<[3,?,4],f32> {
  %none = torch.constant.none
  %0 = torch.prim.ListConstruct %none, %i, %j : (!torch.none, !torch.vtensor<[?],si64>, !torch.vtensor<[?],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index.Tensor %x, %0 : !torch.vtensor<[3,?,9,4],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[3,?,4],f32>
  return %1 : !torch.vtensor<[3,?,4],f32>
}

// One of size 1 is the same all over, and what stands apart comes first.
// CHECK-LABEL: @apart
// CHECK: linalg.generic {indexing_maps = [#[[COLUMN:.*]], #[[ROW:.*]], #{{.*}}], {{.*}} ins({{.*}} : tensor<?x1xi64>, tensor<?xi64>) outs({{.*}} : tensor<?x?x5xf32>)
// CHECK: %[[MIDDLE:.*]] = linalg.index 2
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %[[MIDDLE]], %{{.*}}]
func.func @apart(%x: !torch.vtensor<[?,5,?],f32>, %i: !torch.vtensor<[?,1],si64>, %j: !torch.vtensor<[?],si64>) -> !torch.vtensor<[?,?,5],f32> {
  %none = torch.constant.none
  %0 = torch.prim.ListConstruct %i, %none, %j : (!torch.vtensor<[?,1],si64>, !torch.none, !torch.vtensor<[?],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index.Tensor %x, %0 : !torch.vtensor<[?,5,?],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[?,?,5],f32>
  return %1 : !torch.vtensor<[?,?,5],f32>
}

// Masks are left, and so are indices of known sizes, which torch-mlir imports.
// CHECK-LABEL: @others
// CHECK-COUNT-2: torch.aten.index.Tensor
func.func @others(%x: !torch.vtensor<[?,9],f32>, %i: !torch.vtensor<[?],si64>, %m: !torch.vtensor<[9],i1>, %j: !torch.vtensor<[7],si64>) -> (!torch.vtensor<[?],f32>, !torch.vtensor<[7],f32>) {
  %0 = torch.prim.ListConstruct %i, %m : (!torch.vtensor<[?],si64>, !torch.vtensor<[9],i1>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index.Tensor %x, %0 : !torch.vtensor<[?,9],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[?],f32>
  %2 = torch.prim.ListConstruct %j, %j : (!torch.vtensor<[7],si64>, !torch.vtensor<[7],si64>) -> !torch.list<optional<vtensor>>
  %3 = torch.aten.index.Tensor %x, %2 : !torch.vtensor<[?,9],f32>, !torch.list<optional<vtensor>> -> !torch.vtensor<[7],f32>
  return %1, %3 : !torch.vtensor<[?],f32>, !torch.vtensor<[7],f32>
}
