// RUN: inferno-opt %s --pass-pipeline='import-constants' | FileCheck %s
// RUN: inferno-opt %s --pass-pipeline='import-constants,torchdynamo-export-to-torch-backend-pipeline{extra-library=},torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true},restore-constants' | FileCheck %s --check-prefix=WHOLE

// torch-mlir folds both to other numbers: 1.8e19 and true.
// CHECK-LABEL: @mixed
// CHECK: linalg.fill ins(%{{.*}} : f32)
// CHECK: torch_c.from_builtin_tensor
// WHOLE-LABEL: @mixed
// WHOLE-DAG: arith.constant dense<2.000000e+00> : tensor<3xf32>
// WHOLE-DAG: arith.constant -1.000000e+00 : f32
// WHOLE: arith.cmpf olt
func.func @mixed() -> (!torch.vtensor<[3],f32>, !torch.vtensor<[3],i1>) {
  %int1 = torch.constant.int 1
  %number = torch.constant.int 2
  %minus = torch.constant.int -1
  %type = torch.constant.int 6
  %three = torch.constant.int 3
  %none = torch.constant.none
  %sizes = torch.prim.ListConstruct %three : (!torch.int) -> !torch.list<int>
  %0 = torch.aten.full %sizes, %number, %type, %none, %none, %none : !torch.list<int>, !torch.int, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[3],f32>
  %1 = torch.aten.add.Scalar %0, %minus, %int1 : !torch.vtensor<[3],f32>, !torch.int, !torch.int -> !torch.vtensor<[3],f32>
  %2 = torch.aten.lt.Scalar %0, %minus : !torch.vtensor<[3],f32>, !torch.int -> !torch.vtensor<[3],i1>
  return %1, %2 : !torch.vtensor<[3],f32>, !torch.vtensor<[3],i1>
}

// CHECK-LABEL: @booleans
// CHECK: arith.constant true
// CHECK: linalg.fill ins(%{{.*}} : i1) outs(%{{.*}} : tensor<2x3xi1>)
func.func @booleans() -> !torch.vtensor<[2,3],i1> {
  %two = torch.constant.int 2
  %three = torch.constant.int 3
  %type = torch.constant.int 11
  %none = torch.constant.none
  %sizes = torch.prim.ListConstruct %two, %three : (!torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.aten.ones %sizes, %type, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2,3],i1>
  return %0 : !torch.vtensor<[2,3],i1>
}

// A number that is not known, and a size that varies.
// CHECK-LABEL: @left
// CHECK: torch.aten.full_like
// CHECK: torch.aten.zeros_like
// WHOLE-LABEL: @left
func.func @left(%x: !torch.vtensor<[3],f32>, %y: !torch.vtensor<[?],f32>, %n: !torch.float) -> (!torch.vtensor<[3],f32>, !torch.vtensor<[?],f32>) {
  %none = torch.constant.none
  %0 = torch.aten.full_like %x, %n, %none, %none, %none, %none, %none : !torch.vtensor<[3],f32>, !torch.float, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[3],f32>
  %1 = torch.aten.zeros_like %y, %none, %none, %none, %none, %none : !torch.vtensor<[?],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[?],f32>
  return %0, %1 : !torch.vtensor<[3],f32>, !torch.vtensor<[?],f32>
}
