// RUN: inferno-opt %s --pass-pipeline='inferno-fuse,join-steps{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s --pass-pipeline='inferno-fuse,join-steps{target=cpu}' --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(d0, d1) -> (d0, d1)>

/// Four steps, each of the ones before, and what they come to one below the other: one kernel, which computes into the parts.  The last one is a result besides.
// CHECK-LABEL: func.func @main
// CHECK: call @pieces_1(%arg0, %arg1,
// CHECK-NOT: call
// CHECK-LABEL: func.func private @pieces_1
// CHECK-SAME: %[[LAST:arg2]]: tensor<64x512xf32>, %[[WHOLE:arg3]]: tensor<256x512xf32>)
// CHECK: %[[A:.*]] = tensor.extract_slice %[[WHOLE]][0, 0] [64, 512] [1, 1]
// CHECK: %[[D:.*]] = tensor.extract_slice %[[WHOLE]][192, 0] [64, 512] [1, 1]
// CHECK: %[[MADE:.*]]:5 = linalg.generic {{.*}} ins(%arg0, %arg1 : {{.*}}) outs(%[[LAST]], %[[A]], {{.*}}, %[[D]] :
// CHECK: %[[EXP:.*]] = math.exp
// CHECK: %[[SIN:.*]] = math.sin
// CHECK: %[[COS:.*]] = math.cos
// CHECK: %[[TANH:.*]] = math.tanh
// CHECK: linalg.yield %[[TANH]], %[[EXP]], %[[SIN]], %[[COS]], %[[TANH]]
// CHECK: tensor.insert_slice %[[MADE]]#1 into %[[WHOLE]][0, 0] [64, 512] [1, 1]
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[MADE]]#4 into {{.*}}[192, 0] [64, 512] [1, 1]
// CHECK: return %[[MADE]]#0, %[[ALL]]
// CPU-COUNT-3: call @
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<64x512xf32>, %y: tensor<64x512xf32>) -> (tensor<256x512xf32>, tensor<64x512xf32>) {
  %e = tensor.empty() : tensor<64x512xf32>
  %a = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.mulf %p0, %p1 : f32
    %w = math.exp %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %b = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%a, %x : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.addf %p0, %p1 : f32
    %w = math.sin %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %c = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%b, %a : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.mulf %p0, %p1 : f32
    %w = math.cos %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%c, %b : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.subf %p0, %p1 : f32
    %w = math.tanh %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %s = tensor.concat dim(0) %a, %b, %c, %d : (tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<256x512xf32>
  return %s, %d : tensor<256x512xf32>, tensor<64x512xf32>
}
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>

/// The stack is read element by element, and nobody else needs it: each of its pieces is read where it is made.
// CHECK-LABEL: func.func @main
// CHECK: call @pieces_1(%arg0, %arg1,
// CHECK-NOT: call
// CHECK-LABEL: func.func private @pieces_1
// CHECK: %[[EXP:.*]] = math.exp
// CHECK: %[[TANH:.*]] = math.tanh
// CHECK: %[[LOG:.*]] = math.log %[[EXP]]
// CHECK: linalg.yield %[[TANH]], {{.*}}%[[LOG]]
// CPU: call @
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<64x512xf32>, %y: tensor<64x512xf32>) -> (tensor<256x512xf32>, tensor<256x512xf32>, tensor<64x512xf32>) {
  %e = tensor.empty() : tensor<64x512xf32>
  %a = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.mulf %p0, %p1 : f32
    %w = math.exp %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %b = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%a, %x : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.addf %p0, %p1 : f32
    %w = math.sin %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %c = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%b, %a : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.mulf %p0, %p1 : f32
    %w = math.cos %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%c, %b : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.subf %p0, %p1 : f32
    %w = math.tanh %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %s = tensor.concat dim(0) %a, %b, %c, %d : (tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<256x512xf32>
  %f = tensor.empty() : tensor<256x512xf32>
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<256x512xf32>) outs(%f : tensor<256x512xf32>) {
  ^bb0(%p0: f32, %o: f32):
    %w = math.log %p0 : f32
    linalg.yield %w : f32
  } -> tensor<256x512xf32>
  return %s, %r, %d : tensor<256x512xf32>, tensor<256x512xf32>, tensor<64x512xf32>
}
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>

/// One of four pieces is made of a step: the others are computed side by side with it as they are.
// CHECK-LABEL: func.func @main
// CHECK: call @mulf_exp
// CHECK: call @pieces(
// CPU: call @
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<64x512xf32>, %y: tensor<64x512xf32>) -> (tensor<256x512xf32>, tensor<64x512xf32>) {
  %e = tensor.empty() : tensor<64x512xf32>
  %a = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x512xf32>, tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%p0: f32, %p1: f32, %o: f32):
    %m = arith.mulf %p0, %p1 : f32
    %w = math.exp %m : f32
    linalg.yield %w : f32
  } -> tensor<64x512xf32>
  %s = tensor.concat dim(0) %a, %x, %y, %x : (tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<256x512xf32>
  return %s, %a : tensor<256x512xf32>, tensor<64x512xf32>
}
}
