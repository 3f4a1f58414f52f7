// RUN: inferno-opt %s --pass-pipeline='widen-arithmetic,func.func(cse)' | FileCheck %s

#id = affine_map<(d0) -> (d0)>

/// A chain in bf16 is extended once and rounded once; the constant is exact.
// CHECK-LABEL: func.func @chain
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[M:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK: %[[E:.*]] = math.exp %[[M]] : f32
// CHECK: %[[S:.*]] = arith.addf %[[E]], %{{.*}} : f32
// CHECK: %[[R:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[R]] : bf16
func.func @chain(%x: tensor<8xbf16>, %e: tensor<8xbf16>) -> tensor<8xbf16> {
  %one = arith.constant 1.0 : bf16
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xbf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %m = arith.mulf %a, %a : bf16
    %t = math.exp %m : bf16
    %s = arith.addf %t, %one : bf16
    linalg.yield %s : bf16
  } -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

/// Integers and float64 stay as they are.
// CHECK-LABEL: func.func @other_types
// CHECK: arith.addi %{{.*}} : i16
// CHECK: arith.mulf %{{.*}} : f64
// CHECK-NOT: extf
func.func @other_types(%i: tensor<8xi16>, %x: tensor<8xf64>, %ei: tensor<8xi16>, %ex: tensor<8xf64>) -> (tensor<8xi16>, tensor<8xf64>) {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<8xi16>) outs(%ei : tensor<8xi16>) {
  ^bb0(%a: i16, %o: i16):
    %m = arith.addi %a, %a : i16
    linalg.yield %m : i16
  } -> tensor<8xi16>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf64>) outs(%ex : tensor<8xf64>) {
  ^bb0(%a: f64, %o: f64):
    %m = arith.mulf %a, %a : f64
    linalg.yield %m : f64
  } -> tensor<8xf64>
  return %0, %1 : tensor<8xi16>, tensor<8xf64>
}
