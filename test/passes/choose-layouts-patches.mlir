// RUN: inferno-opt %s -p 'fold-transposes,mark-convolutions,expand-patches,choose-layouts,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// Windows side by side alone: their products are returned as they are, and read by others in channels-last order.
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %arg1 : tensor<1x4x2x2x2x2xf32>, tensor<8x4x2x2xf32>) outs(%{{.*}} : tensor<1x8x2x2xf32>)
  // CHECK: return %[[A]]
  func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x2x2xf32>) -> tensor<1x8x2x2xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x8x2x2xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<1x4x4x4xf32>, tensor<8x4x2x2xf32>) outs(%f : tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
    return %0 : tensor<1x8x2x2xf32>
  }
}

// -----

module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x2x2x8xf32>)
  func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<8x4x2x2xf32>) -> tensor<1x2x2x8xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x8x2x2xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<1x4x4x4xf32>, tensor<8x4x2x2xf32>) outs(%f : tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xf32>
    %se = tensor.empty() : tensor<1x2x2xf32>
    %sf = linalg.fill ins(%zero : f32) outs(%se : tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(n, y, x, c) -> (n, c, y, x)>, affine_map<(n, y, x, c) -> (n, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%0 : tensor<1x8x2x2xf32>) outs(%sf : tensor<1x2x2xf32>) {
    ^bb0(%a: f32, %b: f32):
      %t = arith.addf %a, %b : f32
      linalg.yield %t : f32
    } -> tensor<1x2x2xf32>
    %ye = tensor.empty() : tensor<1x2x2x8xf32>
    %2 = linalg.generic {indexing_maps = [affine_map<(n, y, x, c) -> (n, c, y, x)>, affine_map<(n, y, x, c) -> (n, y, x)>, affine_map<(n, y, x, c) -> (n, y, x, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0, %1 : tensor<1x8x2x2xf32>, tensor<1x2x2xf32>) outs(%ye : tensor<1x2x2x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %t = arith.divf %a, %b : f32
      linalg.yield %t : f32
    } -> tensor<1x2x2x8xf32>
    return %2 : tensor<1x2x2x8xf32>
  }
}
