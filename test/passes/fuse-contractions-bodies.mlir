// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s
// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,func.func(canonicalize,cse)' > %t.fused
// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,split-contractions,join-contractions,func.func(canonicalize,cse)' | diff %t.fused -

#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d1)>

/// A causal mask: the epilogue's indices become the contraction's, in the order in which the epilogue reads it.
// CHECK-LABEL: func.func @mask
// CHECK: linalg.generic
// CHECK: %[[LAST:.*]] = arith.cmpi eq
// CHECK: %[[N:.*]] = linalg.index 1
// CHECK: %[[M:.*]] = linalg.index 0
// CHECK: arith.cmpi sge, %[[N]], %[[M]]
// CHECK: arith.select
// CHECK: arith.select %[[LAST]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @mask(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %et = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xf32>) outs(%et : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %seen = arith.cmpi sge, %i, %j : index
    %y = arith.select %seen, %p, %zero : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

/// Indices before the multiply-add: a triangle of the weight, which is read transposed.
// CHECK-LABEL: func.func @triangle
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg1 : tensor<4x16xf32>, tensor<8x16xf32>)
// CHECK: %[[N:.*]] = linalg.index 1
// CHECK: %[[K:.*]] = linalg.index 2
// CHECK: arith.cmpi sge, %[[N]], %[[K]]
// CHECK: %[[W:.*]] = arith.select
// CHECK: arith.mulf %{{.*}}, %[[W]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @triangle(%x: tensor<4x16xf32>, %w: tensor<8x16xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %ew = tensor.empty() : tensor<8x16xf32>
  %et = tensor.empty() : tensor<16x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<8x16xf32>) outs(%ew : tensor<8x16xf32>) {
  ^bb0(%p: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %kept = arith.cmpi sge, %i, %j : index
    %y = arith.select %kept, %p, %zero : f32
    linalg.yield %y : f32
  } -> tensor<8x16xf32>
  %t = linalg.transpose ins(%l : tensor<8x16xf32>) outs(%et : tensor<16x8xf32>) permutation = [1, 0]
  %m = linalg.matmul ins(%x, %t : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

/// Weights of 8 bits with a scale for each column: made where they are read, since they are fewer bytes than what they make.
// CHECK-LABEL: func.func @dequantise
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg1, %arg2, %arg3 : tensor<4x16xf32>, tensor<16x8xi8>, tensor<8xf32>, tensor<8xf32>)
// CHECK: arith.sitofp
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @dequantise(%x: tensor<4x16xf32>, %w: tensor<16x8xi8>, %scale: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %ew = tensor.empty() : tensor<16x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%w, %scale : tensor<16x8xi8>, tensor<8xf32>) outs(%ew : tensor<16x8xf32>) {
  ^bb0(%p: i8, %q: f32, %o: f32):
    %v = arith.sitofp %p : i8 to f32
    %y = arith.mulf %v, %q : f32
    linalg.yield %y : f32
  } -> tensor<16x8xf32>
  %m = linalg.matmul ins(%x, %d : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

/// One tensor in several places: it is read by as many maps.
// CHECK-LABEL: func.func @gram
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg0 : tensor<4x16xf32>, tensor<4x16xf32>)
// CHECK-SAME: outs(
// CHECK-LABEL: func.func @residual
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg1, %arg0 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[X:.*]]: f32, %{{.*}}: f32)
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %{{.*}}, %[[P]]
// CHECK: arith.addf %[[SUM]], %[[X]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @gram(%x: tensor<4x16xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %et = tensor.empty() : tensor<16x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x16xf32>) outs(%et : tensor<16x4xf32>) permutation = [1, 0]
  %m = linalg.matmul ins(%x, %t : tensor<4x16xf32>, tensor<16x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
func.func @residual(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.addf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

/// A prologue is fused although what reads the result cannot be: it broadcasts.
// CHECK-LABEL: func.func @only_before
// CHECK: linalg.generic
// CHECK-SAME: ins(%arg0, %arg1 : tensor<8x16xf32>, tensor<16xi8>)
// CHECK: arith.sitofp
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @only_before(%x: tensor<8x16xf32>, %w: tensor<16xi8>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e1 = tensor.empty() : tensor<8xf32>
  %ew = tensor.empty() : tensor<16xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%w : tensor<16xi8>) outs(%ew : tensor<16xf32>) {
  ^bb0(%p: i8, %o: f32):
    %v = arith.sitofp %p : i8 to f32
    %y = arith.mulf %v, %half : f32
    linalg.yield %y : f32
  } -> tensor<16xf32>
  %m = linalg.matvec ins(%x, %d : tensor<8x16xf32>, tensor<16xf32>) outs(%f : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %z : tensor<8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.addf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
