// RUN: inferno-opt -p fold-reductions %s --split-input-file | FileCheck %s

#cube = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i, j)>
#points = affine_map<(i, j) -> (i, j)>
#sums = affine_map<(i, j) -> (i)>

// A mean of means is one sum, whose factor is behind it.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "reduction"]} ins(%arg0 :
// CHECK: arith.addf
// CHECK-NOT: "reduction"
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] :
// CHECK: arith.divf
func.func @main(%x: tensor<256x8x16xf32>) -> tensor<256xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 16.0 : f32
  %e = tensor.empty() : tensor<256x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<256x8xf32>) -> tensor<256x8xf32>
  %s = linalg.generic {indexing_maps = [#cube, #rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<256x8x16xf32>) outs(%f : tensor<256x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<256x8xf32>
  %g = tensor.empty() : tensor<256xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<256xf32>) -> tensor<256xf32>
  %t = linalg.generic {indexing_maps = [#points, #sums], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<256x8xf32>) outs(%h : tensor<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %d = arith.divf %a, %c : f32
    %y = arith.addf %d, %o : f32
    linalg.yield %y : f32
  } -> tensor<256xf32>
  return %t : tensor<256xf32>
}

// -----

#cube = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i, j)>
#points = affine_map<(i, j) -> (i, j)>
#sums = affine_map<(i, j) -> (i)>

// What the program returns, too, is computed by itself.
// CHECK-LABEL: func.func @main
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: iterator_types = ["parallel", "reduction"]
func.func @main(%x: tensor<256x8x16xf32>) -> (tensor<256xf32>, tensor<256x8xf32>) {
  %least = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<256x8xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<256x8xf32>) -> tensor<256x8xf32>
  %s = linalg.generic {indexing_maps = [#cube, #rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<256x8x16xf32>) outs(%f : tensor<256x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<256x8xf32>
  %g = tensor.empty() : tensor<256xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<256xf32>) -> tensor<256xf32>
  %t = linalg.generic {indexing_maps = [#points, #sums], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<256x8xf32>) outs(%h : tensor<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<256xf32>
  return %t, %s : tensor<256xf32>, tensor<256x8xf32>
}

// -----

#cube = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i, j)>
#points = affine_map<(i, j) -> (i, j)>
#sums = affine_map<(i, j) -> (j)>
#middle = affine_map<(i, j, k) -> (j)>

// Where something else reduces the tensor along both dimensions, a maximum of maxima is one, too, of few results.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "reduction"]} ins(%arg0 :
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "reduction"]} ins(%arg0 :
// CHECK-NOT: linalg.generic
func.func @main(%x: tensor<8x16x32xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %s = linalg.generic {indexing_maps = [#cube, #rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<8x16x32xf32>) outs(%f : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8x16xf32>
  %g = tensor.empty() : tensor<16xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<16xf32>) -> tensor<16xf32>
  %t = linalg.generic {indexing_maps = [#points, #sums], iterator_types = ["reduction", "parallel"]} ins(%s : tensor<8x16xf32>) outs(%h : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%g : tensor<16xf32>) -> tensor<16xf32>
  %u = linalg.generic {indexing_maps = [#cube, #middle], iterator_types = ["reduction", "parallel", "reduction"]} ins(%x : tensor<8x16x32xf32>) outs(%z : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<16xf32>
  return %t, %u : tensor<16xf32>, tensor<16xf32>
}

// -----

#cube = affine_map<(i, j, k) -> (i, j, k)>
#rows = affine_map<(i, j, k) -> (i, j)>
#points = affine_map<(i, j) -> (i, j)>
#sums = affine_map<(i, j) -> (j)>

// Not where that goes along one of them alone.
// CHECK-LABEL: func.func @main
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: iterator_types = ["reduction", "parallel"]
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
func.func @main(%x: tensor<8x256x32xf32>) -> (tensor<256xf32>, tensor<8x256xf32>) {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x256xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<8x256xf32>) -> tensor<8x256xf32>
  %s = linalg.generic {indexing_maps = [#cube, #rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<8x256x32xf32>) outs(%f : tensor<8x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8x256xf32>
  %g = tensor.empty() : tensor<256xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<256xf32>) -> tensor<256xf32>
  %t = linalg.generic {indexing_maps = [#points, #sums], iterator_types = ["reduction", "parallel"]} ins(%s : tensor<8x256xf32>) outs(%h : tensor<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<256xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x256xf32>) -> tensor<8x256xf32>
  %u = linalg.generic {indexing_maps = [#cube, #rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<8x256x32xf32>) outs(%z : tensor<8x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8x256xf32>
  return %t, %u : tensor<256xf32>, tensor<8x256xf32>
}
