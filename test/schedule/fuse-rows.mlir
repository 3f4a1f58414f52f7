// RUN: inferno-opt %s -p 'fuse-rows{target=cpu}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-rows{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=GPU

#rows = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// A sum along rows and what divides the rows by it are one kernel; the sum stays inside.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<80x100xf32>
// CHECK-NEXT: %[[R:.*]] = call @rows_sum_divide(%arg0, %[[E]]) {inferno.source = ["a", "b"]}
// CHECK-NEXT: return %[[R]] : tensor<80x100xf32>
// CHECK: func.func private @rows_sum_divide(%[[X:.*]]: tensor<80x100xf32>, %[[OUT:.*]]: tensor<80x100xf32>)
// CHECK-SAME: attributes {inferno.rows = 80 : i64}
// CHECK: %[[S:.*]] = tensor.empty() : tensor<80xf32>
// CHECK: linalg.fill {{.*}} outs(%[[S]]
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[SUM]] {{.*}} outs(%[[OUT]]
// GPU-COUNT-2: call @
func.func @main(%x: tensor<80x100xf32>) -> tensor<80x100xf32> {
  %e0 = tensor.empty() : tensor<80xf32>
  %0 = call @sum(%x, %e0) {inferno.source = ["a"]} : (tensor<80x100xf32>, tensor<80xf32>) -> tensor<80xf32>
  %e1 = tensor.empty() : tensor<80x100xf32>
  %1 = call @divide(%x, %0, %e1) {inferno.source = ["b"]} : (tensor<80x100xf32>, tensor<80xf32>, tensor<80x100xf32>) -> tensor<80x100xf32>
  return %1 : tensor<80x100xf32>
}
func.func private @sum(%x: tensor<80x100xf32>, %out: tensor<80xf32>) -> tensor<80xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<80xf32>) -> tensor<80xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<80x100xf32>) outs(%start : tensor<80xf32>) {
  ^bb0(%a: f32, %s: f32):
    %1 = arith.addf %a, %s : f32
    linalg.yield %1 : f32
  } -> tensor<80xf32>
  return %0 : tensor<80xf32>
}
func.func private @divide(%x: tensor<80x100xf32>, %s: tensor<80xf32>, %out: tensor<80x100xf32>) -> tensor<80x100xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<80x100xf32>, tensor<80xf32>) outs(%out : tensor<80x100xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.divf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<80x100xf32>
  return %0 : tensor<80x100xf32>
}

// -----

#rows = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// Column j of the second kernel is divided by the sum of row j: not row by row.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
// CHECK-NOT: inferno.rows
func.func @main(%x: tensor<80x80xf32>) -> tensor<80x80xf32> {
  %e0 = tensor.empty() : tensor<80xf32>
  %0 = call @sum(%x, %e0) : (tensor<80x80xf32>, tensor<80xf32>) -> tensor<80xf32>
  %e1 = tensor.empty() : tensor<80x80xf32>
  %1 = call @divide(%x, %0, %e1) : (tensor<80x80xf32>, tensor<80xf32>, tensor<80x80xf32>) -> tensor<80x80xf32>
  return %1 : tensor<80x80xf32>
}
func.func private @sum(%x: tensor<80x80xf32>, %out: tensor<80xf32>) -> tensor<80xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<80xf32>) -> tensor<80xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<80x80xf32>) outs(%start : tensor<80xf32>) {
  ^bb0(%a: f32, %s: f32):
    %1 = arith.addf %a, %s : f32
    linalg.yield %1 : f32
  } -> tensor<80xf32>
  return %0 : tensor<80xf32>
}
func.func private @divide(%x: tensor<80x80xf32>, %s: tensor<80xf32>, %out: tensor<80x80xf32>) -> tensor<80x80xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #column, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<80x80xf32>, tensor<80xf32>) outs(%out : tensor<80x80xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.divf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<80x80xf32>
  return %0 : tensor<80x80xf32>
}
