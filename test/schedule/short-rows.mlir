// Rows that are so short that a thread has a few whole ones, which come and go by way of shared memory.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s

/// Running sums of rows of three.
// CHECK: func.func private @running({{.*}}generator = "columns", held = true, {{.*}}run = 3 : i64, {{.*}}vector = 4 : i64, whole = true
func.func @main(%x: tensor<1048576x3xf32>) -> tensor<1048576x3xf32> {
  %e = tensor.empty() : tensor<1048576x3xf32>
  %0 = call @running(%x, %e) : (tensor<1048576x3xf32>, tensor<1048576x3xf32>) -> tensor<1048576x3xf32>
  return %0 : tensor<1048576x3xf32>
}
func.func private @running(%x: tensor<1048576x3xf32>, %out: tensor<1048576x3xf32>) -> tensor<1048576x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1048576xf32>
  %last = linalg.fill ins(%zero : f32) outs(%e : tensor<1048576xf32>) -> tensor<1048576xf32>
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<1048576x3xf32>) -> tensor<1048576x3xf32>
  %1:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<1048576x3xf32>) outs(%0, %last : tensor<1048576x3xf32>, tensor<1048576xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<1048576x3xf32>, tensor<1048576xf32>
  return %1#0 : tensor<1048576x3xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

/// Where the larger of two is: a thread writes two places, 16 bytes.
// CHECK: func.func private @argmax({{.*}}generator = "columns", held = true, {{.*}}run = 2 : i64, {{.*}}vector = 2 : i64, whole = true
func.func @main(%x: tensor<1048576x2xf32>) -> tensor<1048576xi64> {
  %e = tensor.empty() : tensor<1048576xi64>
  %0 = call @argmax(%x, %e) : (tensor<1048576x2xf32>, tensor<1048576xi64>) -> tensor<1048576xi64>
  return %0 : tensor<1048576xi64>
}
func.func private @argmax(%x: tensor<1048576x2xf32>, %out: tensor<1048576xi64>) -> tensor<1048576xi64> {
  %least = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : i64
  %e = tensor.empty() : tensor<1048576xf32>
  %0 = linalg.fill ins(%least : f32) outs(%e : tensor<1048576xf32>) -> tensor<1048576xf32>
  %1 = linalg.fill ins(%first : i64) outs(%out : tensor<1048576xi64>) -> tensor<1048576xi64>
  %2:2 = linalg.generic {indexing_maps = [#points, #rows, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1048576x2xf32>) outs(%0, %1 : tensor<1048576xf32>, tensor<1048576xi64>) {
  ^bb0(%a: f32, %best: f32, %at: i64):
    %i = linalg.index 1 : index
    %place = arith.index_cast %i : index to i64
    %larger = arith.maximumf %a, %best : f32
    %is = arith.cmpf ogt, %a, %best : f32
    %where = arith.select %is, %place, %at : i64
    linalg.yield %larger, %where : f32, i64
  } -> (tensor<1048576xf32>, tensor<1048576xi64>)
  return %2#1 : tensor<1048576xi64>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

/// Sums: of three numbers a thread reads its rows as they lie, of 17 not, of 64 several threads have a row.
// CHECK: func.func private @three({{.*}}generator = "columns", held = true, {{.*}}whole = false
// CHECK: func.func private @seventeen({{.*}}generator = "columns", held = true, {{.*}}run = 17 : i64, {{.*}}whole = true
// CHECK: func.func private @many({{.*}}generator = "reductions"
func.func @main(%x: tensor<1048576x3xf32>, %y: tensor<1048576x17xf32>, %z: tensor<1048576x64xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>) {
  %e = tensor.empty() : tensor<1048576xf32>
  %0 = call @three(%x, %e) : (tensor<1048576x3xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
  %1 = call @seventeen(%y, %e) : (tensor<1048576x17xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
  %2 = call @many(%z, %e) : (tensor<1048576x64xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
  return %0, %1, %2 : tensor<1048576xf32>, tensor<1048576xf32>, tensor<1048576xf32>
}
func.func private @three(%x: tensor<1048576x3xf32>, %out: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<1048576xf32>) -> tensor<1048576xf32>
  %1 = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1048576x3xf32>) outs(%0 : tensor<1048576xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<1048576xf32>
  return %1 : tensor<1048576xf32>
}
func.func private @seventeen(%x: tensor<1048576x17xf32>, %out: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<1048576xf32>) -> tensor<1048576xf32>
  %1 = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1048576x17xf32>) outs(%0 : tensor<1048576xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<1048576xf32>
  return %1 : tensor<1048576xf32>
}
func.func private @many(%x: tensor<1048576x64xf32>, %out: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<1048576xf32>) -> tensor<1048576xf32>
  %1 = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1048576x64xf32>) outs(%0 : tensor<1048576xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<1048576xf32>
  return %1 : tensor<1048576xf32>
}
