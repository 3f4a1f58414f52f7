// RUN: inferno-opt -p trim-results %s --split-input-file | FileCheck %s

// One token of each image: the product is of two rows, which lie ten apart, and what it begins with as well.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[3, 0] [2, 8] [10, 1] : tensor<20x8xf32> to tensor<2x8xf32>
// CHECK: linalg.fill {{.*}} -> tensor<2x16xf32>
// CHECK: linalg.generic {{.*}} ["parallel", "parallel", "reduction"]} ins(%[[X]], %arg1 : tensor<2x8xf32>, tensor<8x16xf32>)
// CHECK: math.exp
// CHECK: return {{.*}} : tensor<2x16xf32>
func.func @main(%x: tensor<20x8xf32>, %w: tensor<8x16xf32>) -> tensor<2x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<20x16xf32>) -> tensor<20x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<20x8xf32>, tensor<8x16xf32>) outs(%f : tensor<20x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<20x16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<20x16xf32>) outs(%e : tensor<20x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<20x16xf32>
  %images = tensor.expand_shape %z [[0, 1], [2]] output_shape [2, 10, 16] : tensor<20x16xf32> into tensor<2x10x16xf32>
  %t = tensor.extract_slice %images[0, 3, 0] [2, 1, 16] [1, 1, 1] : tensor<2x10x16xf32> to tensor<2x16xf32>
  return %t : tensor<2x16xf32>
}

// -----

// Where all of it is read, too, and where no sum is, all stays: slices of maps are hoist-slices'.
// CHECK-LABEL: func.func @main
// CHECK: ins(%arg0 : tensor<20x8xf32>)
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins({{.*}} : tensor<20xf32>)
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<20xf32>)
// CHECK: tensor.extract_slice %[[N]][4] [3] [1]
// CHECK: tensor.extract_slice %[[M]][4] [3] [1]
func.func @main(%x: tensor<20x8xf32>, %c: tensor<20xf32>) -> (tensor<20xf32>, tensor<3xf32>, tensor<3xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<20xf32>) -> tensor<20xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<20x8xf32>) outs(%f : tensor<20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<20xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%y : tensor<20xf32>) outs(%e : tensor<20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<20xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%c : tensor<20xf32>) outs(%e : tensor<20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<20xf32>
  %t = tensor.extract_slice %n[4] [3] [1] : tensor<20xf32> to tensor<3xf32>
  %u = tensor.extract_slice %m[4] [3] [1] : tensor<20xf32> to tensor<3xf32>
  return %y, %t, %u : tensor<20xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Of dimensions of one element a part keeps the first and not the last: the second is what is cut again.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract_slice %arg0[2, 2, 0] [1, 2, 4] [1, 1, 1] : tensor<8x5x4xf32> to tensor<2x4xf32>
// CHECK: tensor.extract_slice %arg1[0, 0] [4, 1] [1, 1] : tensor<4x6xf32> to tensor<4xf32>
func.func @main(%x: tensor<8x5x4xf32>, %w: tensor<4x6xf32>) -> tensor<1x2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x5x6xf32>) -> tensor<8x5x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, l, k) -> (i, j, k)>, affine_map<(i, j, l, k) -> (k, l)>, affine_map<(i, j, l, k) -> (i, j, l)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x5x4xf32>, tensor<4x6xf32>) outs(%f : tensor<8x5x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x5x6xf32>
  %t = tensor.extract_slice %y[2, 0, 0] [1, 5, 1] [1, 1, 1] : tensor<8x5x6xf32> to tensor<1x5xf32>
  %u = tensor.extract_slice %t[0, 2] [1, 2] [1, 1] : tensor<1x5xf32> to tensor<1x2xf32>
  return %u : tensor<1x2xf32>
}
