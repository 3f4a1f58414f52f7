// RUN: inferno-opt %s --pass-pipeline='restore-constants' | FileCheck %s

#map = affine_map<(d0) -> (d0)>
// The elementwise operation reads it; the sum starts from it.
// CHECK-LABEL: @both
// CHECK: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: %[[FILL:.*]] = linalg.fill
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[ONES]] : tensor<4xf32>, tensor<4xf32>)
// CHECK: linalg.generic {{.*}} outs(%[[FILL]] : tensor<4xf32>)
func.func @both(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%x, %ones : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%ones : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %s = arith.addf %a, %out : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Its number is not known.
// CHECK-LABEL: @unknown
// CHECK-NOT: dense
func.func @unknown(%n: f32) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.fill ins(%n : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
