// RUN: inferno-opt %s --pass-pipeline='import-roundings' | FileCheck %s

// What a number has beyond 16 bits: the cast stays between the two that are float32.
// CHECK-LABEL: @rest
// CHECK: arith.truncf %{{.*}} {inferno.rounds} : f32 to bf16
// CHECK: torch_c.from_builtin_tensor {{.*}} -> !torch.vtensor<[4,?],bf16>
func.func @rest(%x: !torch.vtensor<[4,?],f32>) -> !torch.vtensor<[4,?],f32> {
  %bf16 = torch.constant.int 15
  %f32 = torch.constant.int 6
  %one = torch.constant.int 1
  %none = torch.constant.none
  %false = torch.constant.bool false
  %0 = torch.aten._to_copy %x, %bf16, %none, %none, %none, %false, %none : !torch.vtensor<[4,?],f32>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4,?],bf16>
  %1 = torch.prims.convert_element_type %0, %f32 : !torch.vtensor<[4,?],bf16>, !torch.int -> !torch.vtensor<[4,?],f32>
  %2 = torch.aten.sub.Tensor %x, %1, %one : !torch.vtensor<[4,?],f32>, !torch.vtensor<[4,?],f32>, !torch.int -> !torch.vtensor<[4,?],f32>
  return %2 : !torch.vtensor<[4,?],f32>
}

// All bytes are numbers of bf16: nothing is rounded.
// CHECK-LABEL: @exact
// CHECK: torch.aten._to_copy
func.func @exact(%x: !torch.vtensor<[4],ui8>) -> !torch.vtensor<[4],bf16> {
  %bf16 = torch.constant.int 15
  %none = torch.constant.none
  %false = torch.constant.bool false
  %0 = torch.aten._to_copy %x, %bf16, %none, %none, %none, %false, %none : !torch.vtensor<[4],ui8>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[4],bf16>
  return %0 : !torch.vtensor<[4],bf16>
}
