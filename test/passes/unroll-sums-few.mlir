// RUN: inferno-opt %s -p unroll-sums --split-input-file | FileCheck %s

#left = affine_map<(i, j, c) -> (i, c)>
#right = affine_map<(i, j, c) -> (j, c)>
#pairs = affine_map<(i, j, c) -> (i, j)>
#all = affine_map<(i, j) -> (i, j)>
#rows = affine_map<(i, j) -> (i)>

// The least of the distances of points computes them.
// CHECK-LABEL: func.func @main(%arg0: tensor<64x3xf32>, %arg1: tensor<48x3xf32>)
// CHECK-COUNT-6: tensor.extract_slice
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK-COUNT-3: arith.mulf
// CHECK: arith.minimumf
// CHECK-NOT: linalg.generic
module {
  func.func @main(%x: tensor<64x3xf32>, %y: tensor<48x3xf32>) -> tensor<64xf32> {
    %zero = arith.constant 0.0 : f32
    %most = arith.constant 0x7F800000 : f32
    %e = tensor.empty() : tensor<64x48xf32>
    %f = tensor.empty() : tensor<64xf32>
    %d0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64x48xf32>) -> tensor<64x48xf32>
    %m0 = linalg.fill ins(%most : f32) outs(%f : tensor<64xf32>) -> tensor<64xf32>
    %d = linalg.generic {indexing_maps = [#left, #right, #pairs], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<64x3xf32>, tensor<48x3xf32>) outs(%d0 : tensor<64x48xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.subf %a, %b : f32
      %q = arith.mulf %s, %s : f32
      %t = arith.addf %q, %o : f32
      linalg.yield %t : f32
    } -> tensor<64x48xf32>
    %m = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<64x48xf32>) outs(%m0 : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %l = arith.minimumf %a, %o : f32
      linalg.yield %l : f32
    } -> tensor<64xf32>
    return %m : tensor<64xf32>
  }
}

// -----

#left = affine_map<(i, j, c) -> (i, c)>
#right = affine_map<(i, j, c) -> (j, c)>
#pairs = affine_map<(i, j, c) -> (i, j)>
#all = affine_map<(i, j) -> (i, j)>

// A product of matrices stays.
// CHECK-LABEL: func.func @main
// CHECK: "reduction"
module {
  func.func @main(%x: tensor<64x3xf32>, %y: tensor<48x3xf32>) -> tensor<64x48xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64x48xf32>
    %d0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64x48xf32>) -> tensor<64x48xf32>
    %d = linalg.generic {indexing_maps = [#left, #right, #pairs], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<64x3xf32>, tensor<48x3xf32>) outs(%d0 : tensor<64x48xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %q = arith.mulf %a, %b : f32
      %t = arith.addf %q, %o : f32
      linalg.yield %t : f32
    } -> tensor<64x48xf32>
    %m = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<64x48xf32>) outs(%e : tensor<64x48xf32>) {
    ^bb0(%a: f32, %o: f32):
      %l = math.exp %a : f32
      linalg.yield %l : f32
    } -> tensor<64x48xf32>
    return %m : tensor<64x48xf32>
  }
}

// -----

#planes = affine_map<(b, c, p) -> (b, c, p)>
#sums = affine_map<(b, c, p) -> (b, p)>

// What is taken off three planes is computed with each point, with the place of an extremum left out.
// CHECK-LABEL: func.func @main(%arg0: tensor<2x3x512xf32>)
// CHECK-COUNT-3: tensor.extract_slice
// CHECK: linalg.generic
// CHECK-SAME: ["parallel", "parallel", "parallel"]
// CHECK-COUNT-2: arith.maximumf
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
module {
  func.func @main(%x: tensor<2x3x512xf32>) -> tensor<2x3x512xf32> {
    %least = arith.constant 0xFF800000 : f32
    %none = arith.constant 0 : i64
    %e = tensor.empty() : tensor<2x512xf32>
    %f = tensor.empty() : tensor<2x512xi64>
    %p = tensor.empty() : tensor<2x3x512xf32>
    %m0 = linalg.fill ins(%least : f32) outs(%e : tensor<2x512xf32>) -> tensor<2x512xf32>
    %i0 = linalg.fill ins(%none : i64) outs(%f : tensor<2x512xi64>) -> tensor<2x512xi64>
    %m:2 = linalg.generic {indexing_maps = [#planes, #sums, #sums], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<2x3x512xf32>) outs(%m0, %i0 : tensor<2x512xf32>, tensor<2x512xi64>) {
    ^bb0(%a: f32, %o: f32, %i: i64):
      %c = linalg.index 1 : index
      %n = arith.index_cast %c : index to i64
      %l = arith.maximumf %a, %o : f32
      %g = arith.cmpf ogt, %a, %o : f32
      %k = arith.select %g, %n, %i : i64
      linalg.yield %l, %k : f32, i64
    } -> (tensor<2x512xf32>, tensor<2x512xi64>)
    %q = linalg.generic {indexing_maps = [#planes, #sums, #planes], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m#0 : tensor<2x3x512xf32>, tensor<2x512xf32>) outs(%p : tensor<2x3x512xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<2x3x512xf32>
    return %q : tensor<2x3x512xf32>
  }
}

// -----

#planes = affine_map<(b, c, p) -> (b, c, p)>
#sums = affine_map<(b, c, p) -> (b, p)>

// With six planes each point would read all of them.
// CHECK-LABEL: func.func @main
// CHECK: "reduction"
module {
  func.func @main(%x: tensor<2x6x512xf32>) -> tensor<2x6x512xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x512xf32>
    %p = tensor.empty() : tensor<2x6x512xf32>
    %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x512xf32>) -> tensor<2x512xf32>
    %s = linalg.generic {indexing_maps = [#planes, #sums], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<2x6x512xf32>) outs(%s0 : tensor<2x512xf32>) {
    ^bb0(%a: f32, %o: f32):
      %y = arith.addf %a, %o : f32
      linalg.yield %y : f32
    } -> tensor<2x512xf32>
    %q = linalg.generic {indexing_maps = [#planes, #sums, #planes], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %s : tensor<2x6x512xf32>, tensor<2x512xf32>) outs(%p : tensor<2x6x512xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<2x6x512xf32>
    return %q : tensor<2x6x512xf32>
  }
}

// -----

#rows = affine_map<(i, c) -> (i, c)>
#sums = affine_map<(i, c) -> (i)>
#points = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>

// A total over boxes reads columns of them, and sums of their rows: these are made of columns, too.
// CHECK-LABEL: func.func @main
// CHECK: tensor.extract_slice %arg0[0, 0] [64, 1] [1, 1]
// CHECK: tensor.extract_slice %arg0[0, 1] [64, 1] [1, 1]
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]
// CHECK-NOT: iterator_types = ["parallel", "reduction"]
module {
  func.func @main(%x: tensor<64x2xf32>) -> tensor<f32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
    %s = linalg.generic {indexing_maps = [#rows, #sums], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x2xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.mulf %a, %a : f32
      %y = arith.addf %m, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %w = tensor.extract_slice %x[0, 0] [64, 1] [1, 1] : tensor<64x2xf32> to tensor<64xf32>
    %n = tensor.empty() : tensor<f32>
    %g = linalg.fill ins(%zero : f32) outs(%n : tensor<f32>) -> tensor<f32>
    %t = linalg.generic {indexing_maps = [#points, #points, #one], iterator_types = ["reduction"]} ins(%s, %w : tensor<64xf32>, tensor<64xf32>) outs(%g : tensor<f32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.divf %a, %b : f32
      %y = arith.addf %d, %o : f32
      linalg.yield %y : f32
    } -> tensor<f32>
    return %t : tensor<f32>
  }
}

// -----

#rows = affine_map<(i, c) -> (i, c)>
#sums = affine_map<(i, c) -> (i)>
#points = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>

// Where nobody reads columns, whole rows are read as they lie.
// CHECK-LABEL: func.func @main
// CHECK: iterator_types = ["parallel", "reduction"]
module {
  func.func @main(%x: tensor<64x2xf32>) -> tensor<f32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
    %s = linalg.generic {indexing_maps = [#rows, #sums], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x2xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.mulf %a, %a : f32
      %y = arith.addf %m, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %n = tensor.empty() : tensor<f32>
    %g = linalg.fill ins(%zero : f32) outs(%n : tensor<f32>) -> tensor<f32>
    %t = linalg.generic {indexing_maps = [#points, #one], iterator_types = ["reduction"]} ins(%s : tensor<64xf32>) outs(%g : tensor<f32>) {
    ^bb0(%a: f32, %o: f32):
      %d = math.sqrt %a : f32
      %y = arith.addf %d, %o : f32
      linalg.yield %y : f32
    } -> tensor<f32>
    return %t : tensor<f32>
  }
}

// -----

#all = affine_map<(i, k, c) -> (i, k, c)>
#weights = affine_map<(i, k, c) -> (i, k)>
#sums = affine_map<(i, k, c) -> (i, c)>
#points = affine_map<(i, c) -> (i, c)>

// Neighbouring rows of what a kernel made, each with a weight.
// CHECK-LABEL: func.func @rows
// CHECK: math.exp
// CHECK-NOT: "reduction"
// CHECK-COUNT-2: arith.mulf
// CHECK: math.tanh
func.func @rows(%x: tensor<8x2x64xf32>, %w: tensor<8x2xf32>) -> (tensor<8x64xf32>, tensor<8x2x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x2x64xf32>
  %p = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<8x2x64xf32>) outs(%e : tensor<8x2x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = math.exp %a : f32
    linalg.yield %q : f32
  } -> tensor<8x2x64xf32>
  %f = tensor.empty() : tensor<8x64xf32>
  %d0 = linalg.fill ins(%zero : f32) outs(%f : tensor<8x64xf32>) -> tensor<8x64xf32>
  %d = linalg.generic {indexing_maps = [#all, #weights, #sums], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%p, %w : tensor<8x2x64xf32>, tensor<8x2xf32>) outs(%d0 : tensor<8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.mulf %a, %b : f32
    %t = arith.addf %q, %o : f32
    linalg.yield %t : f32
  } -> tensor<8x64xf32>
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<8x64xf32>) outs(%f : tensor<8x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = math.tanh %a : f32
    linalg.yield %q : f32
  } -> tensor<8x64xf32>
  return %r, %p : tensor<8x64xf32>, tensor<8x2x64xf32>
}

// -----

#all = affine_map<(n, h, i, w, j, c) -> (n, h, i, w, j, c)>
#sums = affine_map<(n, h, i, w, j, c) -> (n, h, w, c)>

// Blocks of pixels with channels last, of an image that was enlarged.  Those of blocks of channels are vectors of neighbours.
// CHECK-LABEL: func.func @blocks
// CHECK-NOT: "reduction"
// CHECK-COUNT-4: tensor.extract_slice
// CHECK: linalg.generic
// CHECK-COUNT-4: arith.addf
// CHECK-LABEL: func.func @neighbours
// CHECK: "reduction"
func.func @blocks(%x: tensor<2x3x2x5x2x8xf32>) -> tensor<2x3x5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x5x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %r = linalg.generic {indexing_maps = [#all, #sums], iterator_types = ["parallel", "parallel", "reduction", "parallel", "reduction", "parallel"]}
      ins(%x : tensor<2x3x2x5x2x8xf32>) outs(%f : tensor<2x3x5x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2x3x5x8xf32>
  return %r : tensor<2x3x5x8xf32>
}

#neighbours = affine_map<(n, h, i, w, c, j) -> (n, h, i, w, c, j)>
#of_neighbours = affine_map<(n, h, i, w, c, j) -> (n, h, w, c)>

func.func @neighbours(%x: tensor<2x3x2x5x8x2xf32>) -> tensor<2x3x5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x5x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %r = linalg.generic {indexing_maps = [#neighbours, #of_neighbours], iterator_types = ["parallel", "parallel", "reduction", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<2x3x2x5x8x2xf32>) outs(%f : tensor<2x3x5x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<2x3x5x8xf32>
  return %r : tensor<2x3x5x8xf32>
}
