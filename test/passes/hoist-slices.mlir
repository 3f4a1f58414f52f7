// RUN: inferno-opt -p hoist-slices %s --split-input-file | FileCheck %s

// Half of the rows, every second column: only these are computed; a vector of the columns is read in part, too.
// CHECK-LABEL: func.func @part
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[4, 0] [4, 8] [1, 2] : tensor<8x16xf32> to tensor<4x8xf32>
// CHECK: %[[B:.*]] = tensor.extract_slice %arg1[0] [8] [2]
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[B]] : tensor<4x8xf32>, tensor<8xf32>)
// CHECK: math.exp
// CHECK-NOT: tensor.extract_slice
func.func @part(%x: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<8x16xf32>, tensor<16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%u: f32, %c: f32, %o: f32):
    %v = math.exp %u : f32
    %w = arith.addf %v, %c : f32
    linalg.yield %w : f32
  } -> tensor<8x16xf32>
  %s = tensor.extract_slice %y[4, 0] [4, 8] [1, 2] : tensor<8x16xf32> to tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// -----

// Halves that together are the whole: each is computed where it is read, through a transpose.
// CHECK-LABEL: func.func @halves
// CHECK: tensor.extract_slice %arg0[0, 0] [8, 8] [1, 1]
// CHECK: math.exp
// CHECK: tensor.extract_slice %arg0[8, 0] [8, 8] [1, 1]
// CHECK: math.exp
func.func @halves(%x: tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %e = tensor.empty() : tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<8x16xf32>
  %s = tensor.extract_slice %y[0, 0] [8, 8] [1, 1] : tensor<8x16xf32> to tensor<8x8xf32>
  %t = tensor.extract_slice %y[0, 8] [8, 8] [1, 1] : tensor<8x16xf32> to tensor<8x8xf32>
  return %s, %t : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Left alone: parts that overlap, what is read as a whole, and what ends a sum.
// CHECK-LABEL: func.func @overlap
// CHECK: linalg.generic
// CHECK: tensor.extract_slice
// CHECK: tensor.extract_slice
func.func @overlap(%x: tensor<8xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %s = tensor.extract_slice %y[0] [6] [1] : tensor<8xf32> to tensor<6xf32>
  %t = tensor.extract_slice %y[2] [6] [1] : tensor<8xf32> to tensor<6xf32>
  return %s, %t : tensor<6xf32>, tensor<6xf32>
}

// CHECK-LABEL: func.func @whole
// CHECK: linalg.generic
// CHECK: tensor.extract_slice
func.func @whole(%x: tensor<8xf32>) -> (tensor<6xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %s = tensor.extract_slice %y[0] [6] [1] : tensor<8xf32> to tensor<6xf32>
  return %s, %y : tensor<6xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @sum
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK: tensor.extract_slice
func.func @sum(%x: tensor<8x4xf32>, %z: tensor<8xf32>) -> tensor<6xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x4xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = arith.addf %u, %o : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%r : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %s = tensor.extract_slice %y[0] [6] [1] : tensor<8xf32> to tensor<6xf32>
  return %s : tensor<6xf32>
}

// -----

// What counts begins where the part does.
// CHECK-LABEL: func.func @counts
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: arith.addi %[[I]], %{{.*}} : index
// CHECK-NOT: tensor.extract_slice
func.func @counts() -> tensor<6xindex> {
  %e = tensor.empty() : tensor<8xindex>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<8xindex>) {
  ^bb0(%o: index):
    %v = linalg.index 0 : index
    linalg.yield %v : index
  } -> tensor<8xindex>
  %s = tensor.extract_slice %y[2] [6] [1] : tensor<8xindex> to tensor<6xindex>
  return %s : tensor<6xindex>
}

// -----

// One column, without its dimension: of the rows' numbers nothing is repeated.
// CHECK-LABEL: func.func @column
// CHECK-NOT: tensor<8x16xi64>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]} ins(%arg0 : tensor<8xi64>)
func.func @column(%x: tensor<8xi64>) -> tensor<8xi64> {
  %e = tensor.empty() : tensor<8x16xi64>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8xi64>) outs(%e : tensor<8x16xi64>) {
  ^bb0(%u: i64, %o: i64):
    linalg.yield %u : i64
  } -> tensor<8x16xi64>
  %s = tensor.extract_slice %y[0, 3] [8, 1] [1, 1] : tensor<8x16xi64> to tensor<8xi64>
  return %s : tensor<8xi64>
}

// -----

// A row in the middle, and an element of nothing but ones.
// CHECK-LABEL: func.func @inside
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} ins(%{{.*}} : tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}}iterator_types = []} ins(%{{.*}} : tensor<f32>)
func.func @inside(%x: tensor<4x6x8xf32>) -> (tensor<4x8xf32>, tensor<f32>) {
  %e = tensor.empty() : tensor<4x6x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<4x6x8xf32>) outs(%e : tensor<4x6x8xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = math.exp %u : f32
    linalg.yield %v : f32
  } -> tensor<4x6x8xf32>
  %s = tensor.extract_slice %y[0, 2, 0] [4, 1, 8] [1, 1, 1] : tensor<4x6x8xf32> to tensor<4x8xf32>
  %t = tensor.extract_slice %y[1, 2, 3] [1, 1, 1] [1, 1, 1] : tensor<4x6x8xf32> to tensor<f32>
  return %s, %t : tensor<4x8xf32>, tensor<f32>
}

// -----

// Running sums of which the beginning is read go over that alone; of a later part they go over all.
// CHECK-LABEL: func.func @running
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0[0, 0] [4, 5] [1, 1]
// CHECK: tm_tensor.scan dimension(1) inclusive(true) ins(%[[PART]] : tensor<4x5xf32>)
// CHECK-NOT: tensor.extract_slice
// CHECK: return
// CHECK-LABEL: func.func @later
// CHECK: tm_tensor.scan dimension(1) inclusive(true) ins(%arg0 : tensor<4x9xf32>)
// CHECK: tensor.extract_slice
// CHECK: return
func.func @running(%x: tensor<4x9xf32>) -> tensor<4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %a = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<4x9xf32>
  %last = linalg.fill ins(%zero : f32) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  %sums = linalg.fill ins(%zero : f32) outs(%e : tensor<4x9xf32>) -> tensor<4x9xf32>
  %s:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<4x9xf32>) outs(%sums, %last : tensor<4x9xf32>, tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %t = arith.addf %p, %q : f32
    tm_tensor.yield %t : f32
  } -> tensor<4x9xf32>, tensor<4xf32>
  %part = tensor.extract_slice %s#0[0, 0] [4, 5] [1, 1] : tensor<4x9xf32> to tensor<4x5xf32>
  return %part : tensor<4x5xf32>
}
func.func @later(%x: tensor<4x9xf32>) -> tensor<4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %a = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<4x9xf32>
  %last = linalg.fill ins(%zero : f32) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  %sums = linalg.fill ins(%zero : f32) outs(%e : tensor<4x9xf32>) -> tensor<4x9xf32>
  %s:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<4x9xf32>) outs(%sums, %last : tensor<4x9xf32>, tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %t = arith.addf %p, %q : f32
    tm_tensor.yield %t : f32
  } -> tensor<4x9xf32>, tensor<4xf32>
  %part = tensor.extract_slice %s#0[0, 4] [4, 5] [1, 1] : tensor<4x9xf32> to tensor<4x5xf32>
  return %part : tensor<4x5xf32>
}

// -----

// What only moves elements, as a border, is read where it lies by each of several maps, however much they overlap.
// CHECK-LABEL: func.func @border
// CHECK-NOT: tensor.extract_slice
// CHECK: linalg.generic
// CHECK-SAME: outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg0
// CHECK-NOT: linalg.generic
// CHECK: return
// One of which something is computed stays.
// CHECK-LABEL: func.func @computed
// CHECK-COUNT-2: tensor.extract_slice
#points = affine_map<(i, j) -> (i, j)>
func.func @border(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %e = tensor.empty() : tensor<4x10xf32>
  %p = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x10xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %j, %one : index
    %inside = arith.cmpi ult, %k, %eight : index
    %v = scf.if %inside -> f32 {
      %a = tensor.extract %x[%i, %k] : tensor<4x8xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %v : f32
  } -> tensor<4x10xf32>
  %l = tensor.extract_slice %p[0, 0] [4, 8] [1, 1] : tensor<4x10xf32> to tensor<4x8xf32>
  %r = tensor.extract_slice %p[0, 2] [4, 8] [1, 1] : tensor<4x10xf32> to tensor<4x8xf32>
  %to = tensor.empty() : tensor<4x8xf32>
  %s = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%l, %r : tensor<4x8xf32>, tensor<4x8xf32>) outs(%to : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %b, %a : f32
    linalg.yield %d : f32
  } -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
func.func @computed(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %e = tensor.empty() : tensor<4x10xf32>
  %p = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x10xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %j, %one : index
    %inside = arith.cmpi ult, %k, %eight : index
    %v = scf.if %inside -> f32 {
      %a = tensor.extract %x[%i, %k] : tensor<4x8xf32>
      %b = math.tanh %a : f32
      scf.yield %b : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %v : f32
  } -> tensor<4x10xf32>
  %l = tensor.extract_slice %p[0, 0] [4, 8] [1, 1] : tensor<4x10xf32> to tensor<4x8xf32>
  %r = tensor.extract_slice %p[0, 2] [4, 8] [1, 1] : tensor<4x10xf32> to tensor<4x8xf32>
  %to = tensor.empty() : tensor<4x8xf32>
  %s = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%l, %r : tensor<4x8xf32>, tensor<4x8xf32>) outs(%to : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %b, %a : f32
    linalg.yield %d : f32
  } -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0) -> (d0)>

// Equal slices are one: both columns are no more than the whole, however often they are read.
// CHECK-LABEL: func.func @columns
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]
// CHECK-NOT: iterator_types = ["parallel", "parallel"]
func.func @columns(%x: tensor<8x2xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8x2xf32>
  %y = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x2xf32>) outs(%e : tensor<8x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<8x2xf32>
  %l = tensor.extract_slice %y[0, 0] [8, 1] [1, 1] : tensor<8x2xf32> to tensor<8xf32>
  %r = tensor.extract_slice %y[0, 1] [8, 1] [1, 1] : tensor<8x2xf32> to tensor<8xf32>
  %m = tensor.extract_slice %y[0, 0] [8, 1] [1, 1] : tensor<8x2xf32> to tensor<8xf32>
  %n = tensor.extract_slice %y[0, 1] [8, 1] [1, 1] : tensor<8x2xf32> to tensor<8xf32>
  %f = tensor.empty() : tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel"]} ins(%l, %r : tensor<8xf32>, tensor<8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %b, %a : f32
    linalg.yield %d : f32
  } -> tensor<8xf32>
  %t = linalg.generic {indexing_maps = [#rows, #rows, #rows], iterator_types = ["parallel"]} ins(%m, %n : tensor<8xf32>, tensor<8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.mulf %b, %a : f32
    linalg.yield %d : f32
  } -> tensor<8xf32>
  return %s, %t : tensor<8xf32>, tensor<8xf32>
}

// -----

// One channel of an image that is computed at computed places: it alone is computed.
// CHECK-LABEL: func.func @channel
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6xf32>)
// CHECK: tensor.extract %arg0
// CHECK: math.exp
// CHECK-NOT: linalg.generic
// Of rows that are all read, each by a slice, all are computed at once.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-2: tensor.extract_slice
func.func @channel(%x: tensor<3x3xf32>) -> tensor<6xf32> {
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<3x6xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<3x6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.divui %j, %two : index
    %a = tensor.extract %x[%i, %k] : tensor<3x3xf32>
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<3x6xf32>
  %s = tensor.extract_slice %p[1, 0] [1, 6] [1, 1] : tensor<3x6xf32> to tensor<6xf32>
  return %s : tensor<6xf32>
}
func.func @rows(%x: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<2x6xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<2x6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.divui %j, %two : index
    %a = tensor.extract %x[%i, %k] : tensor<2x3xf32>
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<2x6xf32>
  %s = tensor.extract_slice %p[0, 0] [1, 6] [1, 1] : tensor<2x6xf32> to tensor<6xf32>
  %t = tensor.extract_slice %p[1, 0] [1, 6] [1, 1] : tensor<2x6xf32> to tensor<6xf32>
  return %s, %t : tensor<6xf32>, tensor<6xf32>
}

// -----

// A border whose slices drop its only image.
// CHECK-LABEL: func.func @image
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @image(%x: tensor<1x8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %e = tensor.empty() : tensor<1x10xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<1x10xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %j, %one : index
    %inside = arith.cmpi ult, %k, %eight : index
    %v = scf.if %inside -> f32 {
      %a = tensor.extract %x[%i, %k] : tensor<1x8xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %v : f32
  } -> tensor<1x10xf32>
  %l = tensor.extract_slice %p[0, 0] [1, 8] [1, 1] : tensor<1x10xf32> to tensor<8xf32>
  %r = tensor.extract_slice %p[0, 2] [1, 8] [1, 1] : tensor<1x10xf32> to tensor<8xf32>
  %to = tensor.empty() : tensor<8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%l, %r : tensor<8xf32>, tensor<8xf32>) outs(%to : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %b, %a : f32
    linalg.yield %d : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}
