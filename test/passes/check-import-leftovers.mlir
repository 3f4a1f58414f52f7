// RUN: not inferno-opt %s --pass-pipeline='check-import' 2>&1 | FileCheck %s

// CHECK: check-import: torch.aten.relu was left behind
func.func @main(%x: !torch.vtensor<[3],f32>) -> !torch.vtensor<[3],f32> {
  %0 = torch.aten.relu %x : !torch.vtensor<[3],f32> -> !torch.vtensor<[3],f32>
  return %0 : !torch.vtensor<[3],f32>
}
