// RUN: inferno-opt %s --pass-pipeline='fuse-channel-sums{target=sm_90a}' --split-input-file | FileCheck %s

#image = affine_map<(n, p, q, f, r, s, c) -> (n, p + r, q + s, c)>
#window = affine_map<(n, p, q, f, r, s, c) -> (f, r, s, c)>
#pixels = affine_map<(n, p, q, f, r, s, c) -> (n, p, q, f)>
#points = affine_map<(n, p, q, f) -> (n, p, q, f)>
#transposed = affine_map<(f, n, p, q) -> (n, p, q, f)>
#channel = affine_map<(f, n, p, q) -> (f)>

/// The sums over pixels of a convolution's result, and of its squares, are results of its kernel; what it writes stays for who reads it.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:3 = call @conv_reduce_squares(%arg0, %arg1, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2
// CHECK-LABEL: func.func private @conv_reduce_squares(
// CHECK-SAME: inferno.precision = "tf32"
// CHECK: arith.truncf
// CHECK: iterator_types = ["parallel", "reduction", "reduction", "reduction"]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.extf
func.func @main(%x: tensor<32x58x58x64xbf16>, %w: tensor<64x3x3x64xbf16>) -> (tensor<32x56x56x64xbf16>, tensor<64xf64>, tensor<64xf64>) {
  %e = tensor.empty() : tensor<32x56x56x64xbf16>
  %y = call @conv(%x, %w, %e) : (tensor<32x58x58x64xbf16>, tensor<64x3x3x64xbf16>, tensor<32x56x56x64xbf16>) -> tensor<32x56x56x64xbf16>
  %a = tensor.empty() : tensor<64xf64>
  %b = tensor.empty() : tensor<64xf64>
  %s:2 = call @reduce_squares(%y, %a, %b) : (tensor<32x56x56x64xbf16>, tensor<64xf64>, tensor<64xf64>) -> (tensor<64xf64>, tensor<64xf64>)
  return %y, %s#0, %s#1 : tensor<32x56x56x64xbf16>, tensor<64xf64>, tensor<64xf64>
}
func.func private @conv(%x: tensor<32x58x58x64xbf16>, %w: tensor<64x3x3x64xbf16>, %o: tensor<32x56x56x64xbf16>) -> tensor<32x56x56x64xbf16> attributes {inferno.precision = "tf32"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x56x56x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x56x56x64xf32>) -> tensor<32x56x56x64xf32>
  %0 = linalg.generic {indexing_maps = [#image, #window, #pixels], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<32x58x58x64xbf16>, tensor<64x3x3x64xbf16>) outs(%f : tensor<32x56x56x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %t: f32):
    %l = arith.extf %a : bf16 to f32
    %r = arith.extf %b : bf16 to f32
    %q = arith.mulf %l, %r {inferno.convolution} : f32
    %u = arith.addf %t, %q : f32
    linalg.yield %u : f32
  } -> tensor<32x56x56x64xf32>
  %1 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0 : tensor<32x56x56x64xf32>) outs(%o : tensor<32x56x56x64xbf16>) {
  ^bb0(%a: f32, %t: bf16):
    %u = arith.truncf %a : f32 to bf16
    linalg.yield %u : bf16
  } -> tensor<32x56x56x64xbf16>
  return %1 : tensor<32x56x56x64xbf16>
}
func.func private @reduce_squares(%x: tensor<32x56x56x64xbf16>, %o0: tensor<64xf64>, %o1: tensor<64xf64>) -> (tensor<64xf64>, tensor<64xf64>) {
  %zero = arith.constant 0.0 : f64
  %0 = linalg.fill ins(%zero : f64) outs(%o0 : tensor<64xf64>) -> tensor<64xf64>
  %1 = linalg.fill ins(%zero : f64) outs(%o1 : tensor<64xf64>) -> tensor<64xf64>
  %2:2 = linalg.generic {indexing_maps = [#transposed, #channel, #channel], iterator_types = ["parallel", "reduction", "reduction", "reduction"]} ins(%x : tensor<32x56x56x64xbf16>) outs(%0, %1 : tensor<64xf64>, tensor<64xf64>) {
  ^bb0(%a: bf16, %s: f64, %t: f64):
    %w = arith.extf %a : bf16 to f64
    %q = arith.mulf %w, %w : f64
    %u = arith.addf %w, %s : f64
    %v = arith.addf %q, %t : f64
    linalg.yield %u, %v : f64, f64
  } -> (tensor<64xf64>, tensor<64xf64>)
  return %2#0, %2#1 : tensor<64xf64>, tensor<64xf64>
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
#points = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
#row = affine_map<(m, n) -> (m)>

/// Of a matrix product sums of columns are; sums of rows, and those of largest elements, stay apart.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul_sums(
// CHECK: call @rows(
// CHECK: call @largest(
func.func @main(%x: tensor<65536x64xbf16>, %w: tensor<256x64xbf16>) -> (tensor<65536x256xf32>, tensor<256xf32>, tensor<65536xf32>, tensor<256xf32>) {
  %e = tensor.empty() : tensor<65536x256xf32>
  %y = call @matmul(%x, %w, %e) : (tensor<65536x64xbf16>, tensor<256x64xbf16>, tensor<65536x256xf32>) -> tensor<65536x256xf32>
  %a = tensor.empty() : tensor<256xf32>
  %s = call @sums(%y, %a) : (tensor<65536x256xf32>, tensor<256xf32>) -> tensor<256xf32>
  %b = tensor.empty() : tensor<65536xf32>
  %r = call @rows(%y, %b) : (tensor<65536x256xf32>, tensor<65536xf32>) -> tensor<65536xf32>
  %c = tensor.empty() : tensor<256xf32>
  %l = call @largest(%y, %c) : (tensor<65536x256xf32>, tensor<256xf32>) -> tensor<256xf32>
  return %y, %s, %r, %l : tensor<65536x256xf32>, tensor<256xf32>, tensor<65536xf32>, tensor<256xf32>
}
func.func private @matmul(%x: tensor<65536x64xbf16>, %w: tensor<256x64xbf16>, %o: tensor<65536x256xf32>) -> tensor<65536x256xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<65536x256xf32>) -> tensor<65536x256xf32>
  %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<65536x64xbf16>, tensor<256x64xbf16>) outs(%f : tensor<65536x256xf32>) {
  ^bb0(%a: bf16, %b: bf16, %t: f32):
    %l = arith.extf %a : bf16 to f32
    %r = arith.extf %b : bf16 to f32
    %q = arith.mulf %l, %r : f32
    %u = arith.addf %t, %q : f32
    linalg.yield %u : f32
  } -> tensor<65536x256xf32>
  return %0 : tensor<65536x256xf32>
}
func.func private @sums(%x: tensor<65536x256xf32>, %o: tensor<256xf32>) -> tensor<256xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%o : tensor<256xf32>) -> tensor<256xf32>
  %1 = linalg.generic {indexing_maps = [#points, #column], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<65536x256xf32>) outs(%0 : tensor<256xf32>) {
  ^bb0(%a: f32, %t: f32):
    %u = arith.addf %a, %t : f32
    linalg.yield %u : f32
  } -> tensor<256xf32>
  return %1 : tensor<256xf32>
}
func.func private @rows(%x: tensor<65536x256xf32>, %o: tensor<65536xf32>) -> tensor<65536xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%o : tensor<65536xf32>) -> tensor<65536xf32>
  %1 = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<65536x256xf32>) outs(%0 : tensor<65536xf32>) {
  ^bb0(%a: f32, %t: f32):
    %u = arith.addf %a, %t : f32
    linalg.yield %u : f32
  } -> tensor<65536xf32>
  return %1 : tensor<65536xf32>
}
func.func private @largest(%x: tensor<65536x256xf32>, %o: tensor<256xf32>) -> tensor<256xf32> {
  %least = arith.constant 0xFF800000 : f32
  %0 = linalg.fill ins(%least : f32) outs(%o : tensor<256xf32>) -> tensor<256xf32>
  %1 = linalg.generic {indexing_maps = [#points, #column], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<65536x256xf32>) outs(%0 : tensor<256xf32>) {
  ^bb0(%a: f32, %t: f32):
    %u = arith.maximumf %a, %t : f32
    linalg.yield %u : f32
  } -> tensor<256xf32>
  return %1 : tensor<256xf32>
}
