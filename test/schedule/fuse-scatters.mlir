// RUN: inferno-opt %s -p 'fuse-scatters{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-scatters{target=cpu}' --split-input-file | FileCheck %s --check-prefix=CPU

#flat = affine_map<(d0) -> (d0)>
#same = affine_map<(d0, d1) -> (d0, d1)>

// Places in their rows, or behind all: they are computed in the scatter's kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @scatter_1(%arg0, %arg1, %{{.*}}) {inferno.source = ["p", "s"]}
// CHECK-NEXT: tensor.expand_shape %[[R]]
// CHECK: func.func private @scatter_1(%[[I:.*]]: tensor<400x64xi64>, %[[Y:.*]]: tensor<400x64xf32>, %[[OUT:.*]]: tensor<12000xf32>)
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[I]]
// CHECK: tm_tensor.scatter
// CHECK-NOT: func.func
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call @
func.func @main(%i: tensor<400x64xi64>, %y: tensor<400x64xf32>) -> tensor<400x30xf32> {
  %e0 = tensor.empty() : tensor<400x64xi64>
  %p = call @places(%i, %e0) {inferno.source = ["p"]} : (tensor<400x64xi64>, tensor<400x64xi64>) -> tensor<400x64xi64>
  %p0 = tensor.collapse_shape %p [[0, 1]] : tensor<400x64xi64> into tensor<25600xi64>
  %p1 = tensor.expand_shape %p0 [[0, 1]] output_shape [25600, 1] : tensor<25600xi64> into tensor<25600x1xi64>
  %y0 = tensor.collapse_shape %y [[0, 1]] : tensor<400x64xf32> into tensor<25600xf32>
  %y1 = tensor.expand_shape %y0 [[0, 1]] output_shape [25600, 1] : tensor<25600xf32> into tensor<25600x1xf32>
  %e1 = tensor.empty() : tensor<12000xf32>
  %s = call @scatter(%y1, %p1, %e1) {inferno.source = ["s"]} : (tensor<25600x1xf32>, tensor<25600x1xi64>, tensor<12000xf32>) -> tensor<12000xf32>
  %r = tensor.expand_shape %s [[0, 1]] output_shape [400, 30] : tensor<12000xf32> into tensor<400x30xf32>
  return %r : tensor<400x30xf32>
}
func.func private @places(%i: tensor<400x64xi64>, %out: tensor<400x64xi64>) -> tensor<400x64xi64> {
  %c0 = arith.constant 0 : i64
  %c30 = arith.constant 30 : i64
  %c12000 = arith.constant 12000 : i64
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<400x64xi64>) outs(%out : tensor<400x64xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.muli %2, %c30 : i64
    %4 = arith.addi %x, %3 : i64
    %5 = arith.cmpi sge, %x, %c0 : i64
    %6 = arith.cmpi slt, %x, %c30 : i64
    %7 = arith.andi %5, %6 : i1
    %8 = arith.select %7, %4, %c12000 : i64
    linalg.yield %8 : i64
  } -> tensor<400x64xi64>
  return %0 : tensor<400x64xi64>
}
func.func private @scatter(%y: tensor<25600x1xf32>, %p: tensor<25600x1xi64>, %out: tensor<12000xf32>) -> tensor<12000xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<12000xf32>) -> tensor<12000xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<25600x1xf32>, tensor<25600x1xi64>) outs(%0 : tensor<12000xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<12000xf32>
  return %1 : tensor<12000xf32>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// Without the comparisons an element may go to any row.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
func.func @main(%i: tensor<400x64xi64>, %y: tensor<25600x1xf32>) -> tensor<12000xf32> {
  %e0 = tensor.empty() : tensor<400x64xi64>
  %p = call @places(%i, %e0) : (tensor<400x64xi64>, tensor<400x64xi64>) -> tensor<400x64xi64>
  %p0 = tensor.collapse_shape %p [[0, 1]] : tensor<400x64xi64> into tensor<25600xi64>
  %p1 = tensor.expand_shape %p0 [[0, 1]] output_shape [25600, 1] : tensor<25600xi64> into tensor<25600x1xi64>
  %e1 = tensor.empty() : tensor<12000xf32>
  %s = call @scatter(%y, %p1, %e1) : (tensor<25600x1xf32>, tensor<25600x1xi64>, tensor<12000xf32>) -> tensor<12000xf32>
  return %s : tensor<12000xf32>
}
func.func private @places(%i: tensor<400x64xi64>, %out: tensor<400x64xi64>) -> tensor<400x64xi64> {
  %c30 = arith.constant 30 : i64
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<400x64xi64>) outs(%out : tensor<400x64xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.muli %2, %c30 : i64
    %4 = arith.addi %x, %3 : i64
    linalg.yield %4 : i64
  } -> tensor<400x64xi64>
  return %0 : tensor<400x64xi64>
}
func.func private @scatter(%y: tensor<25600x1xf32>, %p: tensor<25600x1xi64>, %out: tensor<12000xf32>) -> tensor<12000xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<12000xf32>) -> tensor<12000xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<25600x1xf32>, tensor<25600x1xi64>) outs(%0 : tensor<12000xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<12000xf32>
  return %1 : tensor<12000xf32>
}

// -----

#line = affine_map<(d0) -> (d0)>
#rows = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>

// Rows of a table that numbers say, added to others: nothing of them is written.  Of a table that is computed for it alone, too.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = call @twice(
// CHECK: call @add_1(%[[T]], %arg1, %arg2, %{{.*}}) {inferno.source = ["g", "s"]}
// CHECK: func.func private @add_1(
// CHECK: tensor.extract
// CHECK: tm_tensor.scatter
module attributes {inferno.unmeasured} {
  func.func @main(%x: tensor<2000x32xf32>, %from: tensor<9000xi64>, %to: tensor<9000xi64>) -> tensor<2000x32xf32> {
    %t0 = tensor.empty() : tensor<2000x32xf32>
    %t = call @twice(%x, %t0) {inferno.source = ["t"]} : (tensor<2000x32xf32>, tensor<2000x32xf32>) -> tensor<2000x32xf32>
    %g0 = tensor.empty() : tensor<9000x32xf32>
    %g = call @gather(%t, %from, %g0) {inferno.source = ["g"]} : (tensor<2000x32xf32>, tensor<9000xi64>, tensor<9000x32xf32>) -> tensor<9000x32xf32>
    %g1 = tensor.expand_shape %g [[0], [1, 2]] output_shape [9000, 1, 32] : tensor<9000x32xf32> into tensor<9000x1x32xf32>
    %to1 = tensor.expand_shape %to [[0, 1]] output_shape [9000, 1] : tensor<9000xi64> into tensor<9000x1xi64>
    %s0 = tensor.empty() : tensor<2000x32xf32>
    %s = call @add(%g1, %to1, %s0) {inferno.source = ["s"]} : (tensor<9000x1x32xf32>, tensor<9000x1xi64>, tensor<2000x32xf32>) -> tensor<2000x32xf32>
    return %s : tensor<2000x32xf32>
  }
  func.func private @twice(%x: tensor<2000x32xf32>, %out: tensor<2000x32xf32>) -> tensor<2000x32xf32> {
    %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2000x32xf32>) outs(%out : tensor<2000x32xf32>) {
    ^bb0(%a: f32, %o: f32):
      %1 = arith.addf %a, %a : f32
      linalg.yield %1 : f32
    } -> tensor<2000x32xf32>
    return %0 : tensor<2000x32xf32>
  }
  func.func private @gather(%x: tensor<2000x32xf32>, %i: tensor<9000xi64>, %out: tensor<9000x32xf32>) -> tensor<9000x32xf32> {
    %0 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<9000xi64>) outs(%out : tensor<9000x32xf32>) {
    ^bb0(%n: i64, %o: f32):
      %1 = arith.index_cast %n : i64 to index
      %2 = linalg.index 1 : index
      %3 = tensor.extract %x[%1, %2] : tensor<2000x32xf32>
      linalg.yield %3 : f32
    } -> tensor<9000x32xf32>
    return %0 : tensor<9000x32xf32>
  }
  func.func private @add(%y: tensor<9000x1x32xf32>, %i: tensor<9000x1xi64>, %out: tensor<2000x32xf32>) -> tensor<2000x32xf32> {
    %zero = arith.constant 0.0 : f32
    %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<2000x32xf32>) -> tensor<2000x32xf32>
    %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %i : tensor<9000x1x32xf32>, tensor<9000x1xi64>) outs(%0 : tensor<2000x32xf32>) {
    ^bb0(%a: f32, %b: f32):
      %2 = arith.addf %b, %a : f32
      tm_tensor.yield %2 : f32
    } -> tensor<2000x32xf32>
    return %1 : tensor<2000x32xf32>
  }
}

// -----

#line = affine_map<(d0) -> (d0)>
#rows = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>

// Rows that two kernels add, one of them squared: each looks them up, and nothing is written.
// CHECK-LABEL: func.func @main
// CHECK-NOT: 9000x32
// CHECK: call @add_1(%arg0, %arg1, %arg2, %{{.*}}) {inferno.source = ["g", "s"]}
// CHECK-NOT: 9000x32
// CHECK: call @add_2(%arg0, %arg1, %arg2, %{{.*}}) {inferno.source = ["g", "q", "u"]}
// CHECK: return
// CHECK: func.func private @add_1(
// CHECK: tensor.extract
// CHECK: tm_tensor.scatter
// CHECK: func.func private @add_2(
// CHECK: tensor.extract
// CHECK: arith.mulf
// CHECK: tm_tensor.scatter
module attributes {inferno.unmeasured} {
  func.func @main(%x: tensor<2000x32xf32>, %from: tensor<9000xi64>, %to: tensor<9000xi64>) -> (tensor<2000x32xf32>, tensor<2000x32xf32>) {
    %g0 = tensor.empty() : tensor<9000x32xf32>
    %g = call @gather(%x, %from, %g0) {inferno.source = ["g"]} : (tensor<2000x32xf32>, tensor<9000xi64>, tensor<9000x32xf32>) -> tensor<9000x32xf32>
    %g1 = tensor.expand_shape %g [[0], [1, 2]] output_shape [9000, 1, 32] : tensor<9000x32xf32> into tensor<9000x1x32xf32>
    %to1 = tensor.expand_shape %to [[0, 1]] output_shape [9000, 1] : tensor<9000xi64> into tensor<9000x1xi64>
    %s0 = tensor.empty() : tensor<2000x32xf32>
    %s = call @add(%g1, %to1, %s0) {inferno.source = ["s"]} : (tensor<9000x1x32xf32>, tensor<9000x1xi64>, tensor<2000x32xf32>) -> tensor<2000x32xf32>
    %q0 = tensor.empty() : tensor<9000x32xf32>
    %q = call @square(%g, %q0) {inferno.source = ["q"]} : (tensor<9000x32xf32>, tensor<9000x32xf32>) -> tensor<9000x32xf32>
    %q1 = tensor.expand_shape %q [[0], [1, 2]] output_shape [9000, 1, 32] : tensor<9000x32xf32> into tensor<9000x1x32xf32>
    %u0 = tensor.empty() : tensor<2000x32xf32>
    %u = call @add(%q1, %to1, %u0) {inferno.source = ["u"]} : (tensor<9000x1x32xf32>, tensor<9000x1xi64>, tensor<2000x32xf32>) -> tensor<2000x32xf32>
    return %s, %u : tensor<2000x32xf32>, tensor<2000x32xf32>
  }
  func.func private @square(%x: tensor<9000x32xf32>, %out: tensor<9000x32xf32>) -> tensor<9000x32xf32> {
    %0 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<9000x32xf32>) outs(%out : tensor<9000x32xf32>) {
    ^bb0(%a: f32, %o: f32):
      %1 = arith.mulf %a, %a : f32
      linalg.yield %1 : f32
    } -> tensor<9000x32xf32>
    return %0 : tensor<9000x32xf32>
  }
  func.func private @gather(%x: tensor<2000x32xf32>, %i: tensor<9000xi64>, %out: tensor<9000x32xf32>) -> tensor<9000x32xf32> {
    %0 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<9000xi64>) outs(%out : tensor<9000x32xf32>) {
    ^bb0(%n: i64, %o: f32):
      %1 = arith.index_cast %n : i64 to index
      %2 = linalg.index 1 : index
      %3 = tensor.extract %x[%1, %2] : tensor<2000x32xf32>
      linalg.yield %3 : f32
    } -> tensor<9000x32xf32>
    return %0 : tensor<9000x32xf32>
  }
  func.func private @add(%y: tensor<9000x1x32xf32>, %i: tensor<9000x1xi64>, %out: tensor<2000x32xf32>) -> tensor<2000x32xf32> {
    %zero = arith.constant 0.0 : f32
    %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<2000x32xf32>) -> tensor<2000x32xf32>
    %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %i : tensor<9000x1x32xf32>, tensor<9000x1xi64>) outs(%0 : tensor<2000x32xf32>) {
    ^bb0(%a: f32, %b: f32):
      %2 = arith.addf %b, %a : f32
      tm_tensor.yield %2 : f32
    } -> tensor<2000x32xf32>
    return %1 : tensor<2000x32xf32>
  }
}
