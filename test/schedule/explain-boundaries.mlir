// RUN: inferno-opt -p 'inferno-fuse,inferno-schedule{target=sm_90a}' %s --split-input-file | FileCheck %s

// A softmax whose rows a block holds is one kernel, and the product in front of it another: a row of a product is several tiles.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul
// CHECK: call @rows
// CHECK-SAME: inferno.apart = ["@matmul, 8388608 bytes: a row of it is in several tiles"]
func.func @main(%x: tensor<2048x512xf32>, %w: tensor<512x1024xf32>) -> tensor<2048x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2048x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  %p = linalg.matmul ins(%x, %w : tensor<2048x512xf32>, tensor<512x1024xf32>) outs(%f : tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  %r = tensor.empty() : tensor<2048xf32>
  %g = linalg.fill ins(%low : f32) outs(%r : tensor<2048xf32>) -> tensor<2048xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<2048x1024xf32>) outs(%g : tensor<2048xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = arith.maximumf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2048xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %m : tensor<2048x1024xf32>, tensor<2048xf32>) outs(%e : tensor<2048x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2048x1024xf32>
  return %y : tensor<2048x1024xf32>
}

// -----

// Two readers of something dear: it is computed once.
// CHECK-LABEL: func.func @main
// CHECK: call @exp
// CHECK: call @mulf
// CHECK-SAME: inferno.apart = ["@exp, 4096 bytes: 2 readers, and computing it in each of them costs more than reading it"]
func.func @main(%x: tensor<1024xf32>, %y: tensor<1024x64xf32>) -> (tensor<1024xf32>, tensor<1024x64xf32>) {
  %e = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%e : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<1024xf32>
  %f = tensor.empty() : tensor<1024x64xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%z, %y : tensor<1024xf32>, tensor<1024x64xf32>) outs(%f : tensor<1024x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<1024x64xf32>
  return %z, %w : tensor<1024xf32>, tensor<1024x64xf32>
}

// -----

// One long row: its threads would be few, which two estimates say.
// CHECK-LABEL: func.func @main
// CHECK: call @reduce_addf
// CHECK: call @divf
// CHECK-SAME: inferno.apart = ["@reduce_addf, 4 bytes: as one kernel of 2 {{[0-9.]+}} us are estimated, apart {{[0-9.]+}}"]
func.func @main(%x: tensor<1x1048576xf32>) -> tensor<1x1048576xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1048576xf32>
  %r = tensor.empty() : tensor<1xf32>
  %g = linalg.fill ins(%zero : f32) outs(%r : tensor<1xf32>) -> tensor<1xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<1x1048576xf32>) outs(%g : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<1xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<1x1048576xf32>, tensor<1xf32>) outs(%e : tensor<1x1048576xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<1x1048576xf32>
  return %y : tensor<1x1048576xf32>
}

// -----

// A kernel of rows that are summed and scanned, of which another one takes the columns' sums.
// CHECK-LABEL: func.func @main
// CHECK: call @rows_reduce_addf_divf_tm_scan
// CHECK: call @reduce_addf
// CHECK-SAME: inferno.apart = ["@rows_reduce_addf_divf_tm_scan, 16777216 bytes: no rows that a block could keep are those of both"]
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1024x4096xf32>
  %r = tensor.empty() : tensor<1024xf32>
  %c = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%r : tensor<1024xf32>) -> tensor<1024xf32>
  %g = linalg.fill ins(%zero : f32) outs(%c : tensor<4096xf32>) -> tensor<4096xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<1024x4096xf32>) outs(%f : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<1024xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<1024x4096xf32>, tensor<1024xf32>) outs(%e : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<1024x4096xf32>
  %s:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%y : tensor<1024x4096xf32>) outs(%e, %r : tensor<1024x4096xf32>, tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = arith.addf %a, %b : f32
    tm_tensor.yield %v : f32
  } -> tensor<1024x4096xf32>, tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>], iterator_types = ["parallel", "reduction"]}
      ins(%s#0 : tensor<1024x4096xf32>) outs(%g : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4096xf32>
  return %z : tensor<4096xf32>
}
