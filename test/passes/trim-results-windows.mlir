// RUN: inferno-opt -p 'trim-results{windows=1},canonicalize,cse' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p trim-results %s --split-input-file | FileCheck %s --check-prefix=HALF

// A causal convolution: zeros on both sides of the image, and the last windows, which lie behind it, are cut off.  What is added to each channel is of as many.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = tensor.pad %arg0 low[0, 0, 3] high[0, 0, 0]
// CHECK: : tensor<4x8x20xf32> to tensor<4x8x23xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %arg1 : tensor<4x8x23xf32>, tensor<8x4xf32>) outs({{.*}} : tensor<4x8x20xf32>)
// CHECK: arith.addf
// CHECK: tensor<4x8x20xf32>
// CHECK-NOT: tensor.extract_slice
// HALF-LABEL: func.func @main
// HALF: tensor.extract_slice
#image = affine_map<(b, c, i, k) -> (b, c, i + k)>
#window = affine_map<(b, c, i, k) -> (c, k)>
#result = affine_map<(b, c, i, k) -> (b, c, i)>
#point = affine_map<(b, c, i) -> (b, c, i)>
#channel = affine_map<(b, c, i) -> (c)>
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<4x8x20xf32>, %w: tensor<8x4xf32>, %v: tensor<8xf32>) -> tensor<4x8x20xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 3] high[0, 0, 3] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<4x8x20xf32> to tensor<4x8x26xf32>
  %e = tensor.empty() : tensor<4x8x23xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x23xf32>) -> tensor<4x8x23xf32>
  %y = linalg.generic {indexing_maps = [#image, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %w : tensor<4x8x26xf32>, tensor<8x4xf32>) outs(%f : tensor<4x8x23xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b {inferno.convolution} : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8x23xf32>
  %g = linalg.generic {indexing_maps = [#channel, #point], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<8xf32>) outs(%e : tensor<4x8x23xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x8x23xf32>
  %z = linalg.generic {indexing_maps = [#point, #point, #point], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %g : tensor<4x8x23xf32>, tensor<4x8x23xf32>) outs(%e : tensor<4x8x23xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8x23xf32>
  %t = tensor.extract_slice %z[0, 0, 0] [4, 8, 20] [1, 1, 1] : tensor<4x8x23xf32> to tensor<4x8x20xf32>
  return %t : tensor<4x8x20xf32>
}
}

// -----

// Windows in the middle, two apart and with holes: fewer zeros in front, and none behind.
// CHECK-LABEL: func.func @main
// CHECK: tensor.pad %arg0 low[0, 0, 2] high[0, 0, 0]
// CHECK-NOT: tensor.extract_slice
#image = affine_map<(b, c, i, k) -> (b, c, i * 2 + k * 3)>
#window = affine_map<(b, c, i, k) -> (c, k)>
#result = affine_map<(b, c, i, k) -> (b, c, i)>
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<4x8x20xf32>, %w: tensor<8x4xf32>) -> tensor<4x8x7xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 4] high[0, 0, 4] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<4x8x20xf32> to tensor<4x8x28xf32>
  %e = tensor.empty() : tensor<4x8x10xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x10xf32>) -> tensor<4x8x10xf32>
  %y = linalg.generic {indexing_maps = [#image, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %w : tensor<4x8x28xf32>, tensor<8x4xf32>) outs(%f : tensor<4x8x10xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b {inferno.convolution} : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8x10xf32>
  %t = tensor.extract_slice %y[0, 0, 1] [4, 8, 7] [1, 1, 1] : tensor<4x8x10xf32> to tensor<4x8x7xf32>
  return %t : tensor<4x8x7xf32>
}
}

// -----

// Without zeros around it the image would have to be copied, and where all windows are read, too, all are computed.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: tensor.extract_slice
#image = affine_map<(b, c, i, k) -> (b, c, i + k)>
#window = affine_map<(b, c, i, k) -> (c, k)>
#result = affine_map<(b, c, i, k) -> (b, c, i)>
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<4x8x20xf32>, %w: tensor<8x4xf32>, %v: tensor<8x4xf32>) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x17xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8x17xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x17xf32>) -> tensor<4x8x17xf32>
  %y = linalg.generic {indexing_maps = [#image, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x8x20xf32>, tensor<8x4xf32>) outs(%f : tensor<4x8x17xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b {inferno.convolution} : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8x17xf32>
  %z = linalg.generic {indexing_maps = [#image, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<4x8x20xf32>, tensor<8x4xf32>) outs(%f : tensor<4x8x17xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b {inferno.convolution} : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8x17xf32>
  %t = tensor.extract_slice %y[0, 0, 1] [4, 8, 16] [1, 1, 1] : tensor<4x8x17xf32> to tensor<4x8x16xf32>
  %u = tensor.extract_slice %z[0, 0, 0] [4, 8, 16] [1, 1, 1] : tensor<4x8x17xf32> to tensor<4x8x16xf32>
  return %t, %u, %z : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x17xf32>
}
}
