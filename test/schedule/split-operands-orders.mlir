// RUN: inferno-opt %s -p 'split-operands{target=sm_90a}' | FileCheck %s

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#t = affine_map<(d0, d1, d2) -> (d2, d0)>
#r = affine_map<(d0, d1, d2) -> ()>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>

// A gradient that is scaled, and multiplied as it is and transposed: it is written once, in its own order.
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4096x4096xbf16>, %[[R:.*]]: tensor<f32>, %[[W:.*]]: tensor<1024x4096xbf16>)
// CHECK: %[[N:.*]] = call @mulf(%[[X]], %[[R]], %{{.*}})
// CHECK: call @{{.*}}(%[[W]], %[[N]], %{{.*}})
// CHECK: call @{{.*}}(%[[W]], %[[N]], %{{.*}})
// CHECK-NOT: call
// CHECK: func.func private @mulf(
// CHECK-NEXT: linalg.generic {indexing_maps = [#[[ID]], #{{.*}}, #[[ID]]]
func.func @main(%x: tensor<4096x4096xbf16>, %r: tensor<f32>, %w: tensor<1024x4096xbf16>) -> (tensor<4096x1024xbf16>, tensor<4096x1024xbf16>) {
  %0 = tensor.empty() : tensor<4096x1024xbf16>
  %1 = func.call @plain(%x, %r, %w, %0) : (tensor<4096x4096xbf16>, tensor<f32>, tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  %2 = tensor.empty() : tensor<4096x1024xbf16>
  %3 = func.call @transposed(%x, %r, %w, %2) : (tensor<4096x4096xbf16>, tensor<f32>, tensor<1024x4096xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  return %1, %3 : tensor<4096x1024xbf16>, tensor<4096x1024xbf16>
}
func.func private @plain(%x: tensor<4096x4096xbf16>, %r: tensor<f32>, %w: tensor<1024x4096xbf16>, %out: tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 4095 : index
  %0 = tensor.empty() : tensor<4096x1024xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %2:2 = linalg.generic {indexing_maps = [#x, #r, #w, #y, #y], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %r, %w : tensor<4096x4096xbf16>, tensor<f32>, tensor<1024x4096xbf16>) outs(%1, %out : tensor<4096x1024xf32>, tensor<4096x1024xbf16>) {
  ^bb0(%a: bf16, %b: f32, %d: bf16, %s: f32, %o: bf16):
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.mulf %3, %b : f32
    %7 = arith.truncf %4 {inferno.rounds} : f32 to bf16
    %8 = arith.extf %7 : bf16 to f32
    %9 = arith.extf %d : bf16 to f32
    %10 = arith.mulf %8, %9 : f32
    %11 = arith.addf %s, %10 : f32
    %12 = linalg.index 2 : index
    %13 = arith.cmpi eq, %12, %last : index
    %14 = arith.truncf %11 : f32 to bf16
    %15 = arith.select %13, %14, %o : bf16
    linalg.yield %11, %15 : f32, bf16
  } -> (tensor<4096x1024xf32>, tensor<4096x1024xbf16>)
  return %2#1 : tensor<4096x1024xbf16>
}
func.func private @transposed(%x: tensor<4096x4096xbf16>, %r: tensor<f32>, %w: tensor<1024x4096xbf16>, %out: tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 4095 : index
  %0 = tensor.empty() : tensor<4096x1024xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  %2:2 = linalg.generic {indexing_maps = [#t, #r, #w, #y, #y], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %r, %w : tensor<4096x4096xbf16>, tensor<f32>, tensor<1024x4096xbf16>) outs(%1, %out : tensor<4096x1024xf32>, tensor<4096x1024xbf16>) {
  ^bb0(%a: bf16, %b: f32, %d: bf16, %s: f32, %o: bf16):
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.mulf %3, %b : f32
    %7 = arith.truncf %4 {inferno.rounds} : f32 to bf16
    %8 = arith.extf %7 : bf16 to f32
    %9 = arith.extf %d : bf16 to f32
    %10 = arith.mulf %8, %9 : f32
    %11 = arith.addf %s, %10 : f32
    %12 = linalg.index 2 : index
    %13 = arith.cmpi eq, %12, %last : index
    %14 = arith.truncf %11 : f32 to bf16
    %15 = arith.select %13, %14, %o : bf16
    linalg.yield %11, %15 : f32, bf16
  } -> (tensor<4096x1024xf32>, tensor<4096x1024xbf16>)
  return %2#1 : tensor<4096x1024xbf16>
}
