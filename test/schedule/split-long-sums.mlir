// RUN: inferno-opt %s -p 'split-long-sums{target=sm_90a},canonicalize' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'split-long-sums{target=sm_80}' --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: inferno-opt %s -p 'split-long-sums{target=cpu}' --split-input-file | FileCheck %s --check-prefix=NONE

// NONE-NOT: func.func private @{{.*}}_parts

#lhs = affine_map<(m, n, k) -> (k, m)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#col = affine_map<(m, n, k) -> (n)>

// Both factors are cut along their terms, which are a batch of sums in float32; what ends the product ends the kernel that adds them.
// CHECK-DAG: #[[L:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
// CHECK-DAG: #[[R:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-DAG: #[[POINTS:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0, 1], [2]] output_shape [8, 1024, 128]
// CHECK: %[[Y:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0, 1], [2]] output_shape [8, 1024, 64]
// CHECK: %[[P:.*]] = call @matmul_parts(%[[X]], %[[Y]],
// CHECK: call @matmul_sums(%[[P]], %arg2,
// CHECK: func.func private @matmul_parts
// CHECK: linalg.generic {indexing_maps = [#[[L]], #[[R]], #[[O]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-NOT: arith.truncf
// CHECK: func.func private @matmul_sums
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[POINTS]]], iterator_types = ["reduction", "parallel", "parallel"]}
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.truncf
module {
  func.func @main(%x: tensor<8192x128xbf16>, %y: tensor<8192x64xbf16>, %b: tensor<64xbf16>) -> tensor<128x64xbf16> {
    %e = tensor.empty() : tensor<128x64xbf16>
    %0 = call @matmul(%x, %y, %b, %e) : (tensor<8192x128xbf16>, tensor<8192x64xbf16>, tensor<64xbf16>, tensor<128x64xbf16>) -> tensor<128x64xbf16>
    return %0 : tensor<128x64xbf16>
  }
  func.func private @matmul(%x: tensor<8192x128xbf16>, %y: tensor<8192x64xbf16>, %b: tensor<64xbf16>, %d: tensor<128x64xbf16>) -> tensor<128x64xbf16> {
    %last = arith.constant 8191 : index
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<128x64xf32>
    %i = linalg.fill ins(%zero : f32) outs(%e : tensor<128x64xf32>) -> tensor<128x64xf32>
    %0:2 = linalg.generic {indexing_maps = [#lhs, #rhs, #col, #out, #out], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %y, %b : tensor<8192x128xbf16>, tensor<8192x64xbf16>, tensor<64xbf16>) outs(%i, %d : tensor<128x64xf32>, tensor<128x64xbf16>) {
    ^bb0(%p: bf16, %q: bf16, %r: bf16, %s: f32, %t: bf16):
      %1 = arith.extf %p : bf16 to f32
      %2 = arith.extf %q : bf16 to f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %s, %3 : f32
      %5 = linalg.index 2 : index
      %6 = arith.cmpi eq, %5, %last : index
      %7 = arith.extf %r : bf16 to f32
      %8 = arith.addf %4, %7 : f32
      %9 = arith.truncf %8 : f32 to bf16
      %10 = arith.select %6, %9, %t : bf16
      linalg.yield %4, %10 : f32, bf16
    } -> (tensor<128x64xf32>, tensor<128x64xbf16>)
    return %0#1 : tensor<128x64xbf16>
  }
}

// -----

#lhs = affine_map<(b, m, n, k) -> (b, k, m)>
#rhs = affine_map<(b, m, n, k) -> (b, k, n)>
#out = affine_map<(b, m, n, k) -> (m, n)>

// Terms of two loops: the outer one, of about as many as there would be parts, is the batch; nothing is reshaped.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.expand_shape
// CHECK: call @matmul_parts(%arg0, %arg1,
// CHECK: func.func private @matmul_parts
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
module {
  func.func @main(%x: tensor<12x2048x128xf16>, %y: tensor<12x2048x128xf16>) -> tensor<128x128xf32> {
    %e = tensor.empty() : tensor<128x128xf32>
    %0 = call @matmul(%x, %y, %e) : (tensor<12x2048x128xf16>, tensor<12x2048x128xf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
    return %0 : tensor<128x128xf32>
  }
  func.func private @matmul(%x: tensor<12x2048x128xf16>, %y: tensor<12x2048x128xf16>, %d: tensor<128x128xf32>) -> tensor<128x128xf32> {
    %zero = arith.constant 0.0 : f32
    %i = linalg.fill ins(%zero : f32) outs(%d : tensor<128x128xf32>) -> tensor<128x128xf32>
    %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["reduction", "parallel", "parallel", "reduction"]}
        ins(%x, %y : tensor<12x2048x128xf16>, tensor<12x2048x128xf16>) outs(%i : tensor<128x128xf32>) {
    ^bb0(%p: f16, %q: f16, %s: f32):
      %1 = arith.extf %p : f16 to f32
      %2 = arith.extf %q : f16 to f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %s, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<128x128xf32>
    return %0 : tensor<128x128xf32>
  }
}

// -----

#lhs = affine_map<(m, n, k) -> (k, m)>
#rhs = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>

// Results enough for all multiprocessors stay one kernel.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul(
// CHECK-NOT: @matmul_parts
module {
  func.func @main(%x: tensor<8192x512xbf16>, %y: tensor<8192x512xbf16>) -> tensor<512x512xf32> {
    %e = tensor.empty() : tensor<512x512xf32>
    %0 = call @matmul(%x, %y, %e) : (tensor<8192x512xbf16>, tensor<8192x512xbf16>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
  func.func private @matmul(%x: tensor<8192x512xbf16>, %y: tensor<8192x512xbf16>, %d: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %zero = arith.constant 0.0 : f32
    %i = linalg.fill ins(%zero : f32) outs(%d : tensor<512x512xf32>) -> tensor<512x512xf32>
    %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %y : tensor<8192x512xbf16>, tensor<8192x512xbf16>) outs(%i : tensor<512x512xf32>) {
    ^bb0(%p: bf16, %q: bf16, %s: f32):
      %1 = arith.extf %p : bf16 to f32
      %2 = arith.extf %q : bf16 to f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %s, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}
