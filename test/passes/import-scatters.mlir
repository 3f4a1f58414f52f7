// RUN: inferno-opt %s --pass-pipeline='import-scatters' | FileCheck %s

// Added to what is there, as many as there are: no size is held against 1.
// CHECK-LABEL: @added
// CHECK-DAG: %[[X:.*]] = torch_c.to_builtin_tensor %arg0
// CHECK-DAG: %[[I:.*]] = torch_c.to_builtin_tensor %arg1
// CHECK-DAG: %[[V:.*]] = torch_c.to_builtin_tensor %arg2
// CHECK-NOT: arith.maxsi
// CHECK-DAG: %[[ROWS:.*]] = tensor.expand_shape %[[V]] {{\[\[}}0, 1], [2]] output_shape [%{{.*}}, 1, 7] : tensor<?x7xf32> into tensor<?x1x7xf32>
// CHECK-DAG: %[[PLACES:.*]] = tensor.expand_shape %[[I]] {{\[\[}}0, 1]] output_shape [%{{.*}}, 1] : tensor<?xi64> into tensor<?x1xi64>
// CHECK: tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%[[ROWS]], %[[PLACES]] : {{.*}}) outs(%[[X]] : tensor<?x7xf32>)
// CHECK-NEXT: ^bb0(%[[NEW:.*]]: f32, %[[OLD:.*]]: f32):
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[OLD]], %[[NEW]]
// CHECK-NEXT: tm_tensor.yield %[[SUM]]
func.func @added(%x: !torch.vtensor<[?,7],f32>, %i: !torch.vtensor<[?],si64>, %v: !torch.vtensor<[?,7],f32>) -> !torch.vtensor<[?,7],f32> {
  %true = torch.constant.bool true
  %0 = torch.prim.ListConstruct %i : (!torch.vtensor<[?],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index_put %x, %0, %v, %true : !torch.vtensor<[?,7],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[?,7],f32>, !torch.bool -> !torch.vtensor<[?,7],f32>
  return %1 : !torch.vtensor<[?,7],f32>
}

// One value for all.
// CHECK-LABEL: @one
// CHECK: %[[ALL:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<1xi1>) outs(%{{.*}} : tensor<?x7xi1>)
// CHECK: tensor.expand_shape %[[ALL]]
// CHECK: tm_tensor.scatter {{.*}} unique_indices(true)
// CHECK-NEXT: ^bb0(%[[NEW:.*]]: i1, %{{.*}}: i1):
// CHECK-NEXT: tm_tensor.yield %[[NEW]]
func.func @one(%x: !torch.vtensor<[5,7],i1>, %i: !torch.vtensor<[?],si64>, %v: !torch.vtensor<[1],i1>) -> !torch.vtensor<[5,7],i1> {
  %false = torch.constant.bool false
  %0 = torch.prim.ListConstruct %i : (!torch.vtensor<[?],si64>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index_put %x, %0, %v, %false : !torch.vtensor<[5,7],i1>, !torch.list<optional<vtensor>>, !torch.vtensor<[1],i1>, !torch.bool -> !torch.vtensor<[5,7],i1>
  return %1 : !torch.vtensor<[5,7],i1>
}

// Masks, several index tensors, and places of a known number are left.
// CHECK-LABEL: @others
// CHECK-COUNT-3: torch.aten.index_put
func.func @others(%x: !torch.vtensor<[?,7],f32>, %m: !torch.vtensor<[?],i1>, %i: !torch.vtensor<[?],si64>, %j: !torch.vtensor<[3],si64>, %v: !torch.vtensor<[],f32>) -> !torch.vtensor<[?,7],f32> {
  %false = torch.constant.bool false
  %0 = torch.prim.ListConstruct %m : (!torch.vtensor<[?],i1>) -> !torch.list<optional<vtensor>>
  %1 = torch.aten.index_put %x, %0, %v, %false : !torch.vtensor<[?,7],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[],f32>, !torch.bool -> !torch.vtensor<[?,7],f32>
  %2 = torch.prim.ListConstruct %i, %i : (!torch.vtensor<[?],si64>, !torch.vtensor<[?],si64>) -> !torch.list<optional<vtensor>>
  %3 = torch.aten.index_put %1, %2, %v, %false : !torch.vtensor<[?,7],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[],f32>, !torch.bool -> !torch.vtensor<[?,7],f32>
  %4 = torch.prim.ListConstruct %j : (!torch.vtensor<[3],si64>) -> !torch.list<optional<vtensor>>
  %5 = torch.aten.index_put %3, %4, %v, %false : !torch.vtensor<[?,7],f32>, !torch.list<optional<vtensor>>, !torch.vtensor<[],f32>, !torch.bool -> !torch.vtensor<[?,7],f32>
  return %5 : !torch.vtensor<[?,7],f32>
}
