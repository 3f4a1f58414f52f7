// RUN: inferno-opt %s -p 'pad-channels,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// Three channels become eight, in one padding with that of the image; so do those of the window.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 * 2 + d4, d2 * 2 + d5, d6)>
#x = affine_map<(n, y, x, f, r, s, c) -> (n, y * 2 + r, x * 2 + s, c)>
#w = affine_map<(n, y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(n, y, x, f, r, s, c) -> (n, y, x, f)>
module attributes {inferno.convolutions} {
  // CHECK-LABEL: @main
  // CHECK: %[[X:.*]] = tensor.pad %arg0 low[0, 3, 3, 0] high[0, 3, 3, 5]
  // CHECK: tensor<2x32x32x3xbf16> to tensor<2x38x38x8xbf16>
  // CHECK: %[[W:.*]] = tensor.pad %arg1 low[0, 0, 0, 0] high[0, 0, 0, 5]
  // CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], {{.*}} ins(%[[X]], %[[W]] : tensor<2x38x38x8xbf16>, tensor<64x7x7x8xbf16>)
  func.func @main(%x: tensor<2x32x32x3xbf16>, %w: tensor<64x7x7x3xbf16>) -> tensor<2x16x16x64xf32> {
    %none = arith.constant 0.0 : bf16
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 3, 3, 0] high[0, 3, 3, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %none : bf16
    } : tensor<2x32x32x3xbf16> to tensor<2x38x38x3xbf16>
    %e = tensor.empty() : tensor<2x16x16x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x16x64xf32>) -> tensor<2x16x16x64xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<2x38x38x3xbf16>, tensor<64x7x7x3xbf16>) outs(%f : tensor<2x16x16x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %m = arith.mulf %l, %r {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<2x16x16x64xf32>
    return %0 : tensor<2x16x16x64xf32>
  }
}

// -----

// Of float32 twenty channels are whole 16 bytes, ten are not; windows of few terms over few channels stay as they are.
#x = affine_map<(y, f, r, c) -> (y + r, c)>
#w = affine_map<(y, f, r, c) -> (f, r, c)>
#o = affine_map<(y, f, r, c) -> (y, f)>
module attributes {inferno.convolutions} {
  // CHECK-LABEL: @main
  // CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<34x20xf32>, tensor<8x3x20xf32>)
  // CHECK: %[[X:.*]] = tensor.pad %arg2 low[0, 0] high[0, 2]
  // CHECK: linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<34x12xf32>, tensor<8x3x12xf32>)
  // CHECK: linalg.generic {{.*}} ins(%arg4, %arg5 : tensor<34x3xf32>, tensor<8x3x3xf32>)
  func.func @main(%x: tensor<34x20xf32>, %w: tensor<8x3x20xf32>, %x1: tensor<34x10xf32>, %w1: tensor<8x3x10xf32>, %x2: tensor<34x3xf32>,
      %w2: tensor<8x3x3xf32>) -> (tensor<32x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x8xf32>) -> tensor<32x8xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<34x20xf32>, tensor<8x3x20xf32>) outs(%f : tensor<32x8xf32>) {
    ^bb0(%a: f32, %b: f32, %t: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x8xf32>
    %1 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x1, %w1 : tensor<34x10xf32>, tensor<8x3x10xf32>) outs(%f : tensor<32x8xf32>) {
    ^bb0(%a: f32, %b: f32, %t: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x8xf32>
    %2 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x2, %w2 : tensor<34x3xf32>, tensor<8x3x3xf32>) outs(%f : tensor<32x8xf32>) {
    ^bb0(%a: f32, %b: f32, %t: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x8xf32>
    return %0, %1, %2 : tensor<32x8xf32>, tensor<32x8xf32>, tensor<32x8xf32>
  }
}

// -----

// Of 16 bits, 18 channels stay, which tensor cores read as they are, and 12 in two groups; not 12 in three, nor as many as 42.
#x = affine_map<(y, x, f, r, s, c) -> (y + r, x + s, c)>
#w = affine_map<(y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(y, x, f, r, s, c) -> (y, x, f)>
#gx = affine_map<(y, x, g, f, r, s, c) -> (y + r, x + s, g, c)>
#gw = affine_map<(y, x, g, f, r, s, c) -> (g, f, r, s, c)>
#go = affine_map<(y, x, g, f, r, s, c) -> (y, x, g, f)>
module attributes {inferno.convolutions} {
  // CHECK-LABEL: @main
  // CHECK-NOT: tensor.pad
  // CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<34x34x18xbf16>, tensor<18x3x3x18xbf16>)
  // CHECK-NOT: tensor.pad
  // CHECK: linalg.generic {{.*}} ins(%arg2, %arg3 : tensor<34x34x2x12xbf16>, tensor<2x12x3x3x12xbf16>)
  // CHECK: linalg.generic {{.*}} : tensor<34x34x3x16xbf16>, tensor<3x12x3x3x16xbf16>)
  // CHECK: linalg.generic {{.*}} : tensor<34x34x48xbf16>, tensor<42x3x3x48xbf16>)
  func.func @main(%x0: tensor<34x34x18xbf16>, %w0: tensor<18x3x3x18xbf16>, %x1: tensor<34x34x2x12xbf16>, %w1: tensor<2x12x3x3x12xbf16>,
      %x2: tensor<34x34x3x12xbf16>, %w2: tensor<3x12x3x3x12xbf16>, %x3: tensor<34x34x42xbf16>, %w3: tensor<42x3x3x42xbf16>)
      -> (tensor<32x32x18xf32>, tensor<32x32x2x12xf32>, tensor<32x32x3x12xf32>, tensor<32x32x42xf32>) {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<32x32x18xf32>
    %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<32x32x18xf32>) -> tensor<32x32x18xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x0, %w0 : tensor<34x34x18xbf16>, tensor<18x3x3x18xbf16>) outs(%f0 : tensor<32x32x18xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %m = arith.mulf %l, %r {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x32x18xf32>
    %e1 = tensor.empty() : tensor<32x32x2x12xf32>
    %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<32x32x2x12xf32>) -> tensor<32x32x2x12xf32>
    %1 = linalg.generic {indexing_maps = [#gx, #gw, #go], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x1, %w1 : tensor<34x34x2x12xbf16>, tensor<2x12x3x3x12xbf16>) outs(%f1 : tensor<32x32x2x12xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %m = arith.mulf %l, %r {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x32x2x12xf32>
    %e2 = tensor.empty() : tensor<32x32x3x12xf32>
    %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<32x32x3x12xf32>) -> tensor<32x32x3x12xf32>
    %2 = linalg.generic {indexing_maps = [#gx, #gw, #go], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x2, %w2 : tensor<34x34x3x12xbf16>, tensor<3x12x3x3x12xbf16>) outs(%f2 : tensor<32x32x3x12xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %m = arith.mulf %l, %r {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x32x3x12xf32>
    %e3 = tensor.empty() : tensor<32x32x42xf32>
    %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<32x32x42xf32>) -> tensor<32x32x42xf32>
    %3 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x3, %w3 : tensor<34x34x42xbf16>, tensor<42x3x3x42xbf16>) outs(%f3 : tensor<32x32x42xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %m = arith.mulf %l, %r {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<32x32x42xf32>
    return %0, %1, %2, %3 : tensor<32x32x18xf32>, tensor<32x32x2x12xf32>, tensor<32x32x3x12xf32>, tensor<32x32x42xf32>
  }
}

// -----

// What is not rounded to TF32 has at most a third more: three channels become four, and five stay.
// CHECK-LABEL: @main
// CHECK: tensor.pad %arg0 low[0, 3, 3, 0] high[0, 3, 3, 1]
// CHECK: tensor.pad %arg1 low[0, 0, 0, 0] high[0, 0, 0, 1]
// CHECK-NOT: high[0, 3, 3, 3]
// CHECK: return
#x = affine_map<(n, y, x, f, r, s, c) -> (n, y * 2 + r, x * 2 + s, c)>
#w = affine_map<(n, y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(n, y, x, f, r, s, c) -> (n, y, x, f)>
module attributes {inferno.convolutions} {
  func.func @main(%x: tensor<2x32x32x3xf32>, %w: tensor<64x7x7x3xf32>, %a: tensor<2x32x32x5xf32>, %b: tensor<64x7x7x5xf32>) -> (tensor<2x16x16x64xf32>, tensor<2x16x16x64xf32>) {
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 3, 3, 0] high[0, 3, 3, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32 } : tensor<2x32x32x3xf32> to tensor<2x38x38x3xf32>
    %s = tensor.pad %a low[0, 3, 3, 0] high[0, 3, 3, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32 } : tensor<2x32x32x5xf32> to tensor<2x38x38x5xf32>
    %e = tensor.empty() : tensor<2x16x16x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x16x64xf32>) -> tensor<2x16x16x64xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<2x38x38x3xf32>, tensor<64x7x7x3xf32>) outs(%f : tensor<2x16x16x64xf32>) {
    ^bb0(%l: f32, %r: f32, %t: f32):
      %m = arith.mulf %l, %r {inferno.convolution, inferno.exact} : f32
      %q = arith.addf %t, %m : f32
      linalg.yield %q : f32 } -> tensor<2x16x16x64xf32>
    %1 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%s, %b : tensor<2x38x38x5xf32>, tensor<64x7x7x5xf32>) outs(%f : tensor<2x16x16x64xf32>) {
    ^bb0(%l: f32, %r: f32, %t: f32):
      %m = arith.mulf %l, %r {inferno.convolution, inferno.exact} : f32
      %q = arith.addf %t, %m : f32
      linalg.yield %q : f32 } -> tensor<2x16x16x64xf32>
    return %0, %1 : tensor<2x16x16x64xf32>, tensor<2x16x16x64xf32>
  }
}
