// The named pipelines take text from stage to stage.
// RUN: inferno-opt %s -p 'inferno-fuse,inferno-schedule{target=sm_90a},inferno-generate{target=sm_90a}' | FileCheck %s --check-prefix=GPU
// RUN: inferno-opt %s -p 'inferno-fuse,inferno-schedule{target=sm_90a},inferno-generate{target=sm_90a},inferno-lower' | FileCheck %s --check-prefix=LLVM
// RUN: inferno-opt %s -p 'inferno-fuse,inferno-schedule{target=cpu},inferno-generate{target=cpu}' | FileCheck %s --check-prefix=CPU

// GPU: func.func @main(%arg0: memref<64xf32>, %arg1: memref<64xf32> {inferno.result = 0 : i64})
// GPU: inferno.launch
// GPU: gpu.module
// LLVM: gpu.module
// LLVM: llvm.func {{.*}}nvvm.kernel
// CPU: inferno.launch
// CPU: module @
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
