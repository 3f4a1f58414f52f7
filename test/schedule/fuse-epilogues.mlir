// RUN: inferno-opt %s -p 'fuse-epilogues{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-epilogues{target=cpu always=1}' --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: inferno-opt %s -p 'fuse-epilogues{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=NONE

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#id = affine_map<(d0, d1) -> (d0, d1)>

// A linear layer that is trained: its activation, and where that is not positive.  The sums are not rounded in between, and the bias is added once.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @matmul_1({{.*}}) {inferno.source = ["a", "b", "c"]}
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1 : tensor<64x40xbf16>, tensor<64x40xi1>
// CHECK: func.func private @matmul_1(
// CHECK: %[[S:.*]] = linalg.generic {{.*}}["parallel", "parallel", "reduction"]}
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]} ins(%[[S]], %{{.*}} : tensor<64x40xf32>, tensor<40xbf16>)
// CHECK-NEXT: ^bb0(%[[IN:[a-z_0-9]+]]: f32, %[[BIAS:[a-z_0-9]+]]: bf16,
// CHECK-NEXT: %[[B:.*]] = arith.extf %[[BIAS]]
// CHECK-NEXT: %[[T:.*]] = arith.addf %[[IN]], %[[B]]
// CHECK-NEXT: arith.cmpf
// CHECK-NEXT: arith.select
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: arith.cmpf
// CHECK-NEXT: linalg.yield
// NONE-LABEL: func.func @main
// NONE-COUNT-3: call @
func.func @main(%x: tensor<64x64xbf16>, %w: tensor<40x64xbf16>, %b: tensor<40xbf16>) -> (tensor<64x40xbf16>, tensor<64x40xi1>) {
  %0 = tensor.empty() : tensor<64x40xbf16>
  %1 = func.call @matmul(%x, %w, %0) {inferno.source = ["a"]} : (tensor<64x64xbf16>, tensor<40x64xbf16>, tensor<64x40xbf16>) -> tensor<64x40xbf16>
  %2 = tensor.empty() : tensor<64x40xbf16>
  %3 = func.call @relu(%1, %b, %2) {inferno.source = ["b"]} : (tensor<64x40xbf16>, tensor<40xbf16>, tensor<64x40xbf16>) -> tensor<64x40xbf16>
  %4 = tensor.empty() : tensor<64x40xi1>
  %5 = func.call @below(%1, %b, %4) {inferno.source = ["c"]} : (tensor<64x40xbf16>, tensor<40xbf16>, tensor<64x40xi1>) -> tensor<64x40xi1>
  return %3, %5 : tensor<64x40xbf16>, tensor<64x40xi1>
}
func.func private @matmul(%x: tensor<64x64xbf16>, %w: tensor<40x64xbf16>, %out: tensor<64x40xbf16>) -> tensor<64x40xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 63 : index
  %0 = tensor.empty() : tensor<64x40xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<64x40xf32>) -> tensor<64x40xf32>
  %2:2 = linalg.generic {indexing_maps = [#x, #w, #y, #y], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<64x64xbf16>, tensor<40x64xbf16>) outs(%1, %out : tensor<64x40xf32>, tensor<64x40xbf16>) {
  ^bb0(%a: bf16, %c: bf16, %s: f32, %o: bf16):
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.extf %c : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %s, %5 : f32
    %7 = linalg.index 2 : index
    %8 = arith.cmpi eq, %7, %last : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %o : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<64x40xf32>, tensor<64x40xbf16>)
  return %2#1 : tensor<64x40xbf16>
}
func.func private @relu(%y: tensor<64x40xbf16>, %b: tensor<40xbf16>, %out: tensor<64x40xbf16>) -> tensor<64x40xbf16> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%y, %b : tensor<64x40xbf16>, tensor<40xbf16>) outs(%out : tensor<64x40xbf16>) {
  ^bb0(%a: bf16, %c: bf16, %o: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %c : bf16 to f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.cmpf ugt, %3, %zero : f32
    %5 = arith.select %4, %3, %zero : f32
    %6 = arith.truncf %5 : f32 to bf16
    linalg.yield %6 : bf16
  } -> tensor<64x40xbf16>
  return %0 : tensor<64x40xbf16>
}
func.func private @below(%y: tensor<64x40xbf16>, %b: tensor<40xbf16>, %out: tensor<64x40xi1>) -> tensor<64x40xi1> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
    ins(%y, %b : tensor<64x40xbf16>, tensor<40xbf16>) outs(%out : tensor<64x40xi1>) {
  ^bb0(%a: bf16, %c: bf16, %o: i1):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %c : bf16 to f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.cmpf ugt, %3, %zero : f32
    %5 = arith.select %4, %3, %zero : f32
    %6 = arith.cmpf ole, %5, %zero : f32
    linalg.yield %6 : i1
  } -> tensor<64x40xi1>
  return %0 : tensor<64x40xi1>
}

// -----

// A reader that has the result transposed does not go over it as the sums are made: it stays, and so does the contraction.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
#t = affine_map<(d0, d1) -> (d1, d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
#x2 = affine_map<(d0, d1, d2) -> (d0, d2)>
#w2 = affine_map<(d0, d1, d2) -> (d1, d2)>
#y2 = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = tensor.empty() : tensor<64x64xf32>
  %1 = func.call @product(%x, %x, %0) : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = tensor.empty() : tensor<64x64xf32>
  %3 = func.call @both(%1, %2) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1, %3 : tensor<64x64xf32>, tensor<64x64xf32>
}
func.func private @product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %out: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %1 = linalg.fill ins(%zero : f32) outs(%out : tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = linalg.generic {indexing_maps = [#x2, #w2, #y2], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<64x64xf32>, tensor<64x64xf32>) outs(%1 : tensor<64x64xf32>) {
  ^bb0(%a: f32, %c: f32, %s: f32):
    %3 = arith.mulf %a, %c : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
func.func private @both(%y: tensor<64x64xf32>, %out: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = linalg.generic {indexing_maps = [#id2, #t, #id2], iterator_types = ["parallel", "parallel"]}
    ins(%y, %y : tensor<64x64xf32>, tensor<64x64xf32>) outs(%out : tensor<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// -----

// A convolution that is trained: its activation, and where that is not positive, with the padding in the kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @conv_1(
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1 : tensor<2x8x8x64xbf16>, tensor<2x8x8x64xi1>
// CHECK: func.func private @conv_1(
// CHECK: tensor.pad
// CHECK: %[[S:.*]] = linalg.generic {{.*}}"reduction"]}
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "parallel", "parallel"]} ins(%[[S]] : tensor<2x8x8x64xf32>)
// CHECK: linalg.yield %{{.*}}, %{{.*}} : bf16, i1
// NONE-LABEL: func.func @main
// NONE-COUNT-3: call @
#image = affine_map<(n, p, q, f, r, s, c) -> (n, p + r, q + s, c)>
#window = affine_map<(n, p, q, f, r, s, c) -> (f, r, s, c)>
#sums = affine_map<(n, p, q, f, r, s, c) -> (n, p, q, f)>
#places = affine_map<(n, p, q, f) -> (n, p, q, f)>
func.func @main(%x: tensor<2x8x8x64xbf16>, %w: tensor<64x3x3x64xbf16>) -> (tensor<2x8x8x64xbf16>, tensor<2x8x8x64xi1>) {
  %0 = tensor.empty() : tensor<2x8x8x64xbf16>
  %1 = func.call @conv(%x, %w, %0) : (tensor<2x8x8x64xbf16>, tensor<64x3x3x64xbf16>, tensor<2x8x8x64xbf16>) -> tensor<2x8x8x64xbf16>
  %2 = tensor.empty() : tensor<2x8x8x64xbf16>
  %3 = func.call @relu(%1, %2) : (tensor<2x8x8x64xbf16>, tensor<2x8x8x64xbf16>) -> tensor<2x8x8x64xbf16>
  %4 = tensor.empty() : tensor<2x8x8x64xi1>
  %5 = func.call @below(%1, %4) : (tensor<2x8x8x64xbf16>, tensor<2x8x8x64xi1>) -> tensor<2x8x8x64xi1>
  return %3, %5 : tensor<2x8x8x64xbf16>, tensor<2x8x8x64xi1>
}
func.func private @conv(%x: tensor<2x8x8x64xbf16>, %w: tensor<64x3x3x64xbf16>, %out: tensor<2x8x8x64xbf16>) -> tensor<2x8x8x64xbf16> {
  %none = arith.constant 0.0 : bf16
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %last = arith.constant 63 : index
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %none : bf16
  } : tensor<2x8x8x64xbf16> to tensor<2x10x10x64xbf16>
  %0 = tensor.empty() : tensor<2x8x8x64xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  %2:2 = linalg.generic {indexing_maps = [#image, #window, #sums, #sums],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%padded, %w : tensor<2x10x10x64xbf16>, tensor<64x3x3x64xbf16>) outs(%1, %out : tensor<2x8x8x64xf32>, tensor<2x8x8x64xbf16>) {
  ^bb0(%a: bf16, %c: bf16, %s: f32, %o: bf16):
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.extf %c : bf16 to f32
    %5 = arith.mulf %3, %4 {inferno.convolution} : f32
    %6 = arith.addf %s, %5 : f32
    %r = linalg.index 4 : index
    %s1 = linalg.index 5 : index
    %k1 = linalg.index 6 : index
    %7 = arith.cmpi eq, %r, %two : index
    %8 = arith.cmpi eq, %s1, %two : index
    %9 = arith.cmpi eq, %k1, %last : index
    %10 = arith.andi %7, %8 : i1
    %11 = arith.andi %10, %9 : i1
    %12 = arith.truncf %6 : f32 to bf16
    %13 = arith.select %11, %12, %o : bf16
    linalg.yield %6, %13 : f32, bf16
  } -> (tensor<2x8x8x64xf32>, tensor<2x8x8x64xbf16>)
  return %2#1 : tensor<2x8x8x64xbf16>
}
func.func private @relu(%y: tensor<2x8x8x64xbf16>, %out: tensor<2x8x8x64xbf16>) -> tensor<2x8x8x64xbf16> {
  %zero = arith.constant 0.0 : bf16
  %0 = linalg.generic {indexing_maps = [#places, #places], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<2x8x8x64xbf16>) outs(%out : tensor<2x8x8x64xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %1 = arith.maximumf %a, %zero : bf16
    linalg.yield %1 : bf16
  } -> tensor<2x8x8x64xbf16>
  return %0 : tensor<2x8x8x64xbf16>
}
func.func private @below(%y: tensor<2x8x8x64xbf16>, %out: tensor<2x8x8x64xi1>) -> tensor<2x8x8x64xi1> {
  %zero = arith.constant 0.0 : bf16
  %0 = linalg.generic {indexing_maps = [#places, #places], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<2x8x8x64xbf16>) outs(%out : tensor<2x8x8x64xi1>) {
  ^bb0(%a: bf16, %o: i1):
    %1 = arith.cmpf ole, %a, %zero : bf16
    linalg.yield %1 : i1
  } -> tensor<2x8x8x64xi1>
  return %0 : tensor<2x8x8x64xi1>
}
