// RUN: inferno-opt %s -p 'fold-transposes,func.func(canonicalize,cse)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#column = affine_map<(d0, d1) -> (d0)>

// CHECK-DAG: #[[SWAP:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2) -> (d1, d0 + d2)>
// CHECK-DAG: #[[ROTATED:.*]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>

/// Three dimensions in turn, read by a map of its own: the reader's indices stay its own.
// CHECK-LABEL: func.func @rotate
// CHECK: linalg.generic {indexing_maps = [#[[ROTATED]], #{{.*}}], {{.*}} ins(%arg0 : tensor<2x3x4xf32>) outs(%{{.*}} : tensor<3x4x2xf32>)
// CHECK: linalg.index 0
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @rotate(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<3x4x2xf32>
  %t = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<3x4x2xf32>) permutation = [1, 2, 0]
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%t : tensor<3x4x2xf32>) outs(%e : tensor<3x4x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.cmpi sge, %i, %one : index
    %y = arith.select %c, %a, %zero : f32
    linalg.yield %y : f32
  } -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}

/// There and back again is nothing; two readers of one transpose each read what it moved.
// CHECK-LABEL: func.func @twice
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[SWAP]], #[[ID]]], {{.*}} ins(%arg0, %arg0 : tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: arith.subf
// CHECK: linalg.generic {indexing_maps = [#[[SWAP]], #[[ID]]], {{.*}} ins(%arg0 : tensor<4x4xf32>)
// CHECK: math.exp
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @twice(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %e = tensor.empty() : tensor<4x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) permutation = [1, 0]
  %b = linalg.transpose ins(%t : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%b, %t : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.subf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<4x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

/// A broadcast vector is read as the vector, but not where it alone says how long a loop is.
// CHECK-LABEL: func.func @broadcast
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[COLUMN]], #[[ID]]], {{.*}} ins(%arg0, %arg1 : tensor<4x8xf32>, tensor<4xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @broadcast_sum
// CHECK: %[[B:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[B]] : tensor<4x8xf32>)
// CHECK: arith.addf
// CHECK: return
func.func @broadcast(%x: tensor<4x8xf32>, %v: tensor<4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %b = linalg.broadcast ins(%v : tensor<4xf32>) outs(%e : tensor<4x8xf32>) dimensions = [1]
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.mulf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @broadcast_sum(%v: tensor<4xf32>, %f: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %b = linalg.broadcast ins(%v : tensor<4xf32>) outs(%e : tensor<4x8xf32>) dimensions = [1]
  %0 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["parallel", "reduction"]} ins(%b : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = arith.addf %p, %o : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

/// A convolution's window over a transposed image: the window's map changes places.
// CHECK-LABEL: func.func @window
// CHECK: linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}, #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<4x10xf32>, tensor<3xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @window(%x: tensor<4x10xf32>, %w: tensor<3xf32>, %f: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<10x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x10xf32>) outs(%e : tensor<10x4xf32>) permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [affine_map<(i, c, k) -> (i + k, c)>, affine_map<(i, c, k) -> (k)>, affine_map<(i, c, k) -> (i, c)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%t, %w : tensor<10x4xf32>, tensor<3xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

/// What computes as it moves is no copy, nor what adds to what was there, nor a start that is moved.
// CHECK-LABEL: func.func @computes
// CHECK-COUNT-2: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @accumulates
// CHECK-COUNT-2: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @start
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%arg1
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4x8xf32>) outs(%[[T]] : tensor<4x8xf32>)
// CHECK: return
func.func @computes(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = arith.negf %p : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
func.func @accumulates(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>, %e: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%y : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %s = math.exp %p : f32
    linalg.yield %s : f32
  } -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
func.func @start(%x: tensor<4x8xf32>, %s: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %t = linalg.transpose ins(%s : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%t : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = arith.addf %p, %o : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

/// A gather reads the transposed table at indices of its own: the table is made.  A fill stays a fill.
// CHECK-LABEL: func.func @gather
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<5xi64>)
// CHECK: tensor.extract %[[T]]
// CHECK: return
// CHECK-LABEL: func.func @fill
// CHECK: linalg.fill
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @gather(%x: tensor<4x8xf32>, %at: tensor<5xi64>) -> tensor<5xf32> {
  %zero = arith.constant 0 : index
  %e = tensor.empty() : tensor<8x4xf32>
  %eo = tensor.empty() : tensor<5xf32>
  %t = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%at : tensor<5xi64>) outs(%eo : tensor<5xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = arith.index_cast %p : i64 to index
    %y = tensor.extract %t[%i, %zero] : tensor<8x4xf32>
    linalg.yield %y : f32
  } -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func @fill(%s: f32) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %f : tensor<4x8xf32>
}

/// No elements to move.
// CHECK-LABEL: func.func @no_elements
// CHECK: linalg.generic {indexing_maps = [#[[SWAP]], #[[ID]]], {{.*}} ins(%arg0 : tensor<0x8xf32>) outs(%{{.*}} : tensor<8x0xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @no_elements(%x: tensor<0x8xf32>) -> tensor<8x0xf32> {
  %e = tensor.empty() : tensor<8x0xf32>
  %t = linalg.transpose ins(%x : tensor<0x8xf32>) outs(%e : tensor<8x0xf32>) permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8x0xf32>) outs(%e : tensor<8x0xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<8x0xf32>
  return %0 : tensor<8x0xf32>
}
