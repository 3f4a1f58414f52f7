// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s
// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,func.func(canonicalize,cse)' > %t.fused
// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,split-contractions,join-contractions,func.func(canonicalize,cse)' | diff %t.fused -

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

/// Batch dimensions are loops like the others, also of the epilogue's operands.
// CHECK-LABEL: func.func @batch
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%arg0, %arg1, %arg2 : tensor<3x4x16xf32>, tensor<3x16x8xf32>, tensor<3x8xf32>)
// CHECK: linalg.index 3
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @batch(%x: tensor<3x4x16xf32>, %w: tensor<3x16x8xf32>, %b: tensor<3x8xf32>) -> tensor<3x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %m = linalg.batch_matmul ins(%x, %w : tensor<3x4x16xf32>, tensor<3x16x8xf32>) outs(%f : tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
  %r = linalg.generic {indexing_maps = [#id3, affine_map<(d0, d1, d2) -> (d0, d2)>, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %b : tensor<3x4x8xf32>, tensor<3x8xf32>) outs(%e : tensor<3x4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<3x4x8xf32>
  return %r : tensor<3x4x8xf32>
}

/// Two reduction loops: the last step is the last of both.
// CHECK-LABEL: func.func @two_reductions
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "reduction", "reduction"]
// CHECK: %[[I:.*]] = linalg.index 2
// CHECK: %[[A:.*]] = arith.cmpi eq, %[[I]], %c4
// CHECK: %[[J:.*]] = linalg.index 3
// CHECK: %[[B:.*]] = arith.cmpi eq, %[[J]], %c6
// CHECK: %[[LAST:.*]] = arith.andi %[[A]], %[[B]]
// CHECK: arith.select %[[LAST]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @two_reductions(%x: tensor<4x5x7xf32>, %w: tensor<5x7x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x5x7xf32>, tensor<5x7x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.tanh %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

/// A reduction of one step is no sum, and stays what it is (inferno-fuse drops such loops before); a loop of one step beside another is part of one.
// CHECK-LABEL: func.func @one_step
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel"]
// CHECK: return
// CHECK-LABEL: func.func @one_of_two
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "reduction", "reduction"]
// CHECK: %[[J:.*]] = linalg.index 3
// CHECK: %[[LAST:.*]] = arith.cmpi eq, %[[J]], %c6
// CHECK: arith.select %[[LAST]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @one_step(%x: tensor<4x1xf32>, %w: tensor<1x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x1xf32>, tensor<1x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
func.func @one_of_two(%x: tensor<4x1x7xf32>, %w: tensor<1x7x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x1x7xf32>, tensor<1x7x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.tanh %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

/// No rows: nothing is computed, but the reduction has a last step.
// CHECK-LABEL: func.func @no_rows
// CHECK: linalg.generic
// CHECK-SAME: outs(%{{.*}} : tensor<0x8xf32>)
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @no_rows(%x: tensor<0x16xf32>, %w: tensor<16x8xf32>) -> tensor<0x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<0x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<0x8xf32>) -> tensor<0x8xf32>
  %m = linalg.matmul ins(%x, %w : tensor<0x16xf32>, tensor<16x8xf32>) outs(%f : tensor<0x8xf32>) -> tensor<0x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<0x8xf32>) outs(%e : tensor<0x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<0x8xf32>
  return %r : tensor<0x8xf32>
}

/// One of two reduction loops that is empty leaves no last step; a scale before the sum stays apart too.
// CHECK-LABEL: func.func @no_steps
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK-NOT: arith.select
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: return
func.func @no_steps(%x: tensor<4x5x0xf32>, %w: tensor<5x0x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %ex = tensor.empty() : tensor<4x5x0xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x5x0xf32>) outs(%ex : tensor<4x5x0xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = arith.mulf %p, %half : f32
    linalg.yield %y : f32
  } -> tensor<4x5x0xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%h, %w : tensor<4x5x0xf32>, tensor<5x0x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

/// A number of rows that is not known: the last step is, but nothing dynamic is fused, split or joined.
// CHECK-LABEL: func.func @dynamic_rows
// CHECK: linalg.generic
// CHECK-NOT: arith.select
// CHECK: linalg.yield
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: return
func.func @dynamic_rows(%x: tensor<?x16xf32>, %w: tensor<16x8xf32>, %e: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = linalg.matmul ins(%x, %w : tensor<?x16xf32>, tensor<16x8xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}
