// RUN: inferno-opt -p 'fuse-reductions{target=sm_90a always=1}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'fuse-reductions{target=cpu always=1}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// A softmax without its exponential: the largest of a row, the difference from it, and its sum, in one kernel with one result.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](%arg0, %{{.*}}) {inferno.source = ["max", "sub", "sum"]}
// CHECK-NOT: call
// CHECK: return %[[R]]
// CHECK: func.func private @[[K]](%{{.*}}: tensor<64x1000xf32>, %[[O:.*]]: tensor<64xf32>) -> tensor<64xf32>
// CHECK-COUNT-3: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call
func.func @main(%x: tensor<64x1000xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %f = tensor.empty() : tensor<64x1000xf32>
  %m = call @max(%x, %e) {inferno.source = ["max"]} : (tensor<64x1000xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @sub(%x, %m, %f) {inferno.source = ["sub"]} : (tensor<64x1000xf32>, tensor<64xf32>, tensor<64x1000xf32>) -> tensor<64x1000xf32>
  %s = call @sum(%d, %e) {inferno.source = ["sum"]} : (tensor<64x1000xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %s : tensor<64xf32>
}
func.func private @max(%x: tensor<64x1000xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x1000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.maximumf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @sub(%x: tensor<64x1000xf32>, %m: tensor<64xf32>, %o: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %r = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<64x1000xf32>, tensor<64xf32>) outs(%o : tensor<64x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<64x1000xf32>
  return %r : tensor<64x1000xf32>
}
func.func private @sum(%x: tensor<64x1000xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x1000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>
#columns = affine_map<(r, c) -> (c)>

// A mean of what a vector weighs, imported as a product with the vector and its end, less which the rows are: the sum, what is made of it, and the rows.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](
// CHECK-NOT: call
// CHECK: return %[[R]]
// CHECK: func.func private @[[K]](
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK-NOT: arith.select
// CHECK: arith.divf
// CHECK: arith.subf
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<64x1000xf32>, %w: tensor<1000xf32>) -> tensor<64x1000xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %f = tensor.empty() : tensor<64x1000xf32>
  %m = call @mean(%x, %w, %e) : (tensor<64x1000xf32>, tensor<1000xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @less(%x, %w, %m, %f) : (tensor<64x1000xf32>, tensor<1000xf32>, tensor<64xf32>, tensor<64x1000xf32>) -> tensor<64x1000xf32>
  return %d : tensor<64x1000xf32>
}
func.func private @mean(%x: tensor<64x1000xf32>, %w: tensor<1000xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %last = arith.constant 999 : index
  %n = arith.constant 1.0e+03 : f32
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<64x1000xf32>, tensor<1000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.addf %s, %p : f32
    %i = linalg.index 1 : index
    %end = arith.cmpi eq, %i, %last : index
    %q = arith.divf %y, %n : f32
    %v = arith.select %end, %q, %y : f32
    linalg.yield %v : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @less(%x: tensor<64x1000xf32>, %w: tensor<1000xf32>, %m: tensor<64xf32>, %o: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %r = linalg.generic {indexing_maps = [#points, #columns, #rows, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w, %m : tensor<64x1000xf32>, tensor<1000xf32>, tensor<64xf32>) outs(%o : tensor<64x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %old: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.subf %p, %c : f32
    linalg.yield %y : f32
  } -> tensor<64x1000xf32>
  return %r : tensor<64x1000xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// Sums of rows, and what reads them along columns: these are not the same rows.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %f = tensor.empty() : tensor<64x64xf32>
  %s = call @sum(%x, %e) : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @sub(%x, %s, %f) : (tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}
func.func private @sum(%x: tensor<64x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @sub(%x: tensor<64x64xf32>, %m: tensor<64xf32>, %o: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = linalg.generic {indexing_maps = [#points, affine_map<(r, c) -> (c)>, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<64x64xf32>, tensor<64xf32>) outs(%o : tensor<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// -----

// A tensor that a map reads twice, and that could be changed where it lies.
// CHECK-LABEL: func.func @main
// CHECK: call @square
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<17xi32>) -> tensor<17xi32> {
  %e = tensor.empty() : tensor<17xi32>
  %s = call @square(%x, %e) : (tensor<17xi32>, tensor<17xi32>) -> tensor<17xi32>
  return %s : tensor<17xi32>
}
func.func private @square(%x: tensor<17xi32>, %o: tensor<17xi32>) -> tensor<17xi32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x, %x : tensor<17xi32>, tensor<17xi32>) outs(%o : tensor<17xi32>) {
  ^bb0(%a: i32, %b: i32, %old: i32):
    %y = arith.muli %a, %b : i32
    linalg.yield %y : i32
  } -> tensor<17xi32>
  return %r : tensor<17xi32>
}

// -----

// Two products of a vector with matrices, which are merge-siblings', and two matrices' likewise.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: call @{{vector|matrix}}
// CHECK-NOT: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<768xf32>, %y: tensor<32x768xf32>, %w: tensor<64x768xf32>, %v: tensor<64x768xf32>)
    -> (tensor<64xf32>, tensor<64xf32>, tensor<32x64xf32>, tensor<32x64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %f = tensor.empty() : tensor<32x64xf32>
  %a = call @vector(%x, %w, %e) : (tensor<768xf32>, tensor<64x768xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b = call @vector(%x, %v, %e) : (tensor<768xf32>, tensor<64x768xf32>, tensor<64xf32>) -> tensor<64xf32>
  %c = call @matrix(%y, %w, %f) : (tensor<32x768xf32>, tensor<64x768xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  %d = call @matrix(%y, %v, %f) : (tensor<32x768xf32>, tensor<64x768xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %a, %b, %c, %d : tensor<64xf32>, tensor<64xf32>, tensor<32x64xf32>, tensor<32x64xf32>
}
func.func private @vector(%x: tensor<768xf32>, %w: tensor<64x768xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
      iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<768xf32>, tensor<64x768xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.addf %s, %p : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @matrix(%x: tensor<32x768xf32>, %w: tensor<64x768xf32>, %o: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<32x64xf32>) -> tensor<32x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x768xf32>, tensor<64x768xf32>) outs(%f : tensor<32x64xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.addf %s, %p : f32
    linalg.yield %y : f32
  } -> tensor<32x64xf32>
  return %r : tensor<32x64xf32>
}

// -----

// What a cosine is made of, the products of two rows each, is read once.
// CHECK-LABEL: func.func @main
// CHECK: call @rows
// CHECK-NOT: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<64x1000xf32>, %y: tensor<64x1000xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %a = call @dot(%x, %y, %e) : (tensor<64x1000xf32>, tensor<64x1000xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b = call @dot(%y, %y, %e) : (tensor<64x1000xf32>, tensor<64x1000xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}
func.func private @dot(%x: tensor<64x1000xf32>, %w: tensor<64x1000xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
      iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<64x1000xf32>, tensor<64x1000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.addf %s, %p : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

// A cache that a token is written to, and that the program returns, is written where it lies: no kernel that reads it takes that along.  Where
// nobody gets the new cache, it need not be in memory.
// CHECK-LABEL: func.func @main
// CHECK: %[[NEW:.*]] = call @put(
// CHECK: call @products(%{{.*}}, %[[NEW]]
// CHECK: call @rows
// CPU-LABEL: func.func @main
func.func @main(%cache: tensor<4x256x64xf32>, %other: tensor<4x256x64xf32>, %row: tensor<4x64xf32>, %at: tensor<i64>, %x: tensor<4x64xf32>)
    -> (tensor<4x256x64xf32>, tensor<4x256xf32>, tensor<4x256xf32>) {
  %e = tensor.empty() : tensor<4x256x64xf32>
  %f = tensor.empty() : tensor<4x256xf32>
  %new = call @put(%cache, %row, %at, %e) : (tensor<4x256x64xf32>, tensor<4x64xf32>, tensor<i64>, tensor<4x256x64xf32>) -> tensor<4x256x64xf32>
  %y = call @products(%x, %new, %f) : (tensor<4x64xf32>, tensor<4x256x64xf32>, tensor<4x256xf32>) -> tensor<4x256xf32>
  %second = call @put(%other, %row, %at, %e) : (tensor<4x256x64xf32>, tensor<4x64xf32>, tensor<i64>, tensor<4x256x64xf32>) -> tensor<4x256x64xf32>
  %z = call @products(%x, %second, %f) : (tensor<4x64xf32>, tensor<4x256x64xf32>, tensor<4x256xf32>) -> tensor<4x256xf32>
  return %new, %y, %z : tensor<4x256x64xf32>, tensor<4x256xf32>, tensor<4x256xf32>
}
func.func private @put(%old: tensor<4x256x64xf32>, %row: tensor<4x64xf32>, %at: tensor<i64>, %o: tensor<4x256x64xf32>) -> tensor<4x256x64xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(h, l, d) -> (h, l, d)>, affine_map<(h, l, d) -> (h, d)>, affine_map<(h, l, d) -> ()>, affine_map<(h, l, d) -> (h, l, d)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%old, %row, %at : tensor<4x256x64xf32>, tensor<4x64xf32>, tensor<i64>) outs(%o : tensor<4x256x64xf32>) {
  ^bb0(%a: f32, %b: f32, %p: i64, %q: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpi eq, %j, %p : i64
    %s = arith.select %c, %b, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x256x64xf32>
  return %r : tensor<4x256x64xf32>
}
func.func private @products(%x: tensor<4x64xf32>, %w: tensor<4x256x64xf32>, %o: tensor<4x256xf32>) -> tensor<4x256xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4x256xf32>) -> tensor<4x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(h, l, d) -> (h, d)>, affine_map<(h, l, d) -> (h, l, d)>, affine_map<(h, l, d) -> (h, l)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x64xf32>, tensor<4x256x64xf32>) outs(%f : tensor<4x256xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %y = arith.addf %s, %p : f32
    linalg.yield %y : f32
  } -> tensor<4x256xf32>
  return %r : tensor<4x256xf32>
}

// -----

#all_points = affine_map<(b, l, c) -> (b, l, c)>
#all_rows = affine_map<(b, l, c) -> (b, l)>

// Rows of known length, of which there are any number.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](%[[B:.*]], %[[S:.*]], %arg0, %{{.*}}) {inferno.source = ["sum", "sub"]}
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @[[K]](
// CHECK-COUNT-2: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%arg0: tensor<?x?x64xf32> {inferno.kind = "input", inferno.name = "x", inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 64)>},
    %arg1: index {inferno.hint = 3 : i64, inferno.range = [1, 64], inferno.symbol = "s0"},
    %arg2: index {inferno.hint = 5 : i64, inferno.range = [1, 4096], inferno.symbol = "s1"}) -> tensor<?x?x64xf32> {
  %0 = tensor.empty(%arg1, %arg2) : tensor<?x?xf32>
  %1 = call @reduce_addf(%arg1, %arg2, %arg0, %0) {inferno.source = ["sum"]} : (index, index, tensor<?x?x64xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %2 = tensor.empty(%arg1, %arg2) : tensor<?x?x64xf32>
  %3 = call @subf(%arg1, %arg2, %arg0, %1, %2) {inferno.source = ["sub"]} : (index, index, tensor<?x?x64xf32>, tensor<?x?xf32>, tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
  return %3 : tensor<?x?x64xf32>
}
func.func private @reduce_addf(%arg0: index {inferno.hint = 3 : i64, inferno.range = [1, 64], inferno.symbol = "n0"},
    %arg1: index {inferno.hint = 5 : i64, inferno.range = [1, 4096], inferno.symbol = "n1"},
    %arg2: tensor<?x?x64xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 64)>},
    %arg3: tensor<?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1)>}) -> tensor<?x?xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%arg3 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = linalg.generic {indexing_maps = [#all_points, #all_rows], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg2 : tensor<?x?x64xf32>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.addf %in, %out : f32
    linalg.yield %2 : f32
  } -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
func.func private @subf(%arg0: index {inferno.hint = 3 : i64, inferno.range = [1, 64], inferno.symbol = "n0"},
    %arg1: index {inferno.hint = 5 : i64, inferno.range = [1, 4096], inferno.symbol = "n1"},
    %arg2: tensor<?x?x64xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 64)>},
    %arg3: tensor<?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1)>},
    %arg4: tensor<?x?x64xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 64)>}) -> tensor<?x?x64xf32> {
  %0 = linalg.generic {indexing_maps = [#all_points, #all_rows, #all_points], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg2, %arg3 : tensor<?x?x64xf32>, tensor<?x?xf32>) outs(%arg4 : tensor<?x?x64xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.subf %in, %in_0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x64xf32>
  return %0 : tensor<?x?x64xf32>
}

// -----

#last = affine_map<(n, c, p) -> (n, p, c)>
#each = affine_map<(n, c, p) -> (n, c, p)>
#image = affine_map<(n, c, p) -> (n, c)>

// Images with channels last less their mean, rows one behind the other: both transpositions of the image are part of the kernel.
// CHECK-LABEL: module attributes {inferno.unmeasured}
// CHECK: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](%arg0, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[R]]
// CHECK: func.func private @[[K]](%{{.*}}: tensor<2x40x16xbf16>, %{{.*}}: tensor<2x16x40xf32>) -> tensor<2x16x40xf32>
// CHECK-COUNT-4: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call
module attributes {inferno.unmeasured} {
  func.func @main(%x: tensor<2x40x16xbf16>) -> tensor<2x16x40xf32> {
    %e = tensor.empty() : tensor<2x16x40xbf16>
    %f = tensor.empty() : tensor<2x16x40xf32>
    %g = tensor.empty() : tensor<2x16xf32>
    %t = call @transpose(%x, %e) : (tensor<2x40x16xbf16>, tensor<2x16x40xbf16>) -> tensor<2x16x40xbf16>
    %w = call @widen(%x, %f) : (tensor<2x40x16xbf16>, tensor<2x16x40xf32>) -> tensor<2x16x40xf32>
    %s = call @sum(%w, %g) : (tensor<2x16x40xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
    %r = call @sub(%t, %s, %f) : (tensor<2x16x40xbf16>, tensor<2x16xf32>, tensor<2x16x40xf32>) -> tensor<2x16x40xf32>
    return %r : tensor<2x16x40xf32>
  }
  func.func private @transpose(%x: tensor<2x40x16xbf16>, %o: tensor<2x16x40xbf16>) -> tensor<2x16x40xbf16> {
    %r = linalg.generic {indexing_maps = [#last, #each], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x : tensor<2x40x16xbf16>) outs(%o : tensor<2x16x40xbf16>) {
    ^bb0(%a: bf16, %old: bf16):
      linalg.yield %a : bf16
    } -> tensor<2x16x40xbf16>
    return %r : tensor<2x16x40xbf16>
  }
  func.func private @widen(%x: tensor<2x40x16xbf16>, %o: tensor<2x16x40xf32>) -> tensor<2x16x40xf32> {
    %r = linalg.generic {indexing_maps = [#last, #each], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x : tensor<2x40x16xbf16>) outs(%o : tensor<2x16x40xf32>) {
    ^bb0(%a: bf16, %old: f32):
      %y = arith.extf %a : bf16 to f32
      linalg.yield %y : f32
    } -> tensor<2x16x40xf32>
    return %r : tensor<2x16x40xf32>
  }
  func.func private @sum(%x: tensor<2x16x40xf32>, %o: tensor<2x16xf32>) -> tensor<2x16xf32> {
    %z = arith.constant 0.0 : f32
    %f = linalg.fill ins(%z : f32) outs(%o : tensor<2x16xf32>) -> tensor<2x16xf32>
    %r = linalg.generic {indexing_maps = [#each, #image], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x : tensor<2x16x40xf32>) outs(%f : tensor<2x16xf32>) {
    ^bb0(%a: f32, %s: f32):
      %y = arith.addf %a, %s : f32
      linalg.yield %y : f32
    } -> tensor<2x16xf32>
    return %r : tensor<2x16xf32>
  }
  func.func private @sub(%x: tensor<2x16x40xbf16>, %m: tensor<2x16xf32>, %o: tensor<2x16x40xf32>) -> tensor<2x16x40xf32> {
    %r = linalg.generic {indexing_maps = [#each, #image, #each], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x, %m : tensor<2x16x40xbf16>, tensor<2x16xf32>) outs(%o : tensor<2x16x40xf32>) {
    ^bb0(%a: bf16, %b: f32, %old: f32):
      %w = arith.extf %a : bf16 to f32
      %y = arith.subf %w, %b : f32
      linalg.yield %y : f32
    } -> tensor<2x16x40xf32>
    return %r : tensor<2x16x40xf32>
  }
}
