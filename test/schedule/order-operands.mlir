// RUN: inferno-opt %s -p 'order-operands{target=sm_90a}' | FileCheck %s
// RUN: sed 's/^module {/module attributes {inferno.matmul = "library"} {/' %s | inferno-opt - -p 'order-operands{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s -p 'order-operands{target=sm_80}' | FileCheck %s --check-prefix=OTHER

// The patches of 32 images: rows of a patch and rows of patches are apart, which is more dimensions than the copy engine knows. They are a matrix once,
// for both products of them. The third product's factors are matrices, and the fourth is too small for that to pay.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d1, d4, d2, d5)>
// CHECK-DAG: #[[MATRIX:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d4, d5, d6)>
// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = call @transpose(%arg0, %{{.*}}) {{.*}} : (tensor<32x3x14x16x14x16xbf16>, tensor<32x14x14x3x16x16xbf16>)
// CHECK: call @patches_ordered(%[[M]], %arg1, %{{.*}}) {inferno.source = ["a"]}
// CHECK: call @patches_ordered(%[[M]], %arg2, %{{.*}}) {inferno.source = ["b"]}
// CHECK: call @matrices(
// CHECK: call @few(%arg5
// CHECK: func.func private @patches_ordered(%arg0: tensor<32x14x14x3x16x16xbf16>
// CHECK: linalg.generic {indexing_maps = [#[[MATRIX]],
// CHECK: func.func private @transpose
// CHECK: linalg.generic {indexing_maps = [#[[READ]],
// OTHER: call @patches(%arg0
// OTHER-NOT: @transpose
#x = affine_map<(n, y, x, f, c, s, t) -> (n, c, y, s, x, t)>
#w = affine_map<(n, y, x, f, c, s, t) -> (f, c, s, t)>
#o = affine_map<(n, y, x, f, c, s, t) -> (n, y, x, f)>
#l = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (k, n)>
#p = affine_map<(m, n, k) -> (m, n)>
module {
  func.func @main(%x: tensor<32x3x14x16x14x16xbf16>, %w: tensor<768x3x16x16xbf16>, %v: tensor<768x3x16x16xbf16>, %l: tensor<512x768xbf16>, %r: tensor<768x512xbf16>,
                  %f: tensor<1x3x2x4x2x4xbf16>, %g: tensor<8x3x4x4xbf16>)
      -> (tensor<32x14x14x768xf32>, tensor<32x14x14x768xf32>, tensor<512x512xf32>, tensor<1x2x2x8xf32>) {
    %e = tensor.empty() : tensor<32x14x14x768xf32>
    %0 = call @patches(%x, %w, %e) {inferno.source = ["a"]} : (tensor<32x3x14x16x14x16xbf16>, tensor<768x3x16x16xbf16>, tensor<32x14x14x768xf32>) -> tensor<32x14x14x768xf32>
    %1 = call @patches(%x, %v, %e) {inferno.source = ["b"]} : (tensor<32x3x14x16x14x16xbf16>, tensor<768x3x16x16xbf16>, tensor<32x14x14x768xf32>) -> tensor<32x14x14x768xf32>
    %c = tensor.empty() : tensor<512x512xf32>
    %2 = call @matrices(%l, %r, %c) : (tensor<512x768xbf16>, tensor<768x512xbf16>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %d = tensor.empty() : tensor<1x2x2x8xf32>
    %3 = call @few(%f, %g, %d) : (tensor<1x3x2x4x2x4xbf16>, tensor<8x3x4x4xbf16>, tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
    return %0, %1, %2, %3 : tensor<32x14x14x768xf32>, tensor<32x14x14x768xf32>, tensor<512x512xf32>, tensor<1x2x2x8xf32>
  }
  func.func private @patches(%x: tensor<32x3x14x16x14x16xbf16>, %w: tensor<768x3x16x16xbf16>, %o: tensor<32x14x14x768xf32>) -> tensor<32x14x14x768xf32> {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<32x14x14x768xf32>) -> tensor<32x14x14x768xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<32x3x14x16x14x16xbf16>, tensor<768x3x16x16xbf16>) outs(%s : tensor<32x14x14x768xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %m = arith.mulf %d, %e : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<32x14x14x768xf32>
    return %0 : tensor<32x14x14x768xf32>
  }
  func.func private @matrices(%x: tensor<512x768xbf16>, %w: tensor<768x512xbf16>, %o: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<512x512xf32>) -> tensor<512x512xf32>
    %0 = linalg.generic {indexing_maps = [#l, #r, #p], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<512x768xbf16>, tensor<768x512xbf16>) outs(%s : tensor<512x512xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %m = arith.mulf %d, %e : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
  func.func private @few(%x: tensor<1x3x2x4x2x4xbf16>, %w: tensor<8x3x4x4xbf16>, %o: tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32> {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x3x2x4x2x4xbf16>, tensor<8x3x4x4xbf16>) outs(%s : tensor<1x2x2x8xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %m = arith.mulf %d, %e : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<1x2x2x8xf32>
    return %0 : tensor<1x2x2x8xf32>
  }
}
