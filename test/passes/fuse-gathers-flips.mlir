// RUN: inferno-opt -p fuse-gathers %s --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>

// A product, flipped: both factors are read from the end, and what only said how long the loops are is no operand.
// CHECK-LABEL: @flip
// CHECK-COUNT-1: linalg.generic
// CHECK-SAME: outs
// CHECK: %[[C:.*]] = arith.subi
// CHECK: tensor.extract %arg0[%{{.*}}, %[[C]]]
// CHECK: tensor.extract %arg1[%{{.*}}, %{{.*}}]
// CHECK: arith.mulf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @flip(%x: tensor<4x100xf32>, %y: tensor<4x100xf32>, %e: tensor<4x100xf32>) -> tensor<4x100xf32> {
  %end = arith.constant 99 : index
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<4x100xf32>, tensor<4x100xf32>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %m = arith.mulf %p, %q : f32
    linalg.yield %m : f32
  } -> tensor<4x100xf32>
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%d : tensor<4x100xf32>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %end, %j : index
    %v = tensor.extract %d[%i, %k] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x100xf32>
  return %r : tensor<4x100xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// A sum of what is flipped is the sum of what it is.
// CHECK-LABEL: @sum_of_flip
// CHECK-COUNT-1: linalg.generic
// CHECK-SAME: "parallel", "reduction"
// CHECK-SAME: ins(%arg0 : tensor<4x100xf32>)
// CHECK: math.exp
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @sum_of_flip(%x: tensor<4x100xf32>, %e: tensor<4x100xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %end = arith.constant 99 : index
  %d = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x100xf32>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %m = math.exp %p : f32
    linalg.yield %m : f32
  } -> tensor<4x100xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%d : tensor<4x100xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%p: f32, %sum: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %end, %j : index
    %v = tensor.extract %d[%i, %k] : tensor<4x100xf32>
    %t = arith.addf %v, %sum : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// What rows are reduced to and what is flipped behind it is made from the end: the sum has no order, and the quotient reads what it is of.
// CHECK-LABEL: @flipped_behind
// CHECK: %[[Z:.*]] = linalg.generic
// CHECK: arith.subi
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg1
// CHECK: arith.addf
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[Z]] : tensor<4x100xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[S]], %[[Z]] :
// CHECK-NOT: tensor.extract
// CHECK: arith.divf
// CHECK: return
// A sum with numbers that count from the beginning has one.
// CHECK-LABEL: @weighed
// CHECK: tensor.extract
// CHECK: return
func.func @flipped_behind(%x: tensor<4x100xf32>, %y: tensor<4x100xf32>, %e: tensor<4x100xf32>, %o: tensor<4xf32>) -> tensor<4x100xf32> {
  %end = arith.constant 99 : index
  %empty = tensor.empty() : tensor<4x100xf32>
  %z = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<4x100xf32>, tensor<4x100xf32>) outs(%empty : tensor<4x100xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %m = arith.addf %p, %q : f32
    linalg.yield %m : f32
  } -> tensor<4x100xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%z : tensor<4x100xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%p: f32, %sum: f32):
    %t = arith.addf %p, %sum : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<4xf32>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %end, %j : index
    %v = tensor.extract %z[%i, %k] : tensor<4x100xf32>
    %t = arith.divf %v, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x100xf32>
  return %r : tensor<4x100xf32>
}
func.func @weighed(%x: tensor<4x100xf32>, %w: tensor<100xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %end = arith.constant 99 : index
  %s = linalg.generic {indexing_maps = [affine_map<(r, c) -> (c)>, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%w : tensor<100xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%p: f32, %sum: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %end, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<4x100xf32>
    %m = arith.mulf %v, %p : f32
    %t = arith.addf %m, %sum : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// A part of what is picked that is there for its sizes alone is no reader: half of what is flipped makes half of it.
// CHECK-LABEL: @half_of_flipped
// CHECK-COUNT-1: linalg.generic
// CHECK: math.tanh
// CHECK: math.absf
// CHECK-NOT: linalg.generic
func.func @half_of_flipped(%x: tensor<8x100xf32>, %e: tensor<8x100xf32>, %o: tensor<8x51xf32>) -> tensor<8x51xf32> {
  %last = arith.constant 99 : index
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x100xf32>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %y = math.tanh %p : f32
    linalg.yield %y : f32
  } -> tensor<8x100xf32>
  %h = tensor.extract_slice %t[0, 0] [8, 51] [1, 1] : tensor<8x100xf32> to tensor<8x51xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<8x51xf32>) outs(%o : tensor<8x51xf32>) {
  ^bb0(%in: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %t[%i, %k] : tensor<8x100xf32>
    %z = math.absf %v : f32
    linalg.yield %z : f32
  } -> tensor<8x51xf32>
  return %r : tensor<8x51xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#columns = affine_map<(r, c) -> (c)>

// Rows at places that numbers say, flipped, whose sum goes over a filled tensor's sizes: the sum picks the rows itself.
// CHECK-LABEL: @sum_of_flipped_rows
// CHECK-COUNT-1: linalg.generic
// CHECK-SAME: "reduction", "parallel"
// CHECK: tensor.extract %arg1
// CHECK: tensor.extract %arg0
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @sum_of_flipped_rows(%x: tensor<50x100xf32>, %n: tensor<4xi64>, %o: tensor<100xf32>) -> tensor<100xf32> {
  %end = arith.constant 99 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x100xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x100xf32>) -> tensor<4x100xf32>
  %t = linalg.generic {indexing_maps = [#row, #points], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<4xi64>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%number: i64, %old: f32):
    %r = arith.index_cast %number : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %x[%r, %c] : tensor<50x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x100xf32>
  %d = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%f : tensor<4x100xf32>) {
  ^bb0(%old: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %back = arith.subi %end, %c : index
    %v = tensor.extract %t[%r, %back] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x100xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%d : tensor<4x100xf32>) outs(%o : tensor<100xf32>) {
  ^bb0(%unread: f32, %sum: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %v = tensor.extract %d[%r, %c] : tensor<4x100xf32>
    %more = arith.addf %v, %sum : f32
    linalg.yield %more : f32
  } -> tensor<100xf32>
  return %s : tensor<100xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// Two sums of what is flipped, the second around a mean, read what it is, and nothing is flipped.
// CHECK-LABEL: @sums_of_flip
// CHECK-COUNT-2: ins(%arg0
// CHECK-NOT: arith.subi
// CHECK: return
func.func @sums_of_flip(%x: tensor<4x100xf32>, %e: tensor<4x100xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %end = arith.constant 99 : index
  %d = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x100xf32>) {
  ^bb0(%old: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %back = arith.subi %end, %c : index
    %v = tensor.extract %x[%r, %back] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x100xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<4x100xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%p: f32, %sum: f32):
    %more = arith.addf %p, %sum : f32
    linalg.yield %more : f32
  } -> tensor<4xf32>
  %q = linalg.generic {indexing_maps = [#points, #rows, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%d, %s : tensor<4x100xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%p: f32, %mean: f32, %sum: f32):
    %far = arith.subf %p, %mean : f32
    %square = arith.mulf %far, %far : f32
    %more = arith.addf %square, %sum : f32
    linalg.yield %more : f32
  } -> tensor<4xf32>
  return %q : tensor<4xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// Sums of the columns of what is flipped along its rows are flipped themselves.
// CHECK-LABEL: @columns_of_flip
// CHECK: arith.subi
// CHECK: return
func.func @columns_of_flip(%x: tensor<4x100xf32>, %e: tensor<4x100xf32>, %o: tensor<100xf32>) -> tensor<100xf32> {
  %end = arith.constant 99 : index
  %d = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x100xf32>) {
  ^bb0(%old: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %back = arith.subi %end, %c : index
    %v = tensor.extract %x[%r, %back] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x100xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%d : tensor<4x100xf32>) outs(%o : tensor<100xf32>) {
  ^bb0(%p: f32, %sum: f32):
    %more = arith.addf %p, %sum : f32
    linalg.yield %more : f32
  } -> tensor<100xf32>
  return %s : tensor<100xf32>
}
