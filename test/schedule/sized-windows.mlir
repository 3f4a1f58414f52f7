// A depthwise convolution of images whose height and width vary, and its padding, are one kernel on CUDA cores: neither is copied.

// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a},generate-kernels{target=sm_90a}' | FileCheck %s --check-prefix=CODE

// CHECK: func.func private @conv
// CHECK-SAME: inferno.schedule = {{{.*}}generator = "windows"{{.*}}vector = {{[248]}} : i64}

// Offsets have 32 bits, and places beyond the image are told by sizes that the kernel gets.
// CODE: gpu.func @conv(%[[H:.*]]: index, %[[W:.*]]: index, %{{.*}}: memref<{{.*}}xbf16, 1> {{{.*}}llvm.readonly}
// CODE-DAG: arith.index_cast %[[H]] : index to i32
// CODE-DAG: arith.index_cast %[[W]] : index to i32
// CODE: arith.cmpi ult, %{{.*}}, %{{.*}} : i32
// CODE: scf.if %{{.*}} -> (vector<{{.*}}xbf16>)
// CODE: vector.load
// CODE: vector.fma
// CODE-NOT: tensor.pad
#in = affine_map<(n, y, x, c, r, s) -> (n, y + r, x + s, c)>
#window = affine_map<(n, y, x, c, r, s) -> (r, s, c)>
#out = affine_map<(n, y, x, c, r, s) -> (n, y, x, c)>
#all = affine_map<(n, y, x, c) -> (n, y, x, c)>
#sizes = affine_map<()[h, w] -> (4, h, w, 32)>
module {
  func.func private @conv(%h: index {inferno.divisor = 1 : i64, inferno.hint = 56 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "h"},
      %l: index {inferno.divisor = 1 : i64, inferno.hint = 56 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "w"},
      %x: tensor<4x?x?x32xbf16> {inferno.sizes = #sizes}, %w: tensor<3x3x32xbf16>, %o: tensor<4x?x?x32xbf16> {inferno.sizes = #sizes}) -> tensor<4x?x?x32xbf16> {
    %none = arith.constant 0.0 : bf16
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %m: index):
      tensor.yield %none : bf16
    } : tensor<4x?x?x32xbf16> to tensor<4x?x?x32xbf16>
    %e = tensor.empty(%h, %l) : tensor<4x?x?x32xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x?x?x32xf32>) -> tensor<4x?x?x32xf32>
    %r = linalg.generic {indexing_maps = [#in, #window, #out],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
        ins(%p, %w : tensor<4x?x?x32xbf16>, tensor<3x3x32xbf16>) outs(%f : tensor<4x?x?x32xf32>) {
    ^bb0(%a: bf16, %b: bf16, %s: f32):
      %u = arith.extf %a : bf16 to f32
      %v = arith.extf %b : bf16 to f32
      %t = arith.mulf %u, %v : f32
      %q = arith.addf %s, %t : f32
      linalg.yield %q : f32
    } -> tensor<4x?x?x32xf32>
    %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%r : tensor<4x?x?x32xf32>) outs(%o : tensor<4x?x?x32xbf16>) {
    ^bb0(%a: f32, %b: bf16):
      %t = arith.truncf %a : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<4x?x?x32xbf16>
    return %y : tensor<4x?x?x32xbf16>
  }
}
