// RUN: inferno-opt %s --pass-pipeline='import-bitcasts' | FileCheck %s

// CHECK-LABEL: @bits
// CHECK: linalg.generic
// CHECK: arith.bitcast %{{.*}} : f32 to i32
// CHECK: torch_c.from_builtin_tensor {{.*}} -> !torch.vtensor<[4,?],si32>
func.func @bits(%x: !torch.vtensor<[4,?],f32>) -> !torch.vtensor<[4,?],si32> {
  %type = torch.constant.int 3
  %0 = torch.aten.view.dtype %x, %type : !torch.vtensor<[4,?],f32>, !torch.int -> !torch.vtensor<[4,?],si32>
  return %0 : !torch.vtensor<[4,?],si32>
}

// Of another width: two numbers become one.
// CHECK-LABEL: @wider
// CHECK: torch.aten.view.dtype
func.func @wider(%x: !torch.vtensor<[4,6],f32>) -> !torch.vtensor<[4,3],f64> {
  %type = torch.constant.int 7
  %0 = torch.aten.view.dtype %x, %type : !torch.vtensor<[4,6],f32>, !torch.int -> !torch.vtensor<[4,3],f64>
  return %0 : !torch.vtensor<[4,3],f64>
}

// A byte of a float of 8 bits, whose sign a byte does not have.
// CHECK-LABEL: @bytes
// CHECK: arith.bitcast %{{.*}} : f8E4M3FN to i8
// CHECK: torch_c.from_builtin_tensor {{.*}} -> !torch.vtensor<[4],ui8>
func.func @bytes(%x: !torch.vtensor<[4],f8E4M3FN>) -> !torch.vtensor<[4],ui8> {
  %type = torch.constant.int 0
  %0 = torch.aten.view.dtype %x, %type : !torch.vtensor<[4],f8E4M3FN>, !torch.int -> !torch.vtensor<[4],ui8>
  return %0 : !torch.vtensor<[4],ui8>
}
