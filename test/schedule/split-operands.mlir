// RUN: inferno-opt %s -p 'split-operands{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'split-operands{target=sm_90a always=1}' --split-input-file | FileCheck %s --check-prefix=ALWAYS
// RUN: inferno-opt %s -p 'split-operands{target=cpu always=1}' --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: inferno-opt %s -p 'split-operands{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=NONE

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#r = affine_map<(d0, d1, d2) -> (d0)>
#g = affine_map<(d0, d1, d2) -> (d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>

// Many rows that are normalised, which three products read: they are written once, and the kernels, which are alike then, are one.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<8192x4096xbf16>, %[[R:.*]]: tensor<8192xf32>, %[[G:.*]]: tensor<4096xbf16>, %[[W:.*]]: tensor<4096x4096xbf16>, %[[V:.*]]: tensor<4096x4096xbf16>)
// CHECK: %[[N:.*]] = call @mulf(%[[X]], %[[R]], %[[G]], %{{.*}})
// CHECK-NEXT: call @reduce_1(%[[W]], %[[N]], %{{.*}}) {inferno.source = ["a"]}
// CHECK: call @reduce_1(%[[V]], %[[N]], %{{.*}}) {inferno.source = ["b"]}
// CHECK-NOT: call
// CHECK: func.func private @reduce_1(%{{.*}}: tensor<4096x4096xbf16>, %{{.*}}: tensor<8192x4096xbf16>, %{{.*}}: tensor<8192x4096xbf16>)
// CHECK: func.func private @mulf(
// CHECK: arith.mulf
// CHECK-NEXT: arith.extf
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.truncf
// ALWAYS-LABEL: func.func @main
// NONE-LABEL: func.func @main
// NONE-COUNT-2: call @reduce(
// NONE-NOT: call
func.func @main(%x: tensor<8192x4096xbf16>, %r: tensor<8192xf32>, %g: tensor<4096xbf16>, %w: tensor<4096x4096xbf16>, %v: tensor<4096x4096xbf16>) -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>) {
  %0 = tensor.empty() : tensor<8192x4096xbf16>
  %1 = func.call @reduce(%x, %r, %g, %w, %0) {inferno.source = ["a"]} : (tensor<8192x4096xbf16>, tensor<8192xf32>, tensor<4096xbf16>, tensor<4096x4096xbf16>, tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
  %2 = tensor.empty() : tensor<8192x4096xbf16>
  %3 = func.call @reduce(%x, %r, %g, %v, %2) {inferno.source = ["b"]} : (tensor<8192x4096xbf16>, tensor<8192xf32>, tensor<4096xbf16>, tensor<4096x4096xbf16>, tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
  return %1, %3 : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>
}
func.func private @reduce(%x: tensor<8192x4096xbf16>, %r: tensor<8192xf32>, %g: tensor<4096xbf16>, %w: tensor<4096x4096xbf16>, %out: tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 4095 : index
  %0 = tensor.empty() : tensor<8192x4096xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8192x4096xf32>) -> tensor<8192x4096xf32>
  %2:2 = linalg.generic {indexing_maps = [#x, #r, #g, #w, #y, #y], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %r, %g, %w : tensor<8192x4096xbf16>, tensor<8192xf32>, tensor<4096xbf16>, tensor<4096x4096xbf16>) outs(%1, %out : tensor<8192x4096xf32>, tensor<8192x4096xbf16>) {
  ^bb0(%a: bf16, %b: f32, %c: bf16, %d: bf16, %s: f32, %o: bf16):
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.mulf %3, %b : f32
    %5 = arith.extf %c : bf16 to f32
    %6 = arith.mulf %4, %5 : f32
    %7 = arith.truncf %6 {inferno.rounds} : f32 to bf16
    %8 = arith.extf %7 : bf16 to f32
    %9 = arith.extf %d : bf16 to f32
    %10 = arith.mulf %8, %9 : f32
    %11 = arith.addf %s, %10 : f32
    %12 = linalg.index 2 : index
    %13 = arith.cmpi eq, %12, %last : index
    %14 = arith.truncf %11 : f32 to bf16
    %15 = arith.select %13, %14, %o : bf16
    linalg.yield %11, %15 : f32, bf16
  } -> (tensor<8192x4096xf32>, tensor<8192x4096xbf16>)
  return %2#1 : tensor<8192x4096xbf16>
}

// -----

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#g = affine_map<(d0, d1, d2) -> (d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#id = affine_map<(d0, d1) -> (d0, d1)>

// Few rows stay where they are.  What the end of the kernel reads too is still given to it, before the factor.
// CHECK-LABEL: func.func @main
// CHECK: call @scaled(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK-NOT: call
// ALWAYS-LABEL: func.func @main(
// ALWAYS-SAME: %[[X:.*]]: tensor<16x64xbf16>, %[[G:.*]]: tensor<64xbf16>, %[[W:.*]]: tensor<64x64xbf16>)
// ALWAYS: %[[N:.*]] = call @mulf(%[[X]], %[[G]], %{{.*}})
// ALWAYS-NEXT: call @scaled_1(%[[X]], %[[W]], %[[N]], %{{.*}})
// NONE-LABEL: func.func @main
// NONE: call @scaled(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// NONE-NOT: call
func.func @main(%x: tensor<16x64xbf16>, %g: tensor<64xbf16>, %w: tensor<64x64xbf16>) -> tensor<16x64xbf16> {
  %0 = tensor.empty() : tensor<16x64xbf16>
  %1 = func.call @scaled(%x, %g, %w, %0) : (tensor<16x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>, tensor<16x64xbf16>) -> tensor<16x64xbf16>
  return %1 : tensor<16x64xbf16>
}
func.func private @scaled(%x: tensor<16x64xbf16>, %g: tensor<64xbf16>, %w: tensor<64x64xbf16>, %out: tensor<16x64xbf16>) -> tensor<16x64xbf16> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<16x64xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %2 = linalg.generic {indexing_maps = [#x, #g, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %g, %w : tensor<16x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>) outs(%1 : tensor<16x64xf32>) {
  ^bb0(%a: bf16, %c: bf16, %d: bf16, %s: f32):
    %two = arith.constant 2.0 : f32
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.extf %c : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.mulf %5, %two : f32
    %7 = arith.truncf %6 : f32 to bf16
    %8 = arith.extf %7 : bf16 to f32
    %9 = arith.extf %d : bf16 to f32
    %10 = arith.mulf %8, %9 : f32
    %11 = arith.addf %s, %10 : f32
    linalg.yield %11 : f32
  } -> tensor<16x64xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%2, %x : tensor<16x64xf32>, tensor<16x64xbf16>) outs(%out : tensor<16x64xbf16>) {
  ^bb0(%s: f32, %a: bf16, %o: bf16):
    %4 = arith.extf %a : bf16 to f32
    %5 = arith.addf %s, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    linalg.yield %6 : bf16
  } -> tensor<16x64xbf16>
  return %3 : tensor<16x64xbf16>
}

// -----

// What its place tells of an element of a factor is computed before, where the general generator alone would take both.
// CHECK-LABEL: func.func @main
// CHECK: %[[F:.*]] = call @select(%arg1, %{{.*}})
// CHECK-NEXT: call @first{{.*}}(%arg0, %[[F]], %{{.*}})
// CHECK-NOT: call
// ALWAYS-LABEL: func.func @main
// NONE-LABEL: func.func @main
// NONE: call @first(
// NONE-NOT: call
func.func @main(%x: tensor<1024x4x5xbf16>, %y: tensor<1024x5x1024xbf16>) -> tensor<1024x4x1024xbf16> {
  %0 = tensor.empty() : tensor<1024x4x1024xbf16>
  %1 = func.call @first(%x, %y, %0) : (tensor<1024x4x5xbf16>, tensor<1024x5x1024xbf16>, tensor<1024x4x1024xbf16>) -> tensor<1024x4x1024xbf16>
  return %1 : tensor<1024x4x1024xbf16>
}
func.func private @first(%x: tensor<1024x4x5xbf16>, %y: tensor<1024x5x1024xbf16>, %out: tensor<1024x4x1024xbf16>) -> tensor<1024x4x1024xbf16> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : bf16
  %c3 = arith.constant 3 : index
  %last = arith.constant 4 : index
  %0 = tensor.empty() : tensor<1024x4x1024xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<1024x4x1024xf32>) -> tensor<1024x4x1024xf32>
  %2:2 = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>,
    affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<1024x4x5xbf16>, tensor<1024x5x1024xbf16>) outs(%1, %out : tensor<1024x4x1024xf32>, tensor<1024x4x1024xbf16>) {
  ^bb0(%a: bf16, %c: bf16, %s: f32, %o: bf16):
    %k = linalg.index 3 : index
    %few = arith.cmpi ult, %k, %c3 : index
    %d = arith.select %few, %c, %none : bf16
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.extf %d : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %s, %5 : f32
    %end = arith.cmpi eq, %k, %last : index
    %7 = arith.truncf %6 : f32 to bf16
    %8 = arith.select %end, %7, %o : bf16
    linalg.yield %6, %8 : f32, bf16
  } -> (tensor<1024x4x1024xf32>, tensor<1024x4x1024xbf16>)
  return %2#1 : tensor<1024x4x1024xbf16>
}
