// RUN: inferno-opt %s --pass-pipeline='trim-windows' | FileCheck %s
// RUN: inferno-opt %s --pass-pipeline='trim-windows,func.func(linalg-fold-unit-extent-dims)'

// One window down, four across: of the four rows the last is not read, and the ninth column stays.
// CHECK-LABEL: @conv
// CHECK: %[[S:.*]] = tensor.extract_slice %arg0[0, 0, 0, 0] [1, 3, 3, 9] [1, 1, 1, 1]
// CHECK: linalg.conv_2d_nchw_fchw {{.*}} ins(%[[S]], %arg1
func.func @conv(%x: tensor<1x3x4x9xf32>, %w: tensor<8x3x3x3xf32>, %o: tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%x, %w : tensor<1x3x4x9xf32>, tensor<8x3x3x3xf32>) outs(%o : tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32>
  return %0 : tensor<1x8x1x4xf32>
}

// A pooling written out: dilated, so that it reaches as far as its input goes.
// CHECK-LABEL: @all_is_read
// CHECK-NOT: tensor.extract_slice
func.func @all_is_read(%x: tensor<5xf32>, %w: tensor<3xf32>, %o: tensor<1xf32>) -> tensor<1xf32> {
  %0 = linalg.generic {
    indexing_maps = [affine_map<(i, k) -> (i * 4 + k * 2)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x, %w : tensor<5xf32>, tensor<3xf32>) outs(%o : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %1 = arith.maximumf %a, %c : f32
    linalg.yield %1 : f32
  } -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// CHECK-LABEL: @written_out
// CHECK: tensor.extract_slice %arg0[0] [3] [1]
func.func @written_out(%x: tensor<5xf32>, %w: tensor<3xf32>, %o: tensor<1xf32>) -> tensor<1xf32> {
  %0 = linalg.generic {
    indexing_maps = [affine_map<(i, k) -> (i * 4 + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x, %w : tensor<5xf32>, tensor<3xf32>) outs(%o : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %1 = arith.maximumf %a, %c : f32
    linalg.yield %1 : f32
  } -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// A width that varies is left alone, the rows are trimmed.
// CHECK-LABEL: @varies
// CHECK: tensor.extract_slice %arg0[0, 0, 0, 0] [1, 3, 3, %{{.*}}] [1, 1, 1, 1] : tensor<1x3x4x?xf32> to tensor<1x3x3x?xf32>
func.func @varies(%x: tensor<1x3x4x?xf32>, %w: tensor<8x3x3x3xf32>, %o: tensor<1x8x1x?xf32>) -> tensor<1x8x1x?xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%x, %w : tensor<1x3x4x?xf32>, tensor<8x3x3x3xf32>) outs(%o : tensor<1x8x1x?xf32>) -> tensor<1x8x1x?xf32>
  return %0 : tensor<1x8x1x?xf32>
}

// Of any number of images, as wide as one window and a column more.
// CHECK-LABEL: @batch
// CHECK: %[[N:.*]] = tensor.dim %arg0
// CHECK: %[[S:.*]] = tensor.extract_slice %arg0[0, 0, 0, 0] [%[[N]], 3, 9, 4] [1, 1, 1, 1] : tensor<?x3x9x5xf32> to tensor<?x3x9x4xf32>
// CHECK: linalg.conv_2d_nchw_fchw {{.*}} ins(%[[S]], %arg1
func.func @batch(%x: tensor<?x3x9x5xf32>, %w: tensor<8x3x3x4xf32>, %o: tensor<?x8x4x1xf32>) -> tensor<?x8x4x1xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%x, %w : tensor<?x3x9x5xf32>, tensor<8x3x3x4xf32>) outs(%o : tensor<?x8x4x1xf32>) -> tensor<?x8x4x1xf32>
  return %0 : tensor<?x8x4x1xf32>
}

// A height that varies, of which one window is read.
// CHECK-LABEL: @height
// CHECK: tensor.extract_slice %arg0[0, 0, 0, 0] [2, 3, 3, 9] [1, 1, 1, 1] : tensor<2x3x?x9xf32> to tensor<2x3x3x9xf32>
func.func @height(%x: tensor<2x3x?x9xf32>, %w: tensor<8x3x3x3xf32>, %o: tensor<2x8x1x4xf32>) -> tensor<2x8x1x4xf32> {
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%x, %w : tensor<2x3x?x9xf32>, tensor<8x3x3x3xf32>) outs(%o : tensor<2x8x1x4xf32>) -> tensor<2x8x1x4xf32>
  return %0 : tensor<2x8x1x4xf32>
}
