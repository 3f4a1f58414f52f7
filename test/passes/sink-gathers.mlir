// RUN: inferno-opt %s -p sink-gathers --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// The sums of rows of which each is taken about twenty times are those of the rows that there are.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<5000x256xf32>, %[[I:.*]]: tensor<100000xi64>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[X]] : tensor<5000x256xf32>)
// CHECK: } -> tensor<5000xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%[[I]] : tensor<100000xi64>)
// CHECK: %[[R:.*]] = arith.index_cast
// CHECK: tensor.extract %[[S]][%[[R]]]
// CHECK: } -> tensor<100000xf32>
// CHECK: return %[[Y]]
func.func @main(%x: tensor<5000x256xf32>, %i: tensor<100000xi64>) -> tensor<100000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<100000x256xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<100000xi64>) outs(%e : tensor<100000x256xf32>) {
  ^bb0(%n: i64, %old: f32):
    %r = arith.index_cast %n : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<5000x256xf32>
    linalg.yield %v : f32
  } -> tensor<100000x256xf32>
  %m = tensor.empty() : tensor<100000xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<100000xf32>) -> tensor<100000xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%g : tensor<100000x256xf32>) outs(%z : tensor<100000xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %t = arith.addf %a, %sum : f32
    linalg.yield %t : f32
  } -> tensor<100000xf32>
  return %s : tensor<100000xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// Of fewer rows than there are, what is taken is reduced.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract %{{.*}} : tensor<5000x256xf32>
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<3000x256xf32>)
func.func @main(%x: tensor<5000x256xf32>, %i: tensor<3000xi64>) -> tensor<3000xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3000x256xf32>
  %g = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<3000xi64>) outs(%e : tensor<3000x256xf32>) {
  ^bb0(%n: i64, %old: f32):
    %r = arith.index_cast %n : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<5000x256xf32>
    linalg.yield %v : f32
  } -> tensor<3000x256xf32>
  %m = tensor.empty() : tensor<3000xf32>
  %z = linalg.fill ins(%zero : f32) outs(%m : tensor<3000xf32>) -> tensor<3000xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%g : tensor<3000x256xf32>) outs(%z : tensor<3000xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %t = arith.addf %a, %sum : f32
    linalg.yield %t : f32
  } -> tensor<3000xf32>
  return %s : tensor<3000xf32>
}
