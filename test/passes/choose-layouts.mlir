// RUN: inferno-opt %s -p 'fold-transposes,mark-convolutions,choose-layouts,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// Image and weight come row-major and are transposed once each; the padding, what is elementwise between, the pooling and the second convolution are
// in channels-last order; the result is transposed back.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 * 2 + d4, d2 * 2 + d5, d6)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[SAME:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[VECTOR:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<2x8x9x9xf32>) outs(%{{.*}} : tensor<2x9x9x8xf32>)
  // CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 1, 1, 0] high[0, 1, 1, 0]
  // CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<16x8x3x3xf32>) outs(%{{.*}} : tensor<16x3x3x8xf32>)
  // CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHT]], #[[RESULT]]], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%[[P]], %[[W]]
  // CHECK: %[[B:.*]] = linalg.generic {indexing_maps = [#[[SAME]], #[[VECTOR]], #[[SAME]]]{{.*}} ins(%[[C]], %arg2 :
  // CHECK: linalg.generic {{.*}} ins(%[[B]], %{{.*}} : tensor<2x5x5x16xf32>, tensor<2x2xf32>) outs(%{{.*}} : tensor<2x4x4x16xf32>)
  // CHECK: arith.maximumf
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x4x4xf32>)
  // CHECK: arith.mulf
  // CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2x4x4x4xf32>) outs(%{{.*}} : tensor<2x4x4x4xf32>)
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: linalg.yield
  // CHECK: return %[[R]]
  func.func @main(%x: tensor<2x8x9x9xf32>, %w: tensor<16x8x3x3xf32>, %b: tensor<16xf32>, %v: tensor<4x16x1x1xf32>) -> tensor<2x4x4x4xf32> {
    %zero = arith.constant 0.0 : f32
    %low = arith.constant 0xFF800000 : f32
    %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
    } : tensor<2x8x9x9xf32> to tensor<2x8x11x11xf32>
    %e = tensor.empty() : tensor<2x16x5x5xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x5x5xf32>) -> tensor<2x16x5x5xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%p, %w : tensor<2x8x11x11xf32>, tensor<16x8x3x3xf32>) outs(%f : tensor<2x16x5x5xf32>) -> tensor<2x16x5x5xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(n, c, y, x) -> (n, c, y, x)>, affine_map<(n, c, y, x) -> (c)>, affine_map<(n, c, y, x) -> (n, c, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0, %b : tensor<2x16x5x5xf32>, tensor<16xf32>) outs(%e : tensor<2x16x5x5xf32>) {
    ^bb0(%a: f32, %c: f32, %d: f32):
      %t = arith.addf %a, %c : f32
      linalg.yield %t : f32
    } -> tensor<2x16x5x5xf32>
    %we = tensor.empty() : tensor<2x2xf32>
    %pe = tensor.empty() : tensor<2x16x4x4xf32>
    %pf = linalg.fill ins(%low : f32) outs(%pe : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %2 = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%1, %we : tensor<2x16x5x5xf32>, tensor<2x2xf32>) outs(%pf : tensor<2x16x4x4xf32>) -> tensor<2x16x4x4xf32>
    %oe = tensor.empty() : tensor<2x4x4x4xf32>
    %of = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
    %3 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%2, %v : tensor<2x16x4x4xf32>, tensor<4x16x1x1xf32>) outs(%of : tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
    return %3 : tensor<2x4x4x4xf32>
  }
}

// -----

// Channels last in memory: the permutations around it are gone, and a depthwise convolution's weight has its channels innermost.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 + d4, d2 + d5, d3)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d5, d3)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<8x3x3xf32>) outs(%{{.*}} : tensor<3x3x8xf32>)
  // CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHT]], {{.*}} ins(%arg0, %[[W]]
  // CHECK: return %[[R]] : tensor<2x1024x1024x8xf32>
  func.func @main(%x: tensor<2x1026x1026x8xf32>, %w: tensor<8x3x3xf32>) -> tensor<2x1024x1024x8xf32> {
    %zero = arith.constant 0.0 : f32
    %xe = tensor.empty() : tensor<2x8x1026x1026xf32>
    %0 = linalg.transpose ins(%x : tensor<2x1026x1026x8xf32>) outs(%xe : tensor<2x8x1026x1026xf32>) permutation = [0, 3, 1, 2]
    %e = tensor.empty() : tensor<2x8x1024x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x1024x1024xf32>) -> tensor<2x8x1024x1024xf32>
    %1 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%0, %w : tensor<2x8x1026x1026xf32>, tensor<8x3x3xf32>) outs(%f : tensor<2x8x1024x1024xf32>) -> tensor<2x8x1024x1024xf32>
    %re = tensor.empty() : tensor<2x1024x1024x8xf32>
    %2 = linalg.transpose ins(%1 : tensor<2x8x1024x1024xf32>) outs(%re : tensor<2x1024x1024x8xf32>) permutation = [0, 2, 3, 1]
    return %2 : tensor<2x1024x1024x8xf32>
  }
}

// -----

// Where the results are few it is read as it lies.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 + d4, d2 + d5, d3)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d4, d5)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK-NOT: tensor<3x3x8xf32>
  // CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHT]], {{.*}} ins(%arg0, %arg1
  // CHECK: return %[[R]] : tensor<2x7x7x8xf32>
  func.func @main(%x: tensor<2x9x9x8xf32>, %w: tensor<8x3x3xf32>) -> tensor<2x7x7x8xf32> {
    %zero = arith.constant 0.0 : f32
    %xe = tensor.empty() : tensor<2x8x9x9xf32>
    %0 = linalg.transpose ins(%x : tensor<2x9x9x8xf32>) outs(%xe : tensor<2x8x9x9xf32>) permutation = [0, 3, 1, 2]
    %e = tensor.empty() : tensor<2x8x7x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x7x7xf32>) -> tensor<2x8x7x7xf32>
    %1 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%0, %w : tensor<2x8x9x9xf32>, tensor<8x3x3xf32>) outs(%f : tensor<2x8x7x7xf32>) -> tensor<2x8x7x7xf32>
    %re = tensor.empty() : tensor<2x7x7x8xf32>
    %2 = linalg.transpose ins(%1 : tensor<2x8x7x7xf32>) outs(%re : tensor<2x7x7x8xf32>) permutation = [0, 2, 3, 1]
    return %2 : tensor<2x7x7x8xf32>
  }
}

// -----

// What only moves data does so in channels-last order: a slice, a concatenation, pixels of several channels, one image and its places in a row, which
// are returned in their own order. Elements that are picked by their places come from where they are.
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: %[[C:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4x4x8xf32>)
  // CHECK: %[[S:.*]] = tensor.extract_slice %[[C]][0, 1, 0, 2] [2, 2, 4, 4] [1, 1, 1, 1] : tensor<2x4x4x8xf32> to tensor<2x2x4x4xf32>
  // CHECK: %[[J:.*]] = tensor.concat dim(3) %[[S]], %[[S]] : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x8xf32>
  // CHECK: tensor.collapse_shape %[[J]] {{\[\[}}0], [1, 2], [3]] : tensor<2x2x4x8xf32> into tensor<2x8x8xf32>
  // CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x8x8x8xf32>)
  // CHECK: %[[I:.*]] = linalg.index 1
  // CHECK: tensor.extract %[[C]][%{{.*}}, %{{.*}}, %{{.*}}, %[[I]]] : tensor<2x4x4x8xf32>
  // CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<2x8x8xf32>) outs(%{{.*}} : tensor<2x8x8xf32>)
  func.func @main(%x: tensor<2x5x6x6xf32>, %w: tensor<8x5x3x3xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8x8xf32>) {
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2 : index
    %e = tensor.empty() : tensor<2x8x4x4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%x, %w : tensor<2x5x6x6xf32>, tensor<8x5x3x3xf32>) outs(%f : tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
    %1 = tensor.extract_slice %0[0, 2, 1, 0] [2, 4, 2, 4] [1, 1, 1, 1] : tensor<2x8x4x4xf32> to tensor<2x4x2x4xf32>
    %2 = tensor.concat dim(1) %1, %1 : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> tensor<2x8x2x4xf32>
    %3 = tensor.collapse_shape %2 [[0], [1], [2, 3]] : tensor<2x8x2x4xf32> into tensor<2x8x8xf32>
    %ue = tensor.empty() : tensor<2x8x8x8xf32>
    %4 = linalg.generic {indexing_maps = [affine_map<(n, c, y, x) -> (n, c, y, x)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      outs(%ue : tensor<2x8x8x8xf32>) {
    ^bb0(%d: f32):
      %n = linalg.index 0 : index
      %c = linalg.index 1 : index
      %y = linalg.index 2 : index
      %x0 = linalg.index 3 : index
      %yy = arith.divui %y, %two : index
      %xx = arith.divui %x0, %two : index
      %v = tensor.extract %0[%n, %c, %yy, %xx] : tensor<2x8x4x4xf32>
      %t = math.exp %v : f32
      linalg.yield %t : f32
    } -> tensor<2x8x8x8xf32>
    return %3, %4 : tensor<2x8x8xf32>, tensor<2x8x8x8xf32>
  }
}

// -----

// A depthwise convolution of what comes and leaves row-major stays so, with what is computed around it.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d1 + d4, d2 + d5)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK: %[[E:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<2x8x9x9xf32>)
  // CHECK: math.exp
  // CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], {{.*}} ins(%[[E]], %arg1 : tensor<2x8x9x9xf32>, tensor<8x3x3xf32>)
  // CHECK: return %[[R]] : tensor<2x8x7x7xf32>
  func.func @main(%x: tensor<2x8x9x9xf32>, %w: tensor<8x3x3xf32>) -> tensor<2x8x7x7xf32> {
    %zero = arith.constant 0.0 : f32
    %xe = tensor.empty() : tensor<2x8x9x9xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(n, c, y, x) -> (n, c, y, x)>, affine_map<(n, c, y, x) -> (n, c, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x9x9xf32>) outs(%xe : tensor<2x8x9x9xf32>) {
    ^bb0(%a: f32, %d: f32):
      %t = math.exp %a : f32
      linalg.yield %t : f32
    } -> tensor<2x8x9x9xf32>
    %e = tensor.empty() : tensor<2x8x7x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x7x7xf32>) -> tensor<2x8x7x7xf32>
    %1 = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
      ins(%0, %w : tensor<2x8x9x9xf32>, tensor<8x3x3xf32>) outs(%f : tensor<2x8x7x7xf32>) -> tensor<2x8x7x7xf32>
    return %1 : tensor<2x8x7x7xf32>
  }
}

// -----

// Without convolutions nothing changes.
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @main
  // CHECK-NEXT: tensor.empty
  // CHECK-NEXT: %[[R:.*]] = linalg.generic
  func.func @main(%x: tensor<2x9x9x8xf32>) -> tensor<2x8x9x9xf32> {
    %xe = tensor.empty() : tensor<2x8x9x9xf32>
    %0 = linalg.transpose ins(%x : tensor<2x9x9x8xf32>) outs(%xe : tensor<2x8x9x9xf32>) permutation = [0, 3, 1, 2]
    return %0 : tensor<2x8x9x9xf32>
  }
}

// -----

// The gradient of a convolution's weight is a sum over images and pixels: image and gradient have their channels last, and the result too, as its weight.
#x = affine_map<(c, f, r, s, n, y, x) -> (n, c, y + r, x + s)>
#g = affine_map<(c, f, r, s, n, y, x) -> (n, f, y, x)>
#o = affine_map<(c, f, r, s, n, y, x) -> (c, f, r, s)>
#t = affine_map<(a, b, c, d) -> (b, a, c, d)>
#i = affine_map<(a, b, c, d) -> (a, b, c, d)>
// CHECK: #[[WINDOWS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d1 + d5, d2 + d6, d3)>
// CHECK: #[[PIXELS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d0)>
// CHECK: #[[SUMS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<2x3x8x8xbf16>) outs(%{{.*}} : tensor<2x8x8x3xbf16>)
  // CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<2x4x6x6xbf16>) outs(%{{.*}} : tensor<2x6x6x4xbf16>)
  // CHECK: linalg.generic {indexing_maps = [#[[WINDOWS]], #[[PIXELS]], #[[SUMS]]], {{.*}} ins(%[[X]], %[[G]] : {{.*}}) outs(%{{.*}} : tensor<4x3x3x3xf32>)
  func.func @main(%x: tensor<2x3x8x8xbf16>, %g: tensor<2x4x6x6xbf16>) -> tensor<4x3x3x3xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<3x4x3x3xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4x3x3xf32>) -> tensor<3x4x3x3xf32>
    %0 = linalg.generic {indexing_maps = [#x, #g, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %g : tensor<2x3x8x8xbf16>, tensor<2x4x6x6xbf16>) outs(%f : tensor<3x4x3x3xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %1 = arith.extf %a : bf16 to f32
      %2 = arith.extf %b : bf16 to f32
      %3 = arith.mulf %1, %2 : f32
      %4 = arith.addf %c, %3 : f32
      linalg.yield %4 : f32
    } -> tensor<3x4x3x3xf32>
    %w = tensor.empty() : tensor<4x3x3x3xf32>
    %5 = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%0 : tensor<3x4x3x3xf32>) outs(%w : tensor<4x3x3x3xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    } -> tensor<4x3x3x3xf32>
    return %5 : tensor<4x3x3x3xf32>
  }
}

// -----

// A depthwise convolution's weight's gradient reads image and result's gradient as they lie, be it channels last or row-major, and what else is there stays so.
// CHECK: #[[LAST:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d1 + d4, d2 + d5, d0)>
// CHECK: #[[UPPER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d0, d4, d5)>
// CHECK: #[[TAPS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: func.func @main
  // CHECK: %[[P:.*]] = tensor.pad %arg0 low[0, 1, 1, 0] high[0, 1, 1, 0]
  // CHECK: linalg.generic {indexing_maps = [#[[LAST]], #[[UPPER]], #[[TAPS]]], {{.*}} ins(%[[P]], %arg1 : {{.*}}) outs(%{{.*}} : tensor<8x3x3xf32>)
  // CHECK-NOT: linalg.generic
  func.func @main(%x: tensor<2x9x9x8xbf16>, %g: tensor<2x8x9x9xbf16>) -> tensor<8x3x3xf32> {
    %none = arith.constant 0.0 : bf16
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<2x8x9x9xbf16>
    %0 = linalg.transpose ins(%x : tensor<2x9x9x8xbf16>) outs(%e0 : tensor<2x8x9x9xbf16>) permutation = [0, 3, 1, 2]
    %p = tensor.pad %0 low[0, 0, 1, 1] high[0, 0, 1, 1] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %none : bf16
    } : tensor<2x8x9x9xbf16> to tensor<2x8x11x11xbf16>
    %e1 = tensor.empty() : tensor<8x2x11x11xbf16>
    %1 = linalg.transpose ins(%p : tensor<2x8x11x11xbf16>) outs(%e1 : tensor<8x2x11x11xbf16>) permutation = [1, 0, 2, 3]
    %e2 = tensor.empty() : tensor<8x2x9x9xbf16>
    %2 = linalg.transpose ins(%g : tensor<2x8x9x9xbf16>) outs(%e2 : tensor<8x2x9x9xbf16>) permutation = [1, 0, 2, 3]
    %e3 = tensor.empty() : tensor<8x3x3xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e3 : tensor<8x3x3xf32>) -> tensor<8x3x3xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(c, r, s, n, y, x) -> (c, n, r + y, s + x)>, affine_map<(c, r, s, n, y, x) -> (c, n, y, x)>,
        affine_map<(c, r, s, n, y, x) -> (c, r, s)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%1, %2 : tensor<8x2x11x11xbf16>, tensor<8x2x9x9xbf16>) outs(%f : tensor<8x3x3xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %4 = arith.extf %a : bf16 to f32
      %5 = arith.extf %b : bf16 to f32
      %6 = arith.mulf %4, %5 : f32
      %7 = arith.addf %c, %6 : f32
      linalg.yield %7 : f32
    } -> tensor<8x3x3xf32>
    return %3 : tensor<8x3x3xf32>
  }
}
