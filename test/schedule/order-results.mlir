// RUN: inferno-opt %s --split-input-file -p 'order-results{target=sm_90a}' | FileCheck %s

// A convolution whose result is only transposed writes it with its features in front of the places, and is one kernel with the transposition: the
// sum and what is computed of it.
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d3, d1, d2)>
// CHECK-LABEL: func.func @main
// CHECK: %[[O:.*]] = tensor.empty() : tensor<8x128x64x64xbf16>
// CHECK-NEXT: %[[R:.*]] = call @conv_1(%arg0, %arg1, %[[O]]) {{.*}}-> tensor<8x128x64x64xbf16>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @conv_1
// CHECK: tensor.pad
// CHECK: tensor.empty() : tensor<8x128x64x64xf32>
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[OUT]], #[[OUT]]]
// CHECK-NOT: linalg.generic
#x = affine_map<(n, y, x, f, r, s, c) -> (n, y + r, x + s, c)>
#w = affine_map<(n, y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(n, y, x, f, r, s, c) -> (n, y, x, f)>
#i = affine_map<(n, f, y, x) -> (n, f, y, x)>
#t = affine_map<(n, f, y, x) -> (n, y, x, f)>
module {
  func.func @main(%x: tensor<8x64x64x64xbf16>, %w: tensor<128x3x3x64xbf16>) -> tensor<8x128x64x64xbf16> {
    %e = tensor.empty() : tensor<8x64x64x128xbf16>
    %0 = call @conv(%x, %w, %e) : (tensor<8x64x64x64xbf16>, tensor<128x3x3x64xbf16>, tensor<8x64x64x128xbf16>) -> tensor<8x64x64x128xbf16>
    %o = tensor.empty() : tensor<8x128x64x64xbf16>
    %1 = call @transpose(%0, %o) : (tensor<8x64x64x128xbf16>, tensor<8x128x64x64xbf16>) -> tensor<8x128x64x64xbf16>
    return %1 : tensor<8x128x64x64xbf16>
  }
  func.func private @conv(%x: tensor<8x64x64x64xbf16>, %w: tensor<128x3x3x64xbf16>, %o: tensor<8x64x64x128xbf16>) -> tensor<8x64x64x128xbf16> {
    %c2 = arith.constant 2 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0.0 : bf16
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %none : bf16 } : tensor<8x64x64x64xbf16> to tensor<8x66x66x64xbf16>
    %e = tensor.empty() : tensor<8x64x64x128xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x64x64x128xf32>) -> tensor<8x64x64x128xf32>
    %0:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<8x66x66x64xbf16>, tensor<128x3x3x64xbf16>) outs(%f, %o : tensor<8x64x64x128xf32>, tensor<8x64x64x128xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32, %z: bf16):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %q = arith.mulf %l, %r {inferno.convolution} : f32
      %u = arith.addf %t, %q : f32
      %i4 = linalg.index 4 : index
      %e4 = arith.cmpi eq, %i4, %c2 : index
      %i5 = linalg.index 5 : index
      %e5 = arith.cmpi eq, %i5, %c2 : index
      %e45 = arith.andi %e4, %e5 : i1
      %i6 = linalg.index 6 : index
      %e6 = arith.cmpi eq, %i6, %c63 : index
      %last = arith.andi %e45, %e6 : i1
      %y = arith.truncf %u : f32 to bf16
      %s = arith.select %last, %y, %z : bf16
      linalg.yield %u, %s : f32, bf16 } -> (tensor<8x64x64x128xf32>, tensor<8x64x64x128xbf16>)
    return %0#1 : tensor<8x64x64x128xbf16>
  }
  func.func private @transpose(%x: tensor<8x64x64x128xbf16>, %o: tensor<8x128x64x64xbf16>) -> tensor<8x128x64x64xbf16> {
    %0 = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<8x64x64x128xbf16>) outs(%o : tensor<8x128x64x64xbf16>) {
    ^bb0(%a: bf16, %z: bf16):
      linalg.yield %a : bf16 } -> tensor<8x128x64x64xbf16>
    return %0 : tensor<8x128x64x64xbf16>
  }
}

// -----

// What someone else reads as it is stays.
// CHECK-LABEL: func.func @main
// CHECK: call @conv(
// CHECK: call @transpose(
#x = affine_map<(n, y, x, f, r, s, c) -> (n, y + r, x + s, c)>
#w = affine_map<(n, y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(n, y, x, f, r, s, c) -> (n, y, x, f)>
#i = affine_map<(n, f, y, x) -> (n, f, y, x)>
#t = affine_map<(n, f, y, x) -> (n, y, x, f)>
module {
  func.func @main(%x: tensor<8x64x64x64xbf16>, %w: tensor<128x3x3x64xbf16>) -> (tensor<8x128x64x64xbf16>, tensor<8x64x64x128xbf16>) {
    %e = tensor.empty() : tensor<8x64x64x128xbf16>
    %0 = call @conv(%x, %w, %e) : (tensor<8x64x64x64xbf16>, tensor<128x3x3x64xbf16>, tensor<8x64x64x128xbf16>) -> tensor<8x64x64x128xbf16>
    %o = tensor.empty() : tensor<8x128x64x64xbf16>
    %1 = call @transpose(%0, %o) : (tensor<8x64x64x128xbf16>, tensor<8x128x64x64xbf16>) -> tensor<8x128x64x64xbf16>
    return %1, %0 : tensor<8x128x64x64xbf16>, tensor<8x64x64x128xbf16>
  }
  func.func private @conv(%x: tensor<8x64x64x64xbf16>, %w: tensor<128x3x3x64xbf16>, %o: tensor<8x64x64x128xbf16>) -> tensor<8x64x64x128xbf16> {
    %c2 = arith.constant 2 : index
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0.0 : bf16
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %none : bf16 } : tensor<8x64x64x64xbf16> to tensor<8x66x66x64xbf16>
    %e = tensor.empty() : tensor<8x64x64x128xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x64x64x128xf32>) -> tensor<8x64x64x128xf32>
    %0:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<8x66x66x64xbf16>, tensor<128x3x3x64xbf16>) outs(%f, %o : tensor<8x64x64x128xf32>, tensor<8x64x64x128xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32, %z: bf16):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %q = arith.mulf %l, %r {inferno.convolution} : f32
      %u = arith.addf %t, %q : f32
      %i4 = linalg.index 4 : index
      %e4 = arith.cmpi eq, %i4, %c2 : index
      %i5 = linalg.index 5 : index
      %e5 = arith.cmpi eq, %i5, %c2 : index
      %e45 = arith.andi %e4, %e5 : i1
      %i6 = linalg.index 6 : index
      %e6 = arith.cmpi eq, %i6, %c63 : index
      %last = arith.andi %e45, %e6 : i1
      %y = arith.truncf %u : f32 to bf16
      %s = arith.select %last, %y, %z : bf16
      linalg.yield %u, %s : f32, bf16 } -> (tensor<8x64x64x128xf32>, tensor<8x64x64x128xbf16>)
    return %0#1 : tensor<8x64x64x128xbf16>
  }
  func.func private @transpose(%x: tensor<8x64x64x128xbf16>, %o: tensor<8x128x64x64xbf16>) -> tensor<8x128x64x64xbf16> {
    %0 = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<8x64x64x128xbf16>) outs(%o : tensor<8x128x64x64xbf16>) {
    ^bb0(%a: bf16, %z: bf16):
      linalg.yield %a : bf16 } -> tensor<8x128x64x64xbf16>
    return %0 : tensor<8x128x64x64xbf16>
  }
}
