// Convolutions as implicit products on Hopper, channels that are not whole 16 bytes are left.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_80}' | FileCheck %s --check-prefix=OTHERS
// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a},generate-kernels{target=sm_90a}' | FileCheck %s --check-prefix=GPU

// CHECK: func.func private @conv({{.*}}generator = "im2col"{{.*}}patch = {{[1-9]}}
// CHECK: func.func private @conv({{.*}}generator = "im2col"{{.*}}patch = {{[1-9]}}
// CHECK: func.func private @conv({{.*}}generator = "im2col"{{.*}}patch = 0
// CHECK: func.func private @conv(
// CHECK-NOT: generator = "im2col"
// OTHERS-NOT: generator = "im2col"

// By steps of one pixel the image comes with its halo, once for all taps.
// GPU: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} box[{{[^:]*}} :
// GPU-NOT: im2col[
// GPU: "inferno.tensor_map"(%{{.*}}) {box = [64, 10, {{.*}}, 1], element = "bf16", {{.*}}sizes = [64, 56, 56, 8]

// By steps of two that of every other row and column, of an image of even sizes.
// GPU: "inferno.tensor_map"(%{{.*}}) {box = [64, {{[0-9]*}}, 1, {{[0-9]*}}, 1], element = "bf16", {{.*}}sizes = [128, 28, 2, 28, 8]

// GPU: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} im2col[{{.*}}] {{.*}}tma_load_mode<im2col>
// GPU: "inferno.pixel_map"(%{{.*}}) {box = [64, {{.*}}], element = "bf16", {{.*}}lower = [-1, -1], {{.*}}sizes = [64, 55, 55, 8], steps = [2, 2]
module {
  func.func private @conv(%x: tensor<8x56x56x64xbf16>, %w: tensor<64x3x3x64xbf16>, %a0: tensor<64xf32>, %a1: tensor<8x56x56x64xbf16>, %o0: tensor<8x56x56x64xbf16>) -> (tensor<8x56x56x64xbf16>) {
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0.0 : bf16
      %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
      ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
        tensor.yield %none : bf16 } : tensor<8x56x56x64xbf16> to tensor<8x58x58x64xbf16>
      %e = tensor.empty() : tensor<8x56x56x64xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x56x56x64xf32>) -> tensor<8x56x56x64xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f,r,s,c) -> (n,p * 1 + r * 1,q * 1 + s * 1,c)>, affine_map<(n,p,q,f,r,s,c) -> (f,r,s,c)>, affine_map<(n,p,q,f,r,s,c) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
          ins(%p, %w : tensor<8x58x58x64xbf16>, tensor<64x3x3x64xbf16>) outs(%f : tensor<8x56x56x64xf32>)  {
      ^bb0(%a: bf16, %b: bf16, %t: f32):
        %l = arith.extf %a : bf16 to f32
        %r = arith.extf %b : bf16 to f32
        %q = arith.mulf %l, %r : f32
        %u = arith.addf %t, %q : f32
        linalg.yield %u : f32 } -> tensor<8x56x56x64xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f) -> (n,p,q,f)>, affine_map<(n,p,q,f) -> (f)>, affine_map<(n,p,q,f) -> (n,p,q,f)>, affine_map<(n,p,q,f) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%0, %a0, %a1 : tensor<8x56x56x64xf32>, tensor<64xf32>, tensor<8x56x56x64xbf16>) outs(%o0 : tensor<8x56x56x64xbf16>) {
      ^bb0(%s: f32, %e0: f32, %e1: bf16, %z0: bf16):
        %b = arith.extf %e1 : bf16 to f32
      %s0 = arith.addf %s, %e0 : f32
      %s1 = arith.addf %s0, %b : f32
      %least = arith.constant 0.0 : f32
      %s2 = arith.maximumf %s1, %least : f32
      %y0 = arith.truncf %s2 : f32 to bf16
        linalg.yield %y0 : bf16 } -> (tensor<8x56x56x64xbf16>)
      return %1 : tensor<8x56x56x64xbf16>
    }
}

// -----

module {
func.func private @conv(%x: tensor<8x56x56x64xbf16>, %w: tensor<128x3x3x64xbf16>, %o0: tensor<8x28x28x128xbf16>) -> (tensor<8x28x28x128xbf16>) {
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0.0 : bf16
      %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
      ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
        tensor.yield %none : bf16 } : tensor<8x56x56x64xbf16> to tensor<8x58x58x64xbf16>
      %e = tensor.empty() : tensor<8x28x28x128xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x28x28x128xf32>) -> tensor<8x28x28x128xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f,r,s,c) -> (n,p * 2 + r * 1,q * 2 + s * 1,c)>, affine_map<(n,p,q,f,r,s,c) -> (f,r,s,c)>, affine_map<(n,p,q,f,r,s,c) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
          ins(%p, %w : tensor<8x58x58x64xbf16>, tensor<128x3x3x64xbf16>) outs(%f : tensor<8x28x28x128xf32>)  {
      ^bb0(%a: bf16, %b: bf16, %t: f32):
        %l = arith.extf %a : bf16 to f32
        %r = arith.extf %b : bf16 to f32
        %q = arith.mulf %l, %r {inferno.convolution} : f32
        %u = arith.addf %t, %q : f32
        linalg.yield %u : f32 } -> tensor<8x28x28x128xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f) -> (n,p,q,f)>, affine_map<(n,p,q,f) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%0 : tensor<8x28x28x128xf32>) outs(%o0 : tensor<8x28x28x128xbf16>) {
      ^bb0(%s: f32, %z0: bf16):
        %y0 = arith.truncf %s : f32 to bf16
        linalg.yield %y0 : bf16 } -> (tensor<8x28x28x128xbf16>)
      return %1 : tensor<8x28x28x128xbf16>
    }
}

// -----

module {
func.func private @conv(%x: tensor<8x55x55x64xbf16>, %w: tensor<128x3x3x64xbf16>, %o0: tensor<8x28x28x128xbf16>) -> (tensor<8x28x28x128xbf16>) {
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0.0 : bf16
      %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
      ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
        tensor.yield %none : bf16 } : tensor<8x55x55x64xbf16> to tensor<8x57x57x64xbf16>
      %e = tensor.empty() : tensor<8x28x28x128xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x28x28x128xf32>) -> tensor<8x28x28x128xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f,r,s,c) -> (n,p * 2 + r * 1,q * 2 + s * 1,c)>, affine_map<(n,p,q,f,r,s,c) -> (f,r,s,c)>, affine_map<(n,p,q,f,r,s,c) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
          ins(%p, %w : tensor<8x57x57x64xbf16>, tensor<128x3x3x64xbf16>) outs(%f : tensor<8x28x28x128xf32>)  {
      ^bb0(%a: bf16, %b: bf16, %t: f32):
        %l = arith.extf %a : bf16 to f32
        %r = arith.extf %b : bf16 to f32
        %q = arith.mulf %l, %r {inferno.convolution} : f32
        %u = arith.addf %t, %q : f32
        linalg.yield %u : f32 } -> tensor<8x28x28x128xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f) -> (n,p,q,f)>, affine_map<(n,p,q,f) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%0 : tensor<8x28x28x128xf32>) outs(%o0 : tensor<8x28x28x128xbf16>) {
      ^bb0(%s: f32, %z0: bf16):
        %y0 = arith.truncf %s : f32 to bf16
        linalg.yield %y0 : bf16 } -> (tensor<8x28x28x128xbf16>)
      return %1 : tensor<8x28x28x128xbf16>
    }
}

// -----

module {
  func.func private @conv(%x: tensor<8x56x56x60xbf16>, %w: tensor<64x3x3x60xbf16>, %a0: tensor<64xf32>, %a1: tensor<8x56x56x64xbf16>, %o0: tensor<8x56x56x64xbf16>) -> (tensor<8x56x56x64xbf16>) {
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0.0 : bf16
      %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
      ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
        tensor.yield %none : bf16 } : tensor<8x56x56x60xbf16> to tensor<8x58x58x60xbf16>
      %e = tensor.empty() : tensor<8x56x56x64xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x56x56x64xf32>) -> tensor<8x56x56x64xf32>
      %0 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f,r,s,c) -> (n,p * 1 + r * 1,q * 1 + s * 1,c)>, affine_map<(n,p,q,f,r,s,c) -> (f,r,s,c)>, affine_map<(n,p,q,f,r,s,c) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
          ins(%p, %w : tensor<8x58x58x60xbf16>, tensor<64x3x3x60xbf16>) outs(%f : tensor<8x56x56x64xf32>)  {
      ^bb0(%a: bf16, %b: bf16, %t: f32):
        %l = arith.extf %a : bf16 to f32
        %r = arith.extf %b : bf16 to f32
        %q = arith.mulf %l, %r : f32
        %u = arith.addf %t, %q : f32
        linalg.yield %u : f32 } -> tensor<8x56x56x64xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(n,p,q,f) -> (n,p,q,f)>, affine_map<(n,p,q,f) -> (f)>, affine_map<(n,p,q,f) -> (n,p,q,f)>, affine_map<(n,p,q,f) -> (n,p,q,f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%0, %a0, %a1 : tensor<8x56x56x64xf32>, tensor<64xf32>, tensor<8x56x56x64xbf16>) outs(%o0 : tensor<8x56x56x64xbf16>) {
      ^bb0(%s: f32, %e0: f32, %e1: bf16, %z0: bf16):
        %b = arith.extf %e1 : bf16 to f32
      %s0 = arith.addf %s, %e0 : f32
      %s1 = arith.addf %s0, %b : f32
      %least = arith.constant 0.0 : f32
      %s2 = arith.maximumf %s1, %least : f32
      %y0 = arith.truncf %s2 : f32 to bf16
        linalg.yield %y0 : bf16 } -> (tensor<8x56x56x64xbf16>)
      return %1 : tensor<8x56x56x64xbf16>
    }
}
