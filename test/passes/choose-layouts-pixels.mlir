// RUN: inferno-opt %s -p 'fold-transposes,mark-convolutions,func.func(linalg-fold-unit-extent-dims),choose-layouts,func.func(canonicalize,cse)' | FileCheck %s

// Products of pixels' channels alone, of what lies as it is returned: nothing has to lie otherwise, nor what is added.
module {
  // CHECK-LABEL: @main
  // CHECK: linalg.generic {{.*}} ins(%arg0, %{{.*}} : tensor<2x8x4x4xf32>, tensor<8x8xf32>) outs(%{{.*}} : tensor<2x8x4x4xf32>)
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x8x4x4xf32>)
  // CHECK-NOT: linalg.generic
  func.func @main(%x: tensor<2x8x4x4xf32>, %w: tensor<8x8x1x1xf32>, %r: tensor<64x4xf32>) -> tensor<2x8x4x4xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x8x4x4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%x, %w : tensor<2x8x4x4xf32>, tensor<8x8x1x1xf32>) outs(%f : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
    %y = tensor.expand_shape %r [[0, 1, 2], [3]] output_shape [2, 8, 4, 4] : tensor<64x4xf32> into tensor<2x8x4x4xf32>
    %1 = linalg.add ins(%0, %y : tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) outs(%e : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
    return %1 : tensor<2x8x4x4xf32>
  }
}
