// RUN: inferno-opt %s -p 'fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-contractions,func.func(canonicalize,cse)' > %t.fused
// RUN: inferno-opt %s -p 'fuse-contractions,split-contractions,join-contractions,func.func(canonicalize,cse)' | diff %t.fused -

#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d1)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

/// Integers are contractions too; the result is of the sum's type, so it needs no second result.
// CHECK-LABEL: func.func @integers
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg1, %arg2 : tensor<4x16xi64>, tensor<16x8xi64>, tensor<8xi64>)
// CHECK: arith.muli
// CHECK: %[[SUM:.*]] = arith.addi
// CHECK: %[[Y:.*]] = arith.maxsi
// CHECK: arith.select %{{.*}}, %[[Y]], %[[SUM]] : i64
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @integers(%x: tensor<4x16xi64>, %w: tensor<16x8xi64>, %z: tensor<8xi64>) -> tensor<4x8xi64> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4x8xi64>
  %f = linalg.fill ins(%zero : i64) outs(%e : tensor<4x8xi64>) -> tensor<4x8xi64>
  %m = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xi64>, tensor<16x8xi64>) outs(%f : tensor<4x8xi64>) {
  ^bb0(%p: i64, %q: i64, %o: i64):
    %t = arith.muli %p, %q : i64
    %s = arith.addi %o, %t : i64
    linalg.yield %s : i64
  } -> tensor<4x8xi64>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %z : tensor<4x8xi64>, tensor<8xi64>) outs(%e : tensor<4x8xi64>) {
  ^bb0(%p: i64, %q: i64, %o: i64):
    %y = arith.maxsi %p, %q : i64
    linalg.yield %y : i64
  } -> tensor<4x8xi64>
  return %r : tensor<4x8xi64>
}

/// 8-bit integers: the extensions stay in the body, the sum is of 32 bits, the value of 8.
// CHECK-LABEL: func.func @narrow_integers
// CHECK: %[[R:.*]]:2 = linalg.generic
// CHECK-SAME: outs(%{{.*}}, %{{.*}} : tensor<4x8xi32>, tensor<4x8xi8>)
// CHECK-COUNT-2: arith.extsi
// CHECK: arith.muli %{{.*}} : i32
// CHECK: arith.trunci
// CHECK: return %[[R]]#1
func.func @narrow_integers(%x: tensor<4x16xi8>, %w: tensor<16x8xi8>) -> tensor<4x8xi8> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<4x8xi32>
  %e8 = tensor.empty() : tensor<4x8xi8>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<4x8xi32>) -> tensor<4x8xi32>
  %m = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xi8>, tensor<16x8xi8>) outs(%f : tensor<4x8xi32>) {
  ^bb0(%p: i8, %q: i8, %o: i32):
    %pw = arith.extsi %p : i8 to i32
    %qw = arith.extsi %q : i8 to i32
    %t = arith.muli %pw, %qw : i32
    %s = arith.addi %o, %t : i32
    linalg.yield %s : i32
  } -> tensor<4x8xi32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xi32>) outs(%e8 : tensor<4x8xi8>) {
  ^bb0(%p: i32, %o: i8):
    %y = arith.trunci %p : i32 to i8
    linalg.yield %y : i8
  } -> tensor<4x8xi8>
  return %r : tensor<4x8xi8>
}

/// Two contractions that meet: the map becomes the epilogue of one of them and reads what the other made.
// CHECK-LABEL: func.func @swiglu
// CHECK: %[[OTHER:.*]] = linalg.generic
// CHECK-SAME: ins(%arg0, %arg2
// CHECK-NOT: arith.select
// CHECK: linalg.yield
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg1, %[[OTHER]] : tensor<4x16xf32>, tensor<16x8xf32>, tensor<4x8xf32>)
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @swiglu(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %u = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %v : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%g, %u : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %n = arith.negf %p : f32
    %x0 = math.exp %n : f32
    %d = arith.addf %x0, %one : f32
    %h = arith.divf %p, %d : f32
    %y = arith.mulf %h, %q : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

/// A result that is squared is read twice by one reader, which may have it; the reader writes it transposed.
// CHECK-LABEL: func.func @read_twice
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #[[OUT:.*]]], iterator_types
// CHECK-SAME: outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: arith.mulf %[[SUM]], %[[SUM]]
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @read_twice(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %et = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#swap, #swap, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %m : tensor<4x8xf32>, tensor<4x8xf32>) outs(%et : tensor<8x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.mulf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

/// A matrix plus its transpose: every point reads two results, of which one is at hand.  A result that is read along other
/// dimensions too: it would be computed again for each.
// CHECK-LABEL: func.func @elsewhere
// CHECK: linalg.generic
// CHECK-NOT: arith.select
// CHECK: linalg.yield
// CHECK: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @broadcast
// CHECK: linalg.generic
// CHECK-NOT: arith.select
// CHECK: linalg.yield
// CHECK: linalg.generic
// CHECK: return
func.func @elsewhere(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x16xf32>, tensor<16x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %m : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.addf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func @broadcast(%x: tensor<8x16xf32>, %w: tensor<16xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<8x16xf32>, tensor<16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %z : tensor<8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.addf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

/// A matrix times a vector.
// CHECK-LABEL: func.func @matvec
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @matvec(%x: tensor<8x16xf32>, %w: tensor<16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<8x16xf32>, tensor<16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%m : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

/// Not multiply-adds: another combiner, a sum of quotients, a product with the sum itself, a start that is not a fill.
// CHECK-LABEL: func.func @others
// CHECK-NOT: arith.select
// CHECK: return
func.func @others(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %start: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.maximumf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %m1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.divf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m1 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %m2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %n = arith.mulf %o, %p : f32
    %t = arith.mulf %n, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m2 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %m3 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%start : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m3 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r0, %r1, %r2, %r3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
