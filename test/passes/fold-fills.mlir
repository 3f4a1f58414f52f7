// RUN: inferno-opt %s -p 'fold-transposes,fold-fills,fold-transposes,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// The state at the beginning is zeros: all columns of its product are the same, and what is less that product reads them so.
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @state
// CHECK: %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[ROW]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<2x5x7xf32>) outs(%{{.*}} : tensor<2x5xf32>)
// CHECK: arith.mulf
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[ROW]], #[[ID]]], {{.*}} ins(%arg1, %[[SUM]] : tensor<2x5x3xf32>, tensor<2x5xf32>)
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @state(%k: tensor<2x5x7xf32>, %v: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x7x3xf32>
  %state = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x7x3xf32>) -> tensor<2x7x3xf32>
  %e1 = tensor.empty() : tensor<2x5x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %p = linalg.batch_matmul ins(%k, %state : tensor<2x5x7xf32>, tensor<2x7x3xf32>) outs(%start : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %r = linalg.sub ins(%v, %p : tensor<2x5x3xf32>, tensor<2x5x3xf32>) outs(%e1 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  return %r : tensor<2x5x3xf32>
}

// -----

// Half numbers are widened as they were.
// CHECK-LABEL: func.func @twos
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<2x7x3xbf16>) outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: arith.mulf
// CHECK: return
func.func @twos(%x: tensor<2x7x3xbf16>) -> tensor<2x5x3xf32> {
  %two = arith.constant 2.0 : bf16
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x5x7xbf16>
  %twos = linalg.fill ins(%two : bf16) outs(%e0 : tensor<2x5x7xbf16>) -> tensor<2x5x7xbf16>
  %e1 = tensor.empty() : tensor<2x5x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %p = linalg.batch_matmul ins(%twos, %x : tensor<2x5x7xbf16>, tensor<2x7x3xbf16>) outs(%start : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  return %p : tensor<2x5x3xf32>
}

// -----

// The first step of a recurrent network is like all others, which the same weight multiplies.
// CHECK-LABEL: func.func @one_weight
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: return
func.func @one_weight(%w: tensor<7x7xf32>) -> tensor<3x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<3x7xf32>
  %state = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x7xf32>) -> tensor<3x7xf32>
  %p = linalg.matmul ins(%state, %w : tensor<3x7xf32>, tensor<7x7xf32>) outs(%state : tensor<3x7xf32>) -> tensor<3x7xf32>
  %q = linalg.matmul ins(%p, %w : tensor<3x7xf32>, tensor<7x7xf32>) outs(%state : tensor<3x7xf32>) -> tensor<3x7xf32>
  return %q : tensor<3x7xf32>
}

// -----

// A gradient begins with ones, which a layer's weight multiplies, as it does what the layer is given.
// CHECK-LABEL: func.func @gradient
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<7x5xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg1, %arg0
// CHECK-NOT: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: return
func.func @gradient(%w: tensor<7x5xf32>, %x: tensor<3x7xf32>) -> (tensor<3x7xf32>, tensor<3x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<3x5xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e0 : tensor<3x5xf32>) -> tensor<3x5xf32>
  %e1 = tensor.empty() : tensor<3x7xf32>
  %s1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x7xf32>) -> tensor<3x7xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x5xf32>) -> tensor<3x5xf32>
  %g = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%ones, %w : tensor<3x5xf32>, tensor<7x5xf32>) outs(%s1 : tensor<3x7xf32>) -> tensor<3x7xf32>
  %y = linalg.matmul ins(%x, %w : tensor<3x7xf32>, tensor<7x5xf32>) outs(%s0 : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %g, %y : tensor<3x7xf32>, tensor<3x5xf32>
}

// -----

// Queries that begin as zeros have a weight of their own.
// CHECK-LABEL: func.func @queries
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<7x5xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK: return
func.func @queries(%w: tensor<7x5xf32>) -> tensor<3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<3x7xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x7xf32>) -> tensor<3x7xf32>
  %e1 = tensor.empty() : tensor<3x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x5xf32>) -> tensor<3x5xf32>
  %p = linalg.matmul ins(%zeros, %w : tensor<3x7xf32>, tensor<7x5xf32>) outs(%start : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}

// -----

// A token that is repeated is multiplied once.
#token = affine_map<(d0, d1, d2) -> (d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#o = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @token
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0, %arg1 : tensor<7xf32>, tensor<5x7xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]
// CHECK: return
func.func @token(%x: tensor<7xf32>, %w: tensor<5x7xf32>) -> tensor<3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  %p = linalg.generic {indexing_maps = [#token, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<7xf32>, tensor<5x7xf32>) outs(%start : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}

// -----

// What does not start from a number stays.
// CHECK-LABEL: func.func @added
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: return
func.func @added(%x: tensor<2x3x7xf32>, %s: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x7x5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x7x5xf32>) -> tensor<2x7x5xf32>
  %p = linalg.batch_matmul ins(%x, %zeros : tensor<2x3x7xf32>, tensor<2x7x5xf32>) outs(%s : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %p : tensor<2x3x5xf32>
}

// -----

// Zeros of sizes that vary are a map of nothing.
#points = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[EACH:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @cell
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<7x5xf32>) outs(%{{.*}} : tensor<5xf32>)
// CHECK: %[[WIDE:.*]] = linalg.generic {indexing_maps = [#[[EACH]], {{.*}} ins(%[[SUM]] : tensor<5xf32>) outs(%{{.*}} : tensor<?x5xf32>)
// CHECK: return %[[WIDE]]
func.func @cell(%w: tensor<7x5xf32>, %n: index {inferno.hint = 3 : i64, inferno.range = [0, 9], inferno.symbol = "n"}) -> tensor<?x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty(%n) : tensor<?x7xf32>
  %zeros = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%e0 : tensor<?x7xf32>) {
  ^bb0(%old: f32):
    linalg.yield %zero : f32
  } -> tensor<?x7xf32>
  %e1 = tensor.empty(%n) : tensor<?x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?x5xf32>) -> tensor<?x5xf32>
  %p = linalg.matmul ins(%zeros, %w : tensor<?x7xf32>, tensor<7x5xf32>) outs(%start : tensor<?x5xf32>) -> tensor<?x5xf32>
  return %p : tensor<?x5xf32>
}

// -----

// A state that begins with one learned row is multiplied once for all rows, by a weight that later steps multiply others by, too.
// CHECK-LABEL: func.func @learned_state
// CHECK: %[[ONCE:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0, %arg1 : tensor<7xf32>, tensor<7x7xf32>) outs(%{{.*}} : tensor<7xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[ONCE]], %arg1
// CHECK: return
func.func @learned_state(%row: tensor<7xf32>, %w: tensor<7x7xf32>) -> tensor<3x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<3x7xf32>
  %state = linalg.broadcast ins(%row : tensor<7xf32>) outs(%e0 : tensor<3x7xf32>) dimensions = [0]
  %start = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x7xf32>) -> tensor<3x7xf32>
  %p = linalg.matmul ins(%state, %w : tensor<3x7xf32>, tensor<7x7xf32>) outs(%start : tensor<3x7xf32>) -> tensor<3x7xf32>
  %q = linalg.matmul ins(%p, %w : tensor<3x7xf32>, tensor<7x7xf32>) outs(%start : tensor<3x7xf32>) -> tensor<3x7xf32>
  return %q : tensor<3x7xf32>
}
