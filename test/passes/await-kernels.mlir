// RUN: inferno-opt %s --pass-pipeline='await-kernels' | FileCheck %s

gpu.module @m {
  // Kernels wait before anything else.  What comes behind this one is not known.
  // CHECK: llvm.func @kernel
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: llvm.load
  llvm.func @kernel(%a: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.load %a : !llvm.ptr<1> -> f32
    llvm.store %0, %a : f32, !llvm.ptr<1>
    llvm.return
  }
  // One that waits at a place of its own.
  // CHECK: llvm.func @itself
  // CHECK-NEXT: llvm.mlir.constant
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: llvm.return
  llvm.func @itself() attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.mlir.constant(0 : i32) : i32
    nvvm.griddepcontrol wait
    llvm.return
  }
  // And one that has done it all.
  // CHECK: llvm.func @all
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: llvm.mlir.constant
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: llvm.return
  llvm.func @all() attributes {gpu.kernel, nvvm.kernel} {
    nvvm.griddepcontrol wait
    %0 = llvm.mlir.constant(0 : i32) : i32
    nvvm.griddepcontrol launch_dependents
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

// In front of another kernel of the program the next one comes first.
// CHECK: gpu.module @n
gpu.module @n attributes {inferno.successor = "kernel"} {
  // CHECK: llvm.func @kernel
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: llvm.load
  llvm.func @kernel(%a: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.load %a : !llvm.ptr<1> -> f32
    llvm.store %0, %a : f32, !llvm.ptr<1>
    llvm.return
  }
}

// In front of a library's none comes.
// CHECK: gpu.module @o
gpu.module @o attributes {inferno.successor = "library"} {
  // CHECK: llvm.func @kernel
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: llvm.load
  // CHECK-NOT: launch_dependents
  llvm.func @kernel(%a: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.load %a : !llvm.ptr<1> -> f32
    llvm.store %0, %a : f32, !llvm.ptr<1>
    llvm.return
  }
}
