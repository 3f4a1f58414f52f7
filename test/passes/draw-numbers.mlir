// RUN: inferno-opt -p 'draw-numbers,func.func(canonicalize,cse)' %s | FileCheck %s

// One elementwise reader of the numbers alone: they are made in its body, in loops over vectors and their elements.
// CHECK: #[[SCALAR:.*]] = affine_map<(d0, d1) -> ()>
// CHECK-LABEL: func.func @main(%arg0: tensor<i64>
// CHECK-SAME: %arg1: tensor<i64>, %arg2: tensor<i64>, %arg3: tensor<8x6xf32>)
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<i64>, tensor<i64>) outs(%{{.*}} : tensor<12x4xi1>)
// CHECK: linalg.index 0
// CHECK: linalg.index 1
// CHECK: arith.muli
// CHECK: arith.cmpf olt
// CHECK: tensor.collapse_shape %[[MASK]] {{\[\[}}0, 1]]
// CHECK: tensor.expand_shape {{.*}} output_shape [8, 6]

// A reader of other tensors, behind a reshape: the position is that of its loops, 6 * row + column.
// CHECK: linalg.generic {{.*}} ins(%arg3, %arg0, %arg2 : tensor<8x6xf32>, tensor<i64>, tensor<i64>) outs(%{{.*}} : tensor<8x6xf32>)
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[COLUMN:.*]] = linalg.index 1
// CHECK: arith.muli %[[ROW]], %c6
// CHECK: arith.uitofp
// CHECK: arith.addf {{.*}}, %in : f32
// CHECK-NEXT: linalg.yield

#same = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(
  %seed: tensor<i64>, %first: tensor<i64>,
  %u: tensor<8x6xf32> {inferno.random = {base = 0 : i64, kind = "float32", offset = 1 : i64, seed = 0 : i64, span = 1 : i64, threads = 256 : i64, vector = 4 : i64}},
  %second: tensor<i64>, %x: tensor<8x6xf32>,
  %v: tensor<48xf32> {inferno.random = {base = 0 : i64, kind = "float32", offset = 3 : i64, seed = 0 : i64, span = 1 : i64, threads = 256 : i64, vector = 0 : i64}}
) -> (tensor<8x6xi1>, tensor<8x6xf32>) {
  %half = arith.constant 5.000000e-01 : f32
  %e = tensor.empty() : tensor<8x6xi1>
  %mask = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<8x6xf32>) outs(%e : tensor<8x6xi1>) {
  ^bb0(%a: f32, %out: i1):
    %k = arith.cmpf olt, %a, %half : f32
    linalg.yield %k : i1
  } -> tensor<8x6xi1>
  %w = tensor.expand_shape %v [[0, 1]] output_shape [8, 6] : tensor<48xf32> into tensor<8x6xf32>
  %f = tensor.empty() : tensor<8x6xf32>
  %sum = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%w, %x : tensor<8x6xf32>, tensor<8x6xf32>) outs(%f : tensor<8x6xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x6xf32>
  return %mask, %sum : tensor<8x6xi1>, tensor<8x6xf32>
}
