// RUN: inferno-opt %s -p 'fold-transposes,mark-convolutions,choose-layouts,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// A row-major tensor is added to a convolution of a row-major image, and the activation of that is given back. The bias is added channels last, as the end of the
// convolution's kernel; what reads the tensor goes over row-major results, and so does what is behind it.
// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>
// CHECK-LABEL: @main
// CHECK: %[[C:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x4x16xf32>)
// CHECK: inferno.convolution
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[C]], %arg2 : tensor<2x4x4x16xf32>, tensor<16xf32>) outs(%{{.*}} : tensor<2x4x4x16xf32>)
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[LAST]], {{.*}} ins(%[[B]], %arg3 : tensor<2x4x4x16xf32>, tensor<2x16x4x4xf32>) outs(%{{.*}} : tensor<2x16x4x4xf32>)
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<2x16x4x4xf32>) outs(%{{.*}} : tensor<2x16x4x4xf32>)
// CHECK: return %[[R]]
#id = affine_map<(n, c, y, x) -> (n, c, y, x)>
#channel = affine_map<(n, c, y, x) -> (c)>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<2x32x6x6xf32>, %w: tensor<16x32x3x3xf32>, %b: tensor<16xf32>, %y: tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x16x4x4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%x, %w : tensor<2x32x6x6xf32>, tensor<16x32x3x3xf32>) outs(%f : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %1 = linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0, %b : tensor<2x16x4x4xf32>, tensor<16xf32>) outs(%e : tensor<2x16x4x4xf32>) {
    ^bb0(%a: f32, %c: f32, %d: f32):
      %t = arith.addf %a, %c : f32
      linalg.yield %t : f32
    } -> tensor<2x16x4x4xf32>
    %2 = linalg.add ins(%1, %y : tensor<2x16x4x4xf32>, tensor<2x16x4x4xf32>) outs(%e : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %3 = linalg.tanh ins(%2 : tensor<2x16x4x4xf32>) outs(%e : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    return %3 : tensor<2x16x4x4xf32>
  }
}

// -----

// What is behind the sum may read an argument first.
// CHECK-LABEL: @scaled
// CHECK: %[[C:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x4x16xf32>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]], %arg3 : tensor<2x4x4x16xf32>, tensor<2x16x4x4xf32>) outs(%{{.*}} : tensor<2x16x4x4xf32>)
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%arg2, %[[S]] : tensor<16xf32>, tensor<2x16x4x4xf32>) outs(%{{.*}} : tensor<2x16x4x4xf32>)
// CHECK: return %[[R]]
#id = affine_map<(n, c, y, x) -> (n, c, y, x)>
#channel = affine_map<(n, c, y, x) -> (c)>
module @scaled attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<2x32x6x6xf32>, %w: tensor<16x32x3x3xf32>, %b: tensor<16xf32>, %y: tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x16x4x4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%x, %w : tensor<2x32x6x6xf32>, tensor<16x32x3x3xf32>) outs(%f : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %1 = linalg.add ins(%0, %y : tensor<2x16x4x4xf32>, tensor<2x16x4x4xf32>) outs(%e : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %2 = linalg.generic {indexing_maps = [#channel, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%b, %1 : tensor<16xf32>, tensor<2x16x4x4xf32>) outs(%e : tensor<2x16x4x4xf32>) {
    ^bb0(%a: f32, %c: f32, %d: f32):
      %t = arith.mulf %a, %c : f32
      linalg.yield %t : f32
    } -> tensor<2x16x4x4xf32>
    return %2 : tensor<2x16x4x4xf32>
  }
}
