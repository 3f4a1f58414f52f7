// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a}' --split-input-file | FileCheck %s

#same = affine_map<(d0, d1) -> (d0, d1)>

// Many rows of 8: a thread sorts a whole row.
// CHECK-LABEL: func.func private @sort
// CHECK-SAME: inferno.schedule = {beside = false, generator = "short_sorts", rows = 1 : i64, threads = 128 : i64}
func.func private @sort(%x: tensor<65536x8xf32>, %v: tensor<65536x8xf32>) -> tensor<65536x8xf32> {
  %e = tensor.empty() : tensor<65536x8xi64>
  %p = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<65536x8xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<65536x8xi64>
  %0 = linalg.copy ins(%x : tensor<65536x8xf32>) outs(%v : tensor<65536x8xf32>) -> tensor<65536x8xf32>
  %2:2 = tm_tensor.sort dimension(1) outs(%0, %p : tensor<65536x8xf32>, tensor<65536x8xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %3 = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %3 : i1
  } -> tensor<65536x8xf32>, tensor<65536x8xi64>
  return %2#0 : tensor<65536x8xf32>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// Columns that are sorted: a thread has neighbouring ones.
// CHECK-LABEL: func.func private @columns
// CHECK-SAME: inferno.schedule = {beside = true, generator = "short_sorts", rows = 2 : i64, threads = 256 : i64}
func.func private @columns(%x: tensor<4x524288xbf16>, %v: tensor<4x524288xi64>) -> tensor<4x524288xi64> {
  %e = tensor.empty() : tensor<4x524288xbf16>
  %p = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%v : tensor<4x524288xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<4x524288xi64>
  %0 = linalg.copy ins(%x : tensor<4x524288xbf16>) outs(%e : tensor<4x524288xbf16>) -> tensor<4x524288xbf16>
  %2:2 = tm_tensor.sort dimension(0) outs(%0, %p : tensor<4x524288xbf16>, tensor<4x524288xi64>) {
  ^bb0(%a: bf16, %b: bf16, %c: i64, %d: i64):
    %3 = arith.cmpf oge, %a, %b : bf16
    tm_tensor.yield %3 : i1
  } -> tensor<4x524288xbf16>, tensor<4x524288xi64>
  return %2#1 : tensor<4x524288xi64>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// Few rows of 32 are for several threads each.
// CHECK-LABEL: func.func private @few
// CHECK-SAME: generator = "sorts"
func.func private @few(%x: tensor<32x32xf32>, %v: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %e = tensor.empty() : tensor<32x32xi64>
  %p = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<32x32xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<32x32xi64>
  %0 = linalg.copy ins(%x : tensor<32x32xf32>) outs(%v : tensor<32x32xf32>) -> tensor<32x32xf32>
  %2:2 = tm_tensor.sort dimension(1) outs(%0, %p : tensor<32x32xf32>, tensor<32x32xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %3 = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %3 : i1
  } -> tensor<32x32xf32>, tensor<32x32xi64>
  return %2#0 : tensor<32x32xf32>
}
