// RUN: inferno-opt %s -p 'expand-pieces,fuse-elementwise,func.func(canonicalize,cse),fuse-contractions,outline-kernels' --split-input-file | FileCheck %s

// Padding, convolution, batch norm and activation are one kernel; the reciprocal root of the variance is computed once for each channel. What also
// reads the result, transposed, does not take the activation away.
#x = affine_map<(n, y, x, f, r, s, c) -> (n, y + r, x + s, c)>
#w = affine_map<(n, y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(n, y, x, f, r, s, c) -> (n, y, x, f)>
#i = affine_map<(n, y, x, f) -> (n, y, x, f)>
#v = affine_map<(n, y, x, f) -> (f)>
#t = affine_map<(n, f, y, x) -> (n, y, x, f)>
#1 = affine_map<(f) -> (f)>
module attributes {inferno.expand_pieces, inferno.convolutions} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[R:.*]] = call @addf_rsqrt(%arg3,
  // CHECK: %[[Y:.*]] = call @conv_mulf_addf(%arg1, %[[R]], %arg2, %arg0, %{{.*}}) {{.*}} -> tensor<2x6x6x16xf32>
  // CHECK: %[[T:.*]] = call @transpose(%[[Y]], %{{.*}}) {{.*}} -> tensor<2x16x6x6xf32>
  // CHECK: return %[[T]]
  // CHECK: func.func private @conv_mulf_addf
  // CHECK: %[[P:.*]] = tensor.pad %{{.*}} low[0, 1, 1, 0] high[0, 1, 1, 0]
  // CHECK: linalg.generic {{.*}} ins(%[[P]], %arg0,
  // CHECK: arith.mulf {{.*}} {inferno.convolution}
  // CHECK: arith.select
  // CHECK: func.func private @transpose
  func.func @main(%x: tensor<2x6x6x8xf32>, %w: tensor<16x3x3x8xf32>, %b: tensor<16xf32>, %d: tensor<16xf32>) -> tensor<2x16x6x6xf32> {
    %zero = arith.constant 0.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i0: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
    } : tensor<2x6x6x8xf32> to tensor<2x8x8x8xf32>
    %e = tensor.empty() : tensor<2x6x6x16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x6x16xf32>) -> tensor<2x6x6x16xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<2x8x8x8xf32>, tensor<16x3x3x8xf32>) outs(%f : tensor<2x6x6x16xf32>) {
    ^bb0(%a: f32, %b0: f32, %c: f32):
      %m = arith.mulf %a, %b0 {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<2x6x6x16xf32>
    %re = tensor.empty() : tensor<16xf32>
    %1 = linalg.generic {indexing_maps = [#1, #1], iterator_types = ["parallel"]} ins(%d : tensor<16xf32>) outs(%re : tensor<16xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %a, %eps : f32
      %r = math.rsqrt %s : f32
      linalg.yield %r : f32
    } -> tensor<16xf32>
    %2 = linalg.generic {indexing_maps = [#i, #v, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0, %1, %b : tensor<2x6x6x16xf32>, tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<2x6x6x16xf32>) {
    ^bb0(%a: f32, %r: f32, %b0: f32, %c: f32):
      %s = arith.mulf %a, %r : f32
      %m = arith.addf %s, %b0 : f32
      linalg.yield %m : f32
    } -> tensor<2x6x6x16xf32>
    %3 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%2 : tensor<2x6x6x16xf32>) outs(%e : tensor<2x6x6x16xf32>) {
    ^bb0(%a: f32, %c: f32):
      %g = arith.cmpf ugt, %a, %zero : f32
      %s = arith.select %g, %a, %zero : f32
      linalg.yield %s : f32
    } -> tensor<2x6x6x16xf32>
    %te = tensor.empty() : tensor<2x16x6x6xf32>
    %4 = linalg.generic {indexing_maps = [#t, affine_map<(n, f, y, x) -> (n, f, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%3 : tensor<2x6x6x16xf32>) outs(%te : tensor<2x16x6x6xf32>) {
    ^bb0(%a: f32, %c: f32):
      linalg.yield %a : f32
    } -> tensor<2x16x6x6xf32>
    return %4 : tensor<2x16x6x6xf32>
  }
}

// -----

// A padding that is not of zeros is a kernel of its own.
#x = affine_map<(x, f, s, c) -> (x + s, c)>
#w = affine_map<(x, f, s, c) -> (f, s, c)>
#o = affine_map<(x, f, s, c) -> (x, f)>
module attributes {inferno.expand_pieces, inferno.convolutions} {
  // CHECK-LABEL: func.func @main
  // CHECK: call @pieces(
  // CHECK: call @conv(
  // CHECK-NOT: tensor.pad
  func.func @main(%x: tensor<6x8xf32>, %w: tensor<16x3x8xf32>) -> tensor<6x16xf32> {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %p = tensor.pad %x low[1, 0] high[1, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %one : f32
    } : tensor<6x8xf32> to tensor<8x8xf32>
    %e = tensor.empty() : tensor<6x16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<8x8xf32>, tensor<16x3x8xf32>) outs(%f : tensor<6x16xf32>) {
    ^bb0(%a: f32, %b0: f32, %c: f32):
      %m = arith.mulf %a, %b0 {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<6x16xf32>
    return %0 : tensor<6x16xf32>
  }
}

// -----

// Of two that are added the last one adds; the other's result is in memory as narrow as the model has it. So is one that is widened for several readers.
#x = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#w = affine_map<(n, x, f, s, c) -> (f, s, c)>
#o = affine_map<(n, x, f, s, c) -> (n, x, f)>
#i = affine_map<(n, x, f) -> (n, x, f)>
module attributes {inferno.expand_pieces, inferno.convolutions} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[A:.*]] = call @conv(%arg0, %arg1, %{{.*}}) {{.*}} -> tensor<2x4x8xbf16>
  // CHECK: %[[B:.*]] = call @conv_addf(%arg0, %arg2, %[[A]], %{{.*}}) {{.*}} -> tensor<2x4x8xbf16>
  // CHECK: call @reduce_addf(%[[B]],
  // CHECK: call @mulf(%[[B]],
  func.func @main(%x: tensor<2x6x8xbf16>, %w: tensor<8x3x8xbf16>, %v: tensor<8x3x8xbf16>) -> (tensor<2x4xf32>, tensor<2x4x8xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x4x8xf32>
    %h = tensor.empty() : tensor<2x4x8xbf16>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x6x8xbf16>, tensor<8x3x8xbf16>) outs(%f : tensor<2x4x8xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %aw = arith.extf %a : bf16 to f32
      %bw = arith.extf %b : bf16 to f32
      %m = arith.mulf %aw, %bw {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<2x4x8xf32>
    %1 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<2x4x8xf32>) outs(%h : tensor<2x4x8xbf16>) {
    ^bb0(%a: f32, %c: bf16):
      %t = arith.truncf %a : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<2x4x8xbf16>
    %2 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %v : tensor<2x6x8xbf16>, tensor<8x3x8xbf16>) outs(%f : tensor<2x4x8xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %aw = arith.extf %a : bf16 to f32
      %bw = arith.extf %b : bf16 to f32
      %m = arith.mulf %aw, %bw {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<2x4x8xf32>
    %3 = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%2, %1 : tensor<2x4x8xf32>, tensor<2x4x8xbf16>) outs(%h : tensor<2x4x8xbf16>) {
    ^bb0(%a: f32, %b: bf16, %c: bf16):
      %bw = arith.extf %b : bf16 to f32
      %s = arith.addf %a, %bw : f32
      %t = arith.truncf %s : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<2x4x8xbf16>
    %4 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3 : tensor<2x4x8xbf16>) outs(%e : tensor<2x4x8xf32>) {
    ^bb0(%a: bf16, %c: f32):
      %t = arith.extf %a : bf16 to f32
      linalg.yield %t : f32
    } -> tensor<2x4x8xf32>
    %re = tensor.empty() : tensor<2x4xf32>
    %rf = linalg.fill ins(%zero : f32) outs(%re : tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = linalg.generic {indexing_maps = [#i, affine_map<(n, x, f) -> (n, x)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%4 : tensor<2x4x8xf32>) outs(%rf : tensor<2x4xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %a, %c : f32
      linalg.yield %s : f32
    } -> tensor<2x4xf32>
    %6 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.mulf %a, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x4x8xf32>
    return %5, %6 : tensor<2x4xf32>, tensor<2x4x8xf32>
  }
}

// -----

// A library that multiplies matrices has no part in it.
#x = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#w = affine_map<(n, x, f, s, c) -> (f, s, c)>
#o = affine_map<(n, x, f, s, c) -> (n, x, f)>
#i = affine_map<(n, x, f) -> (n, x, f)>
module attributes {inferno.expand_pieces, inferno.convolutions, inferno.matmul = "library"} {
  // CHECK-LABEL: func.func @main
  // CHECK: call @conv_tanh(
  func.func @main(%x: tensor<2x6x8xf32>, %w: tensor<8x3x8xf32>) -> tensor<2x4x8xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x4x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x6x8xf32>, tensor<8x3x8xf32>) outs(%f : tensor<2x4x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<2x4x8xf32>
    %1 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
    ^bb0(%a: f32, %c: f32):
      %t = math.tanh %a : f32
      linalg.yield %t : f32
    } -> tensor<2x4x8xf32>
    return %1 : tensor<2x4x8xf32>
  }
}

// -----

// What chooses between pieces by a place stays in front of a contraction's end, which reads each tensor at one place for each point.
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
#i = affine_map<(m, n) -> (m, n)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[ALL:.*]] = call @pieces(%arg2, %arg3, %{{.*}} -> tensor<4x6xf32>
  // CHECK: call @matmul_addf(%arg0, %arg1, %[[ALL]], %{{.*}})
  func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %a: tensor<4x3xf32>, %b: tensor<4x3xf32>) -> tensor<4x6xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x6xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%f : tensor<4x6xf32>) {
    ^bb0(%p: f32, %q: f32, %t: f32):
      %1 = arith.mulf %p, %q : f32
      %2 = arith.addf %t, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<4x6xf32>
    %all = tensor.concat dim(1) %a, %b : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x6xf32>
    %y = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel", "parallel"]}
      ins(%0, %all : tensor<4x6xf32>, tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
    ^bb0(%p: f32, %q: f32, %t: f32):
      %1 = arith.addf %p, %q : f32
      linalg.yield %1 : f32
    } -> tensor<4x6xf32>
    return %y : tensor<4x6xf32>
  }
}

// -----

// What reads a convolution's result twice, as `x * sigmoid(x)` does, is its end all the same: the concatenation copies what two kernels have made.
#x = affine_map<(n, f, c) -> (n, c)>
#w = affine_map<(n, f, c) -> (f, c)>
#o = affine_map<(n, f, c) -> (n, f)>
#i = affine_map<(n, f) -> (n, f)>
module attributes {inferno.expand_pieces, inferno.convolutions} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[Y:.*]] = call @matmul_negf_exp_addf_divf_mulf(%arg0, %arg1, %{{.*}}) {{.*}} -> tensor<8x16xbf16>
  // CHECK: %[[C:.*]] = call @pieces(%[[Y]], %arg2, %{{.*}}) {{.*}} -> tensor<8x32xbf16>
  // CHECK: return %[[C]]
  // CHECK: func.func private @pieces
  // CHECK-NOT: math.exp
  func.func @main(%x: tensor<8x8xf32>, %w: tensor<16x8xf32>, %o: tensor<8x16xbf16>) -> tensor<8x32xbf16> {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %e = tensor.empty() : tensor<8x16xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x8xf32>, tensor<16x8xf32>) outs(%f : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x16xf32>
    %1 = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
    ^bb0(%a: f32, %c: f32):
      %n = arith.negf %a : f32
      %x0 = math.exp %n : f32
      %s = arith.addf %x0, %one : f32
      %d = arith.divf %one, %s : f32
      linalg.yield %d : f32
    } -> tensor<8x16xf32>
    %h = tensor.empty() : tensor<8x16xbf16>
    %2 = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel", "parallel"]}
      ins(%0, %1 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%h : tensor<8x16xbf16>) {
    ^bb0(%a: f32, %b: f32, %c: bf16):
      %m = arith.mulf %a, %b : f32
      %t = arith.truncf %m : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<8x16xbf16>
    %3 = tensor.concat dim(1) %2, %o : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x32xbf16>
    return %3 : tensor<8x32xbf16>
  }
}
