// RUN: inferno-opt %s -p widen-sums --split-input-file | FileCheck %s

#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (j, k)>
#out = affine_map<(i, j, k) -> (i, j)>
#points = affine_map<(i, j) -> (i, j)>

// The sum is rounded where it is stored.
// CHECK-LABEL: @pairs
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<64x32xbf16>, tensor<48x32xbf16>) outs(%{{.*}} : tensor<64x48xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: bf16, %[[B:.*]]: bf16, %[[S:.*]]: f32):
// CHECK-NEXT: %[[L:.*]] = arith.extf %[[A]] : bf16 to f32
// CHECK-NEXT: %[[R:.*]] = arith.extf %[[B]] : bf16 to f32
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[L]], %[[R]] : f32
// CHECK-NEXT: arith.addf %[[S]], %[[P]] : f32
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] : tensor<64x48xf32>) outs(%{{.*}} : tensor<64x48xbf16>)
// CHECK: arith.truncf
func.func @pairs(%a: tensor<64x32xbf16>, %b: tensor<48x32xbf16>) -> tensor<64x48xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<64x48xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<64x48xbf16>) -> tensor<64x48xbf16>
  %s = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<64x32xbf16>, tensor<48x32xbf16>) outs(%f : tensor<64x48xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %p = arith.mulf %x, %y : bf16
    %t = arith.addf %p, %o : bf16
    linalg.yield %t : bf16
  } -> tensor<64x48xbf16>
  return %s : tensor<64x48xbf16>
}

// -----

#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (j, k)>
#out = affine_map<(i, j, k) -> (i, j)>
#points = affine_map<(i, j) -> (i, j)>

// What reads it in float32 gets it as it is.
// CHECK-LABEL: @scaled
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<64x48xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] : tensor<64x48xf32>)
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32,
// CHECK-NEXT: arith.mulf %[[S]]
// CHECK-NEXT: arith.truncf
func.func @scaled(%a: tensor<64x32xbf16>, %b: tensor<48x32xbf16>) -> tensor<64x48xbf16> {
  %zero = arith.constant 0.0 : bf16
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<64x48xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<64x48xbf16>) -> tensor<64x48xbf16>
  %s = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<64x32xbf16>, tensor<48x32xbf16>) outs(%f : tensor<64x48xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %p = arith.mulf %x, %y : bf16
    %t = arith.addf %p, %o : bf16
    linalg.yield %t : bf16
  } -> tensor<64x48xbf16>
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<64x48xbf16>) outs(%e : tensor<64x48xbf16>) {
  ^bb0(%x: bf16, %o: bf16):
    %w = arith.extf %x : bf16 to f32
    %m = arith.mulf %w, %half : f32
    %n = arith.truncf %m : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<64x48xbf16>
  return %r : tensor<64x48xbf16>
}

// -----

#lhs = affine_map<(i, j, k) -> (i, k)>
#rhs = affine_map<(i, j, k) -> (j, k)>
#out = affine_map<(i, j, k) -> (i, j)>

// Few columns, and products that are rounded, stay.
// CHECK-LABEL: @few
// CHECK-NOT: f32
func.func @few(%a: tensor<64x32xbf16>, %b: tensor<3x32xbf16>) -> tensor<64x3xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<64x3xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<64x3xbf16>) -> tensor<64x3xbf16>
  %s = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<64x32xbf16>, tensor<3x32xbf16>) outs(%f : tensor<64x3xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %p = arith.mulf %x, %y : bf16
    %t = arith.addf %p, %o : bf16
    linalg.yield %t : bf16
  } -> tensor<64x3xbf16>
  return %s : tensor<64x3xbf16>
}

func.func @rounded(%a: tensor<64x32xbf16>, %b: tensor<48x32xbf16>) -> tensor<64x48xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<64x48xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<64x48xbf16>) -> tensor<64x48xbf16>
  %s = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<64x32xbf16>, tensor<48x32xbf16>) outs(%f : tensor<64x48xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %p = arith.mulf %x, %y {inferno.rounds} : bf16
    %t = arith.addf %p, %o : bf16
    linalg.yield %t : bf16
  } -> tensor<64x48xbf16>
  return %s : tensor<64x48xbf16>
}
