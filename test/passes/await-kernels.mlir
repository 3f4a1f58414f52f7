// RUN: inferno-opt %s --pass-pipeline='await-kernels' | FileCheck %s

gpu.module @m {
  // Kernels let the next one come, and wait before anything else.
  // CHECK: llvm.func @kernel
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: llvm.load
  llvm.func @kernel(%a: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.load %a : !llvm.ptr<1> -> f32
    llvm.store %0, %a : f32, !llvm.ptr<1>
    llvm.return
  }
  // CHECK: llvm.func @itself
  // CHECK-NEXT: llvm.mlir.constant
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: llvm.return
  llvm.func @itself() attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.mlir.constant(0 : i32) : i32
    nvvm.griddepcontrol wait
    llvm.return
  }
  // Functions that they call do not, and declarations cannot.
  // CHECK: llvm.func @called
  // CHECK-NEXT: llvm.return
  llvm.func @called() {
    llvm.return
  }
  // CHECK: llvm.func @__nv_expf
  llvm.func @__nv_expf(f32) -> f32
  // CHECK-NOT: griddepcontrol
}
