// RUN: inferno-opt %s --pass-pipeline='compute-gathered{target=sm_90a}' --split-input-file | FileCheck %s

#points = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#gates = affine_map<(d0, d1, d2) -> (d0, d2)>
#rows = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#columns = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
#twice = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

/// Rows that are scaled by a gate, and of which each stands twice, are scaled where they are rolled.
// CHECK-LABEL: func.func @main
// CHECK: call @mulf_roll
// CHECK-NOT: call
// CHECK: func.func private @mulf_roll
// CHECK: arith.divui
// CHECK: %[[X:.*]] = tensor.extract %arg0
// CHECK: %[[GATE:.*]] = tensor.extract %arg1
// CHECK: arith.mulf %[[X]], %[[GATE]]
// CHECK-NOT: func.func
func.func @main(%x: tensor<8x64x256xf32>, %gate: tensor<8x256xf32>) -> tensor<8x128x256xf32> {
  %e = tensor.empty() : tensor<8x64x2x256xf32>
  %y = call @mulf(%x, %gate, %e) : (tensor<8x64x256xf32>, tensor<8x256xf32>, tensor<8x64x2x256xf32>) -> tensor<8x64x2x256xf32>
  %flat = tensor.collapse_shape %y [[0], [1, 2], [3]] : tensor<8x64x2x256xf32> into tensor<8x128x256xf32>
  %r = tensor.empty() : tensor<8x128x256xf32>
  %z = call @roll(%flat, %r) : (tensor<8x128x256xf32>, tensor<8x128x256xf32>) -> tensor<8x128x256xf32>
  return %z : tensor<8x128x256xf32>
}
func.func private @mulf(%x: tensor<8x64x256xf32>, %gate: tensor<8x256xf32>, %out: tensor<8x64x2x256xf32>) -> tensor<8x64x2x256xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #columns, #twice], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %gate : tensor<8x64x256xf32>, tensor<8x256xf32>) outs(%out : tensor<8x64x2x256xf32>) {
  ^bb0(%a: f32, %g: f32, %o: f32):
    %m = arith.mulf %a, %g : f32
    linalg.yield %m : f32
  } -> tensor<8x64x2x256xf32>
  return %0 : tensor<8x64x2x256xf32>
}
func.func private @roll(%x: tensor<8x128x256xf32>, %out: tensor<8x128x256xf32>) -> tensor<8x128x256xf32> {
  %c1 = arith.constant 1 : index
  %c127 = arith.constant 127 : index
  %0 = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel", "parallel"]} outs(%out : tensor<8x128x256xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %first = arith.cmpi ult, %j, %c1 : index
    %end = arith.addi %j, %c127 : index
    %before = arith.subi %j, %c1 : index
    %at = arith.select %first, %end, %before : index
    %e = tensor.extract %x[%i, %at, %k] : tensor<8x128x256xf32>
    linalg.yield %e : f32
  } -> tensor<8x128x256xf32>
  return %0 : tensor<8x128x256xf32>
}

// -----

#points = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#gates = affine_map<(d0, d1, d2) -> (d0, d2)>

/// What something else reads, too, is in memory.
// CHECK-LABEL: func.func @main
// CHECK: call @mulf
// CHECK: call @roll
func.func @main(%x: tensor<8x128x256xf32>, %gate: tensor<8x256xf32>) -> (tensor<8x128x256xf32>, tensor<8x128x256xf32>) {
  %e = tensor.empty() : tensor<8x128x256xf32>
  %y = call @mulf(%x, %gate, %e) : (tensor<8x128x256xf32>, tensor<8x256xf32>, tensor<8x128x256xf32>) -> tensor<8x128x256xf32>
  %r = tensor.empty() : tensor<8x128x256xf32>
  %z = call @roll(%y, %r) : (tensor<8x128x256xf32>, tensor<8x128x256xf32>) -> tensor<8x128x256xf32>
  return %y, %z : tensor<8x128x256xf32>, tensor<8x128x256xf32>
}
func.func private @mulf(%x: tensor<8x128x256xf32>, %gate: tensor<8x256xf32>, %out: tensor<8x128x256xf32>) -> tensor<8x128x256xf32> {
  %0 = linalg.generic {indexing_maps = [#points, #gates, #points], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %gate : tensor<8x128x256xf32>, tensor<8x256xf32>) outs(%out : tensor<8x128x256xf32>) {
  ^bb0(%a: f32, %g: f32, %o: f32):
    %m = arith.mulf %a, %g : f32
    linalg.yield %m : f32
  } -> tensor<8x128x256xf32>
  return %0 : tensor<8x128x256xf32>
}
func.func private @roll(%x: tensor<8x128x256xf32>, %out: tensor<8x128x256xf32>) -> tensor<8x128x256xf32> {
  %c1 = arith.constant 1 : index
  %c127 = arith.constant 127 : index
  %0 = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel", "parallel"]} outs(%out : tensor<8x128x256xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %first = arith.cmpi ult, %j, %c1 : index
    %end = arith.addi %j, %c127 : index
    %before = arith.subi %j, %c1 : index
    %at = arith.select %first, %end, %before : index
    %e = tensor.extract %x[%i, %at, %k] : tensor<8x128x256xf32>
    linalg.yield %e : f32
  } -> tensor<8x128x256xf32>
  return %0 : tensor<8x128x256xf32>
}
