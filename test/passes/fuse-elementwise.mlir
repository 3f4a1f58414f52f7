// RUN: inferno-opt %s --pass-pipeline='fuse-elementwise,func.func(canonicalize,cse)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#rows = affine_map<(d0, d1) -> (d0)>

/// A chain of elementwise operations, with a broadcast operand, becomes one.
// CHECK-LABEL: func.func @chain
// CHECK: linalg.generic
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: math.exp
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @chain(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %z : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

/// A result that is used again and is expensive to compute stays a tensor of its own.
// CHECK-LABEL: func.func @second_use
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: return
func.func @second_use(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

/// Sizes that are not known are left alone.
// CHECK-LABEL: func.func @dynamic
// CHECK-COUNT-2: linalg.generic
func.func @dynamic(%x: tensor<?x8xf32>, %e: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<?x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

/// A sum of squares is a reduction like any other, no contraction: what is squared is computed in it.
// CHECK-LABEL: func.func @squares
// CHECK-NOT: tensor<4x8xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4x8xbf16>)
// CHECK: arith.extf
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @squares(%x: tensor<4x8xbf16>) -> (tensor<4xf32>, tensor<4x8xbf16>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %s = tensor.empty() : tensor<4xf32>
  %b = tensor.empty() : tensor<4x8xbf16>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xbf16>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    linalg.yield %w : f32
  } -> tensor<4x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%s : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #rows], iterator_types = ["parallel", "reduction"]} ins(%wide : tensor<4x8xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %half = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%wide : tensor<4x8xf32>) outs(%b : tensor<4x8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %d = arith.addf %a, %a : f32
    %n = arith.truncf %d : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<4x8xbf16>
  return %sum, %half : tensor<4xf32>, tensor<4x8xbf16>
}

/// Places that are kept inside of a tensor are computed by each of their readers, and not written for them.
// CHECK-LABEL: func.func @places
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
func.func @places(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %zero = arith.constant 0 : i64
  %last = arith.constant 7 : i64
  %p = tensor.empty() : tensor<8xi64>
  %e = tensor.empty() : tensor<8x8xf32>
  %at = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%p : tensor<8xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    %d = arith.subi %n, %last : i64
    %r = arith.remsi %d, %last : i64
    %a = arith.maxsi %r, %zero : i64
    %b = arith.minsi %a, %last : i64
    linalg.yield %b : i64
  } -> tensor<8xi64>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, #id], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<8xi64>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%n: i64, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %n : i64 to index
    %v = tensor.extract %x[%i, %j] : tensor<8x8xf32>
    linalg.yield %v : f32
  } -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, #id], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<8xi64>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%n: i64, %o: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %n : i64 to index
    %v = tensor.extract %y[%j, %i] : tensor<8x8xf32>
    linalg.yield %v : f32
  } -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

/// A sum reads the pieces of a concatenation where they lie.
// CHECK-LABEL: func.func @sum_of_pieces
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]
// CHECK: scf.if
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg1
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @sum_of_pieces(%x: tensor<64x24xf32>, %y: tensor<64x16xf32>, %start: tensor<40xf32>) -> tensor<40xf32> {
  %c24 = arith.constant 24 : index
  %e = tensor.empty() : tensor<64x40xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<64x40xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %first = arith.cmpi ult, %j, %c24 : index
    %v = scf.if %first -> (f32) {
      %a = tensor.extract %x[%i, %j] : tensor<64x24xf32>
      scf.yield %a : f32
    } else {
      %k = arith.subi %j, %c24 : index
      %b = tensor.extract %y[%i, %k] : tensor<64x16xf32>
      scf.yield %b : f32
    }
    linalg.yield %v : f32
  } -> tensor<64x40xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]} ins(%0 : tensor<64x40xf32>) outs(%start : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<40xf32>
  return %1 : tensor<40xf32>
}

/// So does what looks for the largest element's place.
// CHECK-LABEL: func.func @place_in_pieces
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]
// CHECK: scf.if
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg1
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @place_in_pieces(%x: tensor<64x24xf32>, %y: tensor<64x16xf32>, %start: tensor<40xf32>, %first: tensor<40xi64>) -> tensor<40xi64> {
  %c24 = arith.constant 24 : index
  %e = tensor.empty() : tensor<64x40xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<64x40xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %in = arith.cmpi ult, %j, %c24 : index
    %v = scf.if %in -> (f32) {
      %a = tensor.extract %x[%i, %j] : tensor<64x24xf32>
      scf.yield %a : f32
    } else {
      %k = arith.subi %j, %c24 : index
      %b = tensor.extract %y[%i, %k] : tensor<64x16xf32>
      scf.yield %b : f32
    }
    linalg.yield %v : f32
  } -> tensor<64x40xf32>
  %1:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["reduction", "parallel"]}
      ins(%0 : tensor<64x40xf32>) outs(%start, %first : tensor<40xf32>, tensor<40xi64>) {
  ^bb0(%a: f32, %most: f32, %at: i64):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i64
    %m = arith.maximumf %a, %most : f32
    %above = arith.cmpf ogt, %a, %most : f32
    %p = arith.select %above, %n, %at : i64
    linalg.yield %m, %p : f32, i64
  } -> (tensor<40xf32>, tensor<40xi64>)
  return %1#1 : tensor<40xi64>
}

// A square reads its operand once, however often its body does: two sums of it compute it.
// CHECK-LABEL: func.func @square_of_two_sums
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: arith.mulf
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["reduction", "parallel"]
// CHECK: arith.mulf
// CHECK-NOT: linalg.generic
// CHECK: return
#square_points = affine_map<(i, j) -> (i, j)>
#square_rows = affine_map<(i, j) -> (i)>
#square_columns = affine_map<(i, j) -> (j)>
func.func @square_of_two_sums(%x: tensor<8x16xf32>) -> (tensor<8xf32>, tensor<16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %s = linalg.generic {indexing_maps = [#square_points, #square_points, #square_points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x16xf32>
  %r = tensor.empty() : tensor<8xf32>
  %c = tensor.empty() : tensor<16xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %c0 = linalg.fill ins(%zero : f32) outs(%c : tensor<16xf32>) -> tensor<16xf32>
  %t = linalg.generic {indexing_maps = [#square_points, #square_rows], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<8x16xf32>) outs(%r0 : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %a, %o : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %u = linalg.generic {indexing_maps = [#square_points, #square_columns], iterator_types = ["reduction", "parallel"]} ins(%s : tensor<8x16xf32>) outs(%c0 : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %a, %o : f32
    linalg.yield %p : f32
  } -> tensor<16xf32>
  return %t, %u : tensor<8xf32>, tensor<16xf32>
}

/// Factors that differ at every point of a sum, whatever tensors they are made of, meet once each: their sum is a reduction, which computes them.
// CHECK-LABEL: func.func @weighted_differences
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: math.exp
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @weighted_differences(%x: tensor<8x16xf32>, %y: tensor<8x32xf32>, %z: tensor<8x16x32xf32>, %start: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %e = tensor.empty() : tensor<8x16x32xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%z : tensor<8x16x32xf32>) outs(%e : tensor<8x16x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8x16x32xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>,
      affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y, %0 : tensor<8x16xf32>, tensor<8x32xf32>, tensor<8x16x32xf32>) outs(%start : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %v = math.absf %d : f32
    %p = arith.mulf %v, %c : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

/// A factor that is the same along a loop is one of a product of matrices, which is none.
// CHECK-LABEL: func.func @product
// CHECK: math.exp
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
func.func @product(%x: tensor<8x32xf32>, %y: tensor<32x16xf32>, %start: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8x32xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %y : tensor<8x32xf32>, tensor<32x16xf32>) outs(%start : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// Many terms that are interpolated each of several gathered elements are made by a map, whose vectors share what they read; few by the reduction.
// CHECK-LABEL: func.func @many
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<16x262144xbf16>)
// CHECK-COUNT-4: tensor.extract
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<16x262144xbf16>)
// CHECK-LABEL: func.func @few
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel"]
// CHECK-COUNT-4: tensor.extract
// CHECK-NOT: linalg.generic
func.func @many(%x: tensor<16x131072xbf16>) -> tensor<262144xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %size = arith.constant 131072 : index
  %least = arith.constant 0xFF80 : bf16
  %e = tensor.empty() : tensor<16x262144xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<16x262144xbf16>) {
  ^bb0(%o: bf16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %h = arith.divui %j, %c2 : index
    %p0 = arith.addi %h, %c0 : index
    %q0 = arith.remui %p0, %size : index
    %a0 = tensor.extract %x[%i, %q0] : tensor<16x131072xbf16>
    %p1 = arith.addi %h, %c1 : index
    %q1 = arith.remui %p1, %size : index
    %a1 = tensor.extract %x[%i, %q1] : tensor<16x131072xbf16>
    %p2 = arith.addi %h, %c2 : index
    %q2 = arith.remui %p2, %size : index
    %a2 = tensor.extract %x[%i, %q2] : tensor<16x131072xbf16>
    %p3 = arith.addi %h, %c3 : index
    %q3 = arith.remui %p3, %size : index
    %a3 = tensor.extract %x[%i, %q3] : tensor<16x131072xbf16>
    %s = arith.addf %a0, %a1 : bf16
    %t = arith.addf %a2, %a3 : bf16
    %u = arith.addf %s, %t : bf16
    linalg.yield %u : bf16
  } -> tensor<16x262144xbf16>
  %f = tensor.empty() : tensor<262144xbf16>
  %begin = linalg.fill ins(%least : bf16) outs(%f : tensor<262144xbf16>) -> tensor<262144xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<16x262144xbf16>) outs(%begin : tensor<262144xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %w = arith.maximumf %v, %o : bf16
    linalg.yield %w : bf16
  } -> tensor<262144xbf16>
  return %r : tensor<262144xbf16>
}
func.func @few(%x: tensor<16x32xbf16>) -> tensor<64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %size = arith.constant 32 : index
  %least = arith.constant 0xFF80 : bf16
  %e = tensor.empty() : tensor<16x64xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<16x64xbf16>) {
  ^bb0(%o: bf16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %h = arith.divui %j, %c2 : index
    %p0 = arith.addi %h, %c0 : index
    %q0 = arith.remui %p0, %size : index
    %a0 = tensor.extract %x[%i, %q0] : tensor<16x32xbf16>
    %p1 = arith.addi %h, %c1 : index
    %q1 = arith.remui %p1, %size : index
    %a1 = tensor.extract %x[%i, %q1] : tensor<16x32xbf16>
    %p2 = arith.addi %h, %c2 : index
    %q2 = arith.remui %p2, %size : index
    %a2 = tensor.extract %x[%i, %q2] : tensor<16x32xbf16>
    %p3 = arith.addi %h, %c3 : index
    %q3 = arith.remui %p3, %size : index
    %a3 = tensor.extract %x[%i, %q3] : tensor<16x32xbf16>
    %s = arith.addf %a0, %a1 : bf16
    %t = arith.addf %a2, %a3 : bf16
    %u = arith.addf %s, %t : bf16
    linalg.yield %u : bf16
  } -> tensor<16x64xbf16>
  %f = tensor.empty() : tensor<64xbf16>
  %begin = linalg.fill ins(%least : bf16) outs(%f : tensor<64xbf16>) -> tensor<64xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<16x64xbf16>) outs(%begin : tensor<64xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %w = arith.maximumf %v, %o : bf16
    linalg.yield %w : bf16
  } -> tensor<64xbf16>
  return %r : tensor<64xbf16>
}
