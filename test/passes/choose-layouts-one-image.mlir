// RUN: inferno-opt %s -p 'fold-transposes,mark-convolutions,func.func(linalg-fold-unit-extent-dims,canonicalize,cse),choose-layouts' | FileCheck %s

// One image has no dimension of images by then; a depthwise convolution of what comes and leaves row-major stays so.
// CHECK: #[[ONE:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d2, d0 + d3, d1 + d4)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: %[[IMAGE:.*]] = tensor.collapse_shape %arg0
  // CHECK-NEXT: %[[PADDED:.*]] = tensor.pad %[[IMAGE]] low[0, 1, 1]
  // CHECK: linalg.generic {indexing_maps = [#[[ONE]], {{.*}} ins(%[[PADDED]], %arg1 : tensor<8x11x11xf32>, tensor<8x3x3xf32>)
  // CHECK-NOT: tensor<9x9x8xf32>
  func.func @main(%x: tensor<1x8x9x9xf32>, %w: tensor<8x3x3xf32>) -> tensor<1x8x9x9xf32> {
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
    } : tensor<1x8x9x9xf32> to tensor<1x8x11x11xf32>
    %e = tensor.empty() : tensor<1x8x9x9xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x9x9xf32>) -> tensor<1x8x9x9xf32>
    %1 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%p, %w : tensor<1x8x11x11xf32>, tensor<8x3x3xf32>) outs(%f : tensor<1x8x9x9xf32>) -> tensor<1x8x9x9xf32>
    return %1 : tensor<1x8x9x9xf32>
  }
}
