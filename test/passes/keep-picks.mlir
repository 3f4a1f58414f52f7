// RUN: inferno-opt %s -p 'fuse-elementwise,fuse-gathers,fuse-contractions' --split-input-file | FileCheck %s

// Each row's results are picked of the products with all matrices, and rows of those rows: the pick stays one, and what follows it element by element
// is in it.  A factor that is computed is made in front of the product, which brings it from memory.

#x = affine_map<(g, m, n, k) -> (m, k)>
#w = affine_map<(g, m, n, k) -> (g, n, k)>
#y = affine_map<(g, m, n, k) -> (g, m, n)>
#row = affine_map<(m, n) -> (m)>
#all = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: func.func @rows_of_rows
// CHECK: %[[X:.*]] = linalg.generic
// CHECK: arith.mulf
// CHECK: %[[P:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]], %arg1
// CHECK-COUNT-1: arith.mulf
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: tensor.extract %[[P]][
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: tensor.extract %[[R]][
// CHECK-NOT: linalg.generic
func.func @rows_of_rows(%a: tensor<128x64xf32>, %w: tensor<4x64x64xf32>, %number: tensor<128xi64>, %place: tensor<32xi64>) -> tensor<32x64xf32> {
  %ex = tensor.empty() : tensor<128x64xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<128x64xf32>) outs(%ex : tensor<128x64xf32>) {
  ^bb0(%v: f32, %old: f32):
    %two = arith.constant 2.0 : f32
    %t = arith.mulf %v, %two : f32
    linalg.yield %t : f32
  } -> tensor<128x64xf32>
  %e = tensor.empty() : tensor<4x128x64xf32>
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
  %every = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<128x64xf32>, tensor<4x64x64xf32>) outs(%start : tensor<4x128x64xf32>) {
  ^bb0(%l: f32, %r: f32, %old: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %old, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x128x64xf32>
  %picked = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%number : tensor<128xi64>) outs(%ex : tensor<128x64xf32>) {
  ^bb0(%n: i64, %old: f32):
    %g = arith.index_cast %n : i64 to index
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %v = tensor.extract %every[%g, %row, %column] : tensor<4x128x64xf32>
    linalg.yield %v : f32
  } -> tensor<128x64xf32>
  %more = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%picked : tensor<128x64xf32>) outs(%ex : tensor<128x64xf32>) {
  ^bb0(%v: f32, %old: f32):
    %one = arith.constant 1.0 : f32
    %t = arith.addf %v, %one : f32
    linalg.yield %t : f32
  } -> tensor<128x64xf32>
  %eo = tensor.empty() : tensor<32x64xf32>
  %rows = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%place : tensor<32xi64>) outs(%eo : tensor<32x64xf32>) {
  ^bb0(%n: i64, %old: f32):
    %at = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %more[%at, %column] : tensor<128x64xf32>
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  return %rows : tensor<32x64xf32>
}

// -----

#x = affine_map<(g, m, n, k) -> (m, k)>
#w = affine_map<(g, m, n, k) -> (g, n, k)>
#y = affine_map<(g, m, n, k) -> (g, m, n)>
#row = affine_map<(m, n) -> (m)>
#all = affine_map<(m, n) -> (m, n)>
#transposed = affine_map<(m, n) -> (n, m)>

// Results in another order are another operation's.

// CHECK-LABEL: func.func @transposed
// CHECK: tensor.extract
// CHECK: linalg.generic
// CHECK: math.exp
func.func @transposed(%x: tensor<128x64xf32>, %w: tensor<4x64x64xf32>, %number: tensor<128xi64>) -> tensor<64x128xf32> {
  %ex = tensor.empty() : tensor<128x64xf32>
  %e = tensor.empty() : tensor<4x128x64xf32>
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
  %every = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<128x64xf32>, tensor<4x64x64xf32>) outs(%start : tensor<4x128x64xf32>) {
  ^bb0(%l: f32, %r: f32, %old: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %old, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x128x64xf32>
  %picked = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%number : tensor<128xi64>) outs(%ex : tensor<128x64xf32>) {
  ^bb0(%n: i64, %old: f32):
    %g = arith.index_cast %n : i64 to index
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %v = tensor.extract %every[%g, %row, %column] : tensor<4x128x64xf32>
    linalg.yield %v : f32
  } -> tensor<128x64xf32>
  %eo = tensor.empty() : tensor<64x128xf32>
  %t = linalg.generic {indexing_maps = [#transposed, #all], iterator_types = ["parallel", "parallel"]}
      ins(%picked : tensor<128x64xf32>) outs(%eo : tensor<64x128xf32>) {
  ^bb0(%v: f32, %old: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<64x128xf32>
  return %t : tensor<64x128xf32>
}
