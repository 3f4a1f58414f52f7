// RUN: inferno-opt %s -p 'fuse-convolutions{target=cpu}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-convolutions{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=GPU

#image = affine_map<(n, f, y, x, c, i, j) -> (n, c, y + i, x + j)>
#weight = affine_map<(n, f, y, x, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, y, x, c, i, j) -> (n, f, y, x)>
#bias = affine_map<(n, f, y, x) -> (f)>
#same = affine_map<(n, f, y, x) -> (n, f, y, x)>

// The zeros around the image, which has another shape where they are put there, and a number for each feature.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @conv_{{.*}}(%arg2, %arg0, %arg1, %{{.*}}) {inferno.source = ["b", "p", "c"]}
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @conv_
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<16xf32>)
// CHECK: tensor.pad
// CHECK: linalg.generic {{.*}}"reduction"
// GPU-LABEL: func.func @main
// GPU-COUNT-3: call @
func.func @main(%x: tensor<1x8x30x30xf32>, %w: tensor<16x8x3x3xf32>, %b: tensor<16xf32>) -> tensor<1x16x30x30xf32> {
  %v = tensor.collapse_shape %x [[0, 1], [2], [3]] : tensor<1x8x30x30xf32> into tensor<8x30x30xf32>
  %e0 = tensor.empty() : tensor<8x32x32xf32>
  %p = call @pad(%v, %e0) {inferno.source = ["p"]} : (tensor<8x30x30xf32>, tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
  %q = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [1, 8, 32, 32] : tensor<8x32x32xf32> into tensor<1x8x32x32xf32>
  %e1 = tensor.empty() : tensor<1x16x30x30xf32>
  %s = call @bias(%b, %e1) {inferno.source = ["b"]} : (tensor<16xf32>, tensor<1x16x30x30xf32>) -> tensor<1x16x30x30xf32>
  %e2 = tensor.empty() : tensor<1x16x30x30xf32>
  %r = call @conv(%q, %w, %s, %e2) {inferno.source = ["c"]} : (tensor<1x8x32x32xf32>, tensor<16x8x3x3xf32>, tensor<1x16x30x30xf32>, tensor<1x16x30x30xf32>) -> tensor<1x16x30x30xf32>
  return %r : tensor<1x16x30x30xf32>
}
func.func private @pad(%x: tensor<8x30x30xf32>, %out: tensor<8x32x32xf32>) -> tensor<8x32x32xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[0, 1, 1] high[0, 1, 1] {
  ^bb0(%a: index, %c: index, %d: index):
    tensor.yield %cst : f32
  } : tensor<8x30x30xf32> to tensor<8x32x32xf32>
  %1 = linalg.copy ins(%0 : tensor<8x32x32xf32>) outs(%out : tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
  return %1 : tensor<8x32x32xf32>
}
func.func private @bias(%b: tensor<16xf32>, %out: tensor<1x16x30x30xf32>) -> tensor<1x16x30x30xf32> {
  %0 = linalg.generic {indexing_maps = [#bias, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%b : tensor<16xf32>) outs(%out : tensor<1x16x30x30xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<1x16x30x30xf32>
  return %0 : tensor<1x16x30x30xf32>
}
func.func private @conv(%x: tensor<1x8x32x32xf32>, %w: tensor<16x8x3x3xf32>, %s: tensor<1x16x30x30xf32>, %out: tensor<1x16x30x30xf32>) -> tensor<1x16x30x30xf32> {
  %0 = linalg.copy ins(%s : tensor<1x16x30x30xf32>) outs(%out : tensor<1x16x30x30xf32>) -> tensor<1x16x30x30xf32>
  %1 = linalg.generic {indexing_maps = [#image, #weight, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x8x32x32xf32>, tensor<16x8x3x3xf32>) outs(%0 : tensor<1x16x30x30xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %2 = arith.mulf %a, %c : f32
    %3 = arith.addf %o, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<1x16x30x30xf32>
  return %1 : tensor<1x16x30x30xf32>
}

// -----

#image = affine_map<(f, y, x, c, i, j) -> (c, y + i, x + j)>
#weight = affine_map<(f, y, x, c, i, j) -> (f, c, i, j)>
#out = affine_map<(f, y, x, c, i, j) -> (f, y, x)>

// More zeros behind than in front are none that the library puts there; what somebody else reads as well is made anyway.
// CHECK-LABEL: func.func @main
// CHECK: call @behind
// CHECK: call @conv(
// CHECK: call @around
// CHECK: call @conv(
func.func @main(%x: tensor<8x30x30xf32>, %w: tensor<16x8x3x3xf32>) -> (tensor<16x30x30xf32>, tensor<16x30x30xf32>, tensor<8x32x32xf32>) {
  %e0 = tensor.empty() : tensor<8x32x32xf32>
  %p = call @behind(%x, %e0) : (tensor<8x30x30xf32>, tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
  %e1 = tensor.empty() : tensor<16x30x30xf32>
  %r = call @conv(%p, %w, %e1) : (tensor<8x32x32xf32>, tensor<16x8x3x3xf32>, tensor<16x30x30xf32>) -> tensor<16x30x30xf32>
  %e2 = tensor.empty() : tensor<8x32x32xf32>
  %q = call @around(%x, %e2) : (tensor<8x30x30xf32>, tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
  %e3 = tensor.empty() : tensor<16x30x30xf32>
  %s = call @conv(%q, %w, %e3) : (tensor<8x32x32xf32>, tensor<16x8x3x3xf32>, tensor<16x30x30xf32>) -> tensor<16x30x30xf32>
  return %r, %s, %q : tensor<16x30x30xf32>, tensor<16x30x30xf32>, tensor<8x32x32xf32>
}
func.func private @behind(%x: tensor<8x30x30xf32>, %out: tensor<8x32x32xf32>) -> tensor<8x32x32xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[0, 0, 0] high[0, 2, 2] {
  ^bb0(%a: index, %c: index, %d: index):
    tensor.yield %cst : f32
  } : tensor<8x30x30xf32> to tensor<8x32x32xf32>
  %1 = linalg.copy ins(%0 : tensor<8x32x32xf32>) outs(%out : tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
  return %1 : tensor<8x32x32xf32>
}
func.func private @around(%x: tensor<8x30x30xf32>, %out: tensor<8x32x32xf32>) -> tensor<8x32x32xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[0, 1, 1] high[0, 1, 1] {
  ^bb0(%a: index, %c: index, %d: index):
    tensor.yield %cst : f32
  } : tensor<8x30x30xf32> to tensor<8x32x32xf32>
  %1 = linalg.copy ins(%0 : tensor<8x32x32xf32>) outs(%out : tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
  return %1 : tensor<8x32x32xf32>
}
func.func private @conv(%x: tensor<8x32x32xf32>, %w: tensor<16x8x3x3xf32>, %out: tensor<16x30x30xf32>) -> tensor<16x30x30xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<16x30x30xf32>) -> tensor<16x30x30xf32>
  %1 = linalg.generic {indexing_maps = [#image, #weight, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<8x32x32xf32>, tensor<16x8x3x3xf32>) outs(%0 : tensor<16x30x30xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %2 = arith.mulf %a, %c : f32
    %3 = arith.addf %o, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<16x30x30xf32>
  return %1 : tensor<16x30x30xf32>
}

// -----

#image = affine_map<(f, y, x, c, i, j) -> (c, y + i, x + j)>
#weight = affine_map<(f, y, x, c, i, j) -> (f, c, i, j)>
#out = affine_map<(f, y, x, c, i, j) -> (f, y, x)>
#bias = affine_map<(f, y, x) -> (f)>
#same = affine_map<(f, y, x) -> (f, y, x)>

// Torch takes no float32 bias for images in 16 bits.
// CHECK-LABEL: func.func @main
// CHECK: call @bias(
// CHECK: call @conv(
func.func @main(%x: tensor<8x32x32xbf16>, %w: tensor<16x8x3x3xbf16>, %b: tensor<16xf32>) -> tensor<16x30x30xf32> {
  %e0 = tensor.empty() : tensor<16x30x30xf32>
  %s = call @bias(%b, %e0) : (tensor<16xf32>, tensor<16x30x30xf32>) -> tensor<16x30x30xf32>
  %e1 = tensor.empty() : tensor<16x30x30xf32>
  %r = call @conv(%x, %w, %s, %e1) : (tensor<8x32x32xbf16>, tensor<16x8x3x3xbf16>, tensor<16x30x30xf32>, tensor<16x30x30xf32>) -> tensor<16x30x30xf32>
  return %r : tensor<16x30x30xf32>
}
func.func private @bias(%b: tensor<16xf32>, %out: tensor<16x30x30xf32>) -> tensor<16x30x30xf32> {
  %0 = linalg.generic {indexing_maps = [#bias, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b : tensor<16xf32>) outs(%out : tensor<16x30x30xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<16x30x30xf32>
  return %0 : tensor<16x30x30xf32>
}
func.func private @conv(%x: tensor<8x32x32xbf16>, %w: tensor<16x8x3x3xbf16>, %s: tensor<16x30x30xf32>, %out: tensor<16x30x30xf32>) -> tensor<16x30x30xf32> {
  %0 = linalg.copy ins(%s : tensor<16x30x30xf32>) outs(%out : tensor<16x30x30xf32>) -> tensor<16x30x30xf32>
  %1 = linalg.generic {indexing_maps = [#image, #weight, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<8x32x32xbf16>, tensor<16x8x3x3xbf16>) outs(%0 : tensor<16x30x30xf32>) {
  ^bb0(%a: bf16, %c: bf16, %o: f32):
    %2 = arith.extf %a : bf16 to f32
    %3 = arith.extf %c : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.addf %o, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<16x30x30xf32>
  return %1 : tensor<16x30x30xf32>
}
