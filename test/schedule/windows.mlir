// A depthwise convolution and its padding are one kernel on CUDA cores, by whole vectors of channels.

// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a},generate-kernels{target=sm_90a}' | FileCheck %s --check-prefix=CODE

// CHECK: func.func private @conv
// CHECK-SAME: inferno.schedule = {{{.*}}generator = "windows"{{.*}}vector = {{[248]}} : i64}

// No tensor is padded: what is outside of the image is not read.
// CODE: gpu.func @conv(%{{.*}}: memref<401408xbf16, 1> {{{.*}}llvm.readonly}, %{{.*}}: memref<288xbf16, 1>
// CODE: scf.if %{{.*}} -> (vector<{{.*}}xbf16>)
// CODE: vector.load
// CODE: vector.fma
// CODE: vector.store
// CODE-NOT: tensor.pad
#in = affine_map<(n, y, x, c, r, s) -> (n, y + r, x + s, c)>
#window = affine_map<(n, y, x, c, r, s) -> (r, s, c)>
#out = affine_map<(n, y, x, c, r, s) -> (n, y, x, c)>
#all = affine_map<(n, y, x, c) -> (n, y, x, c)>
module {
  func.func private @conv(%x: tensor<4x56x56x32xbf16>, %w: tensor<3x3x32xbf16>, %o: tensor<4x56x56x32xbf16>) -> tensor<4x56x56x32xbf16> {
    %none = arith.constant 0.0 : bf16
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %none : bf16
    } : tensor<4x56x56x32xbf16> to tensor<4x58x58x32xbf16>
    %e = tensor.empty() : tensor<4x56x56x32xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x56x56x32xf32>) -> tensor<4x56x56x32xf32>
    %r = linalg.generic {indexing_maps = [#in, #window, #out],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
        ins(%p, %w : tensor<4x58x58x32xbf16>, tensor<3x3x32xbf16>) outs(%f : tensor<4x56x56x32xf32>) {
    ^bb0(%a: bf16, %b: bf16, %s: f32):
      %u = arith.extf %a : bf16 to f32
      %v = arith.extf %b : bf16 to f32
      %t = arith.mulf %u, %v : f32
      %q = arith.addf %s, %t : f32
      linalg.yield %q : f32
    } -> tensor<4x56x56x32xf32>
    %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%r : tensor<4x56x56x32xf32>) outs(%o : tensor<4x56x56x32xbf16>) {
    ^bb0(%a: f32, %b: bf16):
      %t = arith.truncf %a : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<4x56x56x32xbf16>
    return %y : tensor<4x56x56x32xbf16>
  }
}
