// RUN: inferno-opt %s -p take-rows --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>
#columns = affine_map<(r, c) -> (c)>

// Rows less their mean, scaled by column, are made of the rows that are taken.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<64x48xf32>, %[[W:.*]]: tensor<48xf32>, %[[ROWS:.*]]: tensor<32xi64>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[ROWS]] : tensor<32xi64>)
// CHECK: %[[R:.*]] = arith.index_cast
// CHECK: %[[C:.*]] = linalg.index 1
// CHECK: tensor.extract %[[X]][%[[R]], %[[C]]]
// CHECK: } -> tensor<32x48xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[T]] : tensor<32x48xf32>)
// CHECK: } -> tensor<32xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[T]], %[[S]], %[[W]] : tensor<32x48xf32>, tensor<32xf32>, tensor<48xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @main(%x: tensor<64x48xf32>, %w: tensor<48xf32>, %rows: tensor<32xi64>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %m = tensor.empty() : tensor<64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x48xf32>) outs(%z : tensor<64xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %t = arith.addf %a, %sum : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x48xf32>
  %y = linalg.generic {indexing_maps = [#points, #rows, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s, %w : tensor<64x48xf32>, tensor<64xf32>, tensor<48xf32>) outs(%e : tensor<64x48xf32>) {
  ^bb0(%a: f32, %sum: f32, %b: f32, %old: f32):
    %c = arith.constant 48.0 : f32
    %q = arith.divf %sum, %c : f32
    %d = arith.subf %a, %q : f32
    %p = arith.mulf %d, %b : f32
    linalg.yield %p : f32
  } -> tensor<64x48xf32>
  %f = tensor.empty() : tensor<32x48xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<32xi64>) outs(%f : tensor<32x48xf32>) {
  ^bb0(%n: i64, %old: f32):
    %i = arith.index_cast %n : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %y[%i, %j] : tensor<64x48xf32>
    linalg.yield %v : f32
  } -> tensor<32x48xf32>
  return %g : tensor<32x48xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// The sums are returned, too: they are there.
// CHECK-LABEL: func.func @main
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<64x48xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %{{.*}} : tensor<64x48xf32>, tensor<64xf32>)
// CHECK: tensor.extract %[[Y]]
func.func @main(%x: tensor<64x48xf32>, %rows: tensor<32xi64>) -> (tensor<64xf32>, tensor<32x48xf32>) {
  %zero = arith.constant 0.0 : f32
  %m = tensor.empty() : tensor<64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x48xf32>) outs(%z : tensor<64xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %t = arith.addf %a, %sum : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x48xf32>
  %y = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x48xf32>, tensor<64xf32>) outs(%e : tensor<64x48xf32>) {
  ^bb0(%a: f32, %sum: f32, %old: f32):
    %d = arith.subf %a, %sum : f32
    linalg.yield %d : f32
  } -> tensor<64x48xf32>
  %f = tensor.empty() : tensor<32x48xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<32xi64>) outs(%f : tensor<32x48xf32>) {
  ^bb0(%n: i64, %old: f32):
    %i = arith.index_cast %n : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %y[%i, %j] : tensor<64x48xf32>
    linalg.yield %v : f32
  } -> tensor<32x48xf32>
  return %s, %g : tensor<64xf32>, tensor<32x48xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>
#columns = affine_map<(r, c) -> (c)>

// More rows are taken than there are, and sums of columns are of all rows.
// CHECK-LABEL: func.func @more
// CHECK: ins(%{{.*}} : tensor<16x48xf32>) outs(%{{.*}} : tensor<16xf32>)
// CHECK-LABEL: func.func @columns
// CHECK: ins(%{{.*}} : tensor<64x48xf32>) outs(%{{.*}} : tensor<48xf32>)
func.func @more(%x: tensor<16x48xf32>, %rows: tensor<32xi64>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %m = tensor.empty() : tensor<16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<16xf32>) -> tensor<16xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<16x48xf32>) outs(%z : tensor<16xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %t = arith.addf %a, %sum : f32
    linalg.yield %t : f32
  } -> tensor<16xf32>
  %e = tensor.empty() : tensor<16x48xf32>
  %y = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<16x48xf32>, tensor<16xf32>) outs(%e : tensor<16x48xf32>) {
  ^bb0(%a: f32, %sum: f32, %old: f32):
    %d = arith.subf %a, %sum : f32
    linalg.yield %d : f32
  } -> tensor<16x48xf32>
  %f = tensor.empty() : tensor<32x48xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<32xi64>) outs(%f : tensor<32x48xf32>) {
  ^bb0(%n: i64, %old: f32):
    %i = arith.index_cast %n : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %y[%i, %j] : tensor<16x48xf32>
    linalg.yield %v : f32
  } -> tensor<32x48xf32>
  return %g : tensor<32x48xf32>
}
func.func @columns(%x: tensor<64x48xf32>, %rows: tensor<32xi64>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %m = tensor.empty() : tensor<48xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<48xf32>) -> tensor<48xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<64x48xf32>) outs(%z : tensor<48xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %t = arith.addf %a, %sum : f32
    linalg.yield %t : f32
  } -> tensor<48xf32>
  %e = tensor.empty() : tensor<64x48xf32>
  %y = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x48xf32>, tensor<48xf32>) outs(%e : tensor<64x48xf32>) {
  ^bb0(%a: f32, %sum: f32, %old: f32):
    %d = arith.subf %a, %sum : f32
    linalg.yield %d : f32
  } -> tensor<64x48xf32>
  %f = tensor.empty() : tensor<32x48xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<32xi64>) outs(%f : tensor<32x48xf32>) {
  ^bb0(%n: i64, %old: f32):
    %i = arith.index_cast %n : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %y[%i, %j] : tensor<64x48xf32>
    linalg.yield %v : f32
  } -> tensor<32x48xf32>
  return %g : tensor<32x48xf32>
}
