// RUN: inferno-opt %s -p 'skip-zeros,canonicalize' --split-input-file | FileCheck %s

// Steps of 2 with a window of 3: even places have its middle, odd ones the two others, the second of which is of the next element. The bias is added to
// each part, and so is what follows.
#x = affine_map<(n, f, y, c, r) -> (n, c, y + r)>
#w = affine_map<(n, f, y, c, r) -> (f, c, r)>
#o = affine_map<(n, f, y, c, r) -> (n, f, y)>
#i = affine_map<(n, f, y) -> (n, f, y)>
#f = affine_map<(n, f, y) -> (f)>
// CHECK: #[[AT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2 + d4)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @odd_window
  // CHECK-NOT: insert_slice
  // CHECK: %[[MIDDLE:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4x3x1xf32>)
  // CHECK: tensor.extract %arg1[%{{.*}}, %{{.*}}, %{{.*}}]
  // CHECK: %[[EVEN:.*]] = linalg.generic {indexing_maps = [#[[AT]], {{.*}} ins(%arg0, %[[MIDDLE]] : tensor<2x3x5xf32>, tensor<4x3x1xf32>) outs({{.*}} : tensor<2x4x5xf32>)
  // CHECK: %[[NEXT:.*]] = tensor.pad %arg0 low[0, 0, 0] high[0, 0, 1]
  // CHECK: %[[OUTER:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4x3x2xf32>)
  // CHECK: %[[ODD:.*]] = linalg.generic {indexing_maps = [#[[AT]], {{.*}} ins(%[[NEXT]], %[[OUTER]] : tensor<2x3x6xf32>, tensor<4x3x2xf32>) outs({{.*}} : tensor<2x4x5xf32>)
  // CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[EVEN]], %arg2 : tensor<2x4x5xf32>, tensor<4xf32>)
  // CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[ODD]], %arg2 : tensor<2x4x5xf32>, tensor<4xf32>)
  // CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[A]] :
  // CHECK: math.tanh
  // CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[B]] :
  // CHECK: %[[ALL:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<2x4x10xf32>)
  // CHECK: scf.if
  // CHECK-NEXT: tensor.extract %[[C]]
  // CHECK: else
  // CHECK-NEXT: tensor.extract %[[D]]
  // CHECK: return %[[ALL]]
  func.func @odd_window(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x10xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x3x12xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x12xf32>) -> tensor<2x3x12xf32>
    %spread = tensor.insert_slice %x into %zeros[0, 0, 1] [2, 3, 5] [1, 1, 2] : tensor<2x3x5xf32> into tensor<2x3x12xf32>
    %out = tensor.empty() : tensor<2x4x10xf32>
    %bias = linalg.generic {indexing_maps = [#f, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b : tensor<4xf32>) outs(%out : tensor<2x4x10xf32>) {
    ^bb0(%a: f32, %c: f32):
      linalg.yield %a : f32
    } -> tensor<2x4x10xf32>
    %sum = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%spread, %w : tensor<2x3x12xf32>, tensor<4x3x3xf32>) outs(%bias : tensor<2x4x10xf32>) {
    ^bb0(%a: f32, %b0: f32, %c: f32):
      %1 = arith.mulf %a, %b0 : f32
      %2 = arith.addf %c, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<2x4x10xf32>
    %y = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x4x10xf32>) outs(%out : tensor<2x4x10xf32>) {
    ^bb0(%a: f32, %c: f32):
      %1 = math.tanh %a : f32
      linalg.yield %1 : f32
    } -> tensor<2x4x10xf32>
    return %y : tensor<2x4x10xf32>
  }
}

// -----

// A window of 2 by steps of 2: each place has one tap, the even ones the second; one sum of products with a dimension for the two, which are neighbours
// in memory.
#x = affine_map<(n, f, y, c, r) -> (n, c, y + r)>
#w = affine_map<(n, f, y, c, r) -> (f, c, r)>
#o = affine_map<(n, f, y, c, r) -> (n, f, y)>
// CHECK: #[[TAP:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d3, d4, d5)>
// CHECK: #[[PLACE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d5)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @side_by_side
  // CHECK: linalg.index 3
  // CHECK: arith.subi
  // CHECK: %[[SUM:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[TAP]], #[[PLACE]]], {{.*}} ins(%arg0, %{{.*}} : tensor<2x3x5xf32>, tensor<4x3x1x2xf32>)
  // CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[SUM]] {{\[\[}}0], [1], [2, 3]] : tensor<2x4x5x2xf32> into tensor<2x4x10xf32>
  // CHECK: return %[[FLAT]]
  func.func @side_by_side(%x: tensor<2x3x5xf32>, %w: tensor<4x3x2xf32>) -> tensor<2x4x10xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x3x11xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x11xf32>) -> tensor<2x3x11xf32>
    %spread = tensor.insert_slice %x into %zeros[0, 0, 1] [2, 3, 5] [1, 1, 2] : tensor<2x3x5xf32> into tensor<2x3x11xf32>
    %out = tensor.empty() : tensor<2x4x10xf32>
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<2x4x10xf32>) -> tensor<2x4x10xf32>
    %sum = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%spread, %w : tensor<2x3x11xf32>, tensor<4x3x2xf32>) outs(%start : tensor<2x4x10xf32>) {
    ^bb0(%a: f32, %b0: f32, %c: f32):
      %1 = arith.mulf %a, %b0 : f32
      %2 = arith.addf %c, %1 : f32
      linalg.yield %2 : f32
    } -> tensor<2x4x10xf32>
    return %sum : tensor<2x4x10xf32>
  }
}

// -----

// Without zeros between, those around are a padding, less what is cut off; ones around stay, and so does what is walked by steps.
#x = affine_map<(y, c, r) -> (c, y + r)>
#s = affine_map<(y, c, r) -> (c, y * 2 + r)>
#w = affine_map<(y, c, r) -> (c, r)>
#o = affine_map<(y, c, r) -> (y)>
module attributes {inferno.expand_pieces} {
  // CHECK-LABEL: @around
  // CHECK: tensor.insert_slice
  // CHECK: tensor.insert_slice
  // CHECK-NOT: tensor.insert_slice
  // CHECK: tensor.pad %arg0 low[0, 0] high[0, 1]
  func.func @around(%x: tensor<3x6xf32>, %w: tensor<3x2xf32>) -> (tensor<6xf32>, tensor<8xf32>, tensor<7xf32>) {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %e = tensor.empty() : tensor<3x9xf32>
    %e2 = tensor.empty() : tensor<3x15xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<3x9xf32>) -> tensor<3x9xf32>
    %ones = linalg.fill ins(%one : f32) outs(%e : tensor<3x9xf32>) -> tensor<3x9xf32>
    %more = linalg.fill ins(%zero : f32) outs(%e2 : tensor<3x15xf32>) -> tensor<3x15xf32>
    %0 = tensor.insert_slice %x into %zeros[0, 1] [3, 6] [1, 1] : tensor<3x6xf32> into tensor<3x9xf32>
    %cut = tensor.extract_slice %0[0, 1] [3, 7] [1, 1] : tensor<3x9xf32> to tensor<3x7xf32>
    %1 = tensor.insert_slice %x into %ones[0, 1] [3, 6] [1, 1] : tensor<3x6xf32> into tensor<3x9xf32>
    %2 = tensor.insert_slice %x into %more[0, 1] [3, 6] [1, 2] : tensor<3x6xf32> into tensor<3x15xf32>
    %o = tensor.empty() : tensor<6xf32>
    %a = linalg.fill ins(%zero : f32) outs(%o : tensor<6xf32>) -> tensor<6xf32>
    %o8 = tensor.empty() : tensor<8xf32>
    %b = linalg.fill ins(%zero : f32) outs(%o8 : tensor<8xf32>) -> tensor<8xf32>
    %o7 = tensor.empty() : tensor<7xf32>
    %c = linalg.fill ins(%zero : f32) outs(%o7 : tensor<7xf32>) -> tensor<7xf32>
    %3 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%cut, %w : tensor<3x7xf32>, tensor<3x2xf32>) outs(%a : tensor<6xf32>) {
    ^bb0(%p: f32, %q: f32, %t: f32):
      %9 = arith.mulf %p, %q : f32
      %10 = arith.addf %t, %9 : f32
      linalg.yield %10 : f32
    } -> tensor<6xf32>
    %4 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%1, %w : tensor<3x9xf32>, tensor<3x2xf32>) outs(%b : tensor<8xf32>) {
    ^bb0(%p: f32, %q: f32, %t: f32):
      %9 = arith.mulf %p, %q : f32
      %10 = arith.addf %t, %9 : f32
      linalg.yield %10 : f32
    } -> tensor<8xf32>
    %5 = linalg.generic {indexing_maps = [#s, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%2, %w : tensor<3x15xf32>, tensor<3x2xf32>) outs(%c : tensor<7xf32>) {
    ^bb0(%p: f32, %q: f32, %t: f32):
      %9 = arith.mulf %p, %q : f32
      %10 = arith.addf %t, %9 : f32
      linalg.yield %10 : f32
    } -> tensor<7xf32>
    return %3, %4, %5 : tensor<6xf32>, tensor<8xf32>, tensor<7xf32>
  }
}

// -----

#x = affine_map<(y, c, r) -> (c, y + r)>
#w = affine_map<(y, c, r) -> (c, r)>
#o = affine_map<(y, c, r) -> (y)>
module {
  // CHECK-LABEL: @elsewhere
  // CHECK: tensor.insert_slice
  func.func @elsewhere(%x: tensor<3x6xf32>, %w: tensor<3x2xf32>) -> tensor<8xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<3x9xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<3x9xf32>) -> tensor<3x9xf32>
    %0 = tensor.insert_slice %x into %zeros[0, 1] [3, 6] [1, 1] : tensor<3x6xf32> into tensor<3x9xf32>
    %o = tensor.empty() : tensor<8xf32>
    %a = linalg.fill ins(%zero : f32) outs(%o : tensor<8xf32>) -> tensor<8xf32>
    %3 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%0, %w : tensor<3x9xf32>, tensor<3x2xf32>) outs(%a : tensor<8xf32>) {
    ^bb0(%p: f32, %q: f32, %t: f32):
      %9 = arith.mulf %p, %q : f32
      %10 = arith.addf %t, %9 : f32
      linalg.yield %10 : f32
    } -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
