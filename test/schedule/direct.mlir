// Products of tall matrices with few columns, and of many rows with few columns of float32, go from memory to the tensor core's registers; those of few rows
// and of square matrices are others'.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_80}' | FileCheck %s --check-prefix=OTHERS
// OTHERS-NOT: generator = "direct"

#kn = affine_map<(d0, d1, d2) -> (d2, d1)>
#km = affine_map<(d0, d1, d2) -> (d2, d0)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

// CHECK: func.func private @tall({{.*}}generator = "direct", parts = 132
func.func private @tall(%x: tensor<262144x16xbf16>, %y: tensor<262144x32xbf16>, %out: tensor<16x32xbf16>) -> tensor<16x32xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x32xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %0 = linalg.generic {indexing_maps = [#km, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<262144x16xbf16>, tensor<262144x32xbf16>) outs(%start : tensor<16x32xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<16x32xf32>
  %5 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<16x32xf32>) outs(%out : tensor<16x32xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %6 = arith.truncf %a : f32 to bf16
    linalg.yield %6 : bf16
  } -> tensor<16x32xbf16>
  return %5 : tensor<16x32xbf16>
}

// -----

#nk = affine_map<(d0, d1, d2) -> (d1, d2)>
#mk = affine_map<(d0, d1, d2) -> (d0, d2)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>

// CHECK: func.func private @layer({{.*}}generator = "direct", parts = 1 {{.*}}tiles = 4
// CHECK: func.func private @few_rows({{.*}}generator = "vectors"
func.func private @layer(%x: tensor<262144x64xf32>, %w: tensor<3x64xf32>, %out: tensor<262144x3xf32>) -> tensor<262144x3xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<262144x3xf32>) -> tensor<262144x3xf32>
  %0 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<262144x64xf32>, tensor<3x64xf32>) outs(%start : tensor<262144x3xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<262144x3xf32>
  return %0 : tensor<262144x3xf32>
}
func.func private @few_rows(%x: tensor<4x4096xf32>, %w: tensor<4096x4096xf32>, %out: tensor<4x4096xf32>) -> tensor<4x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x4096xf32>) -> tensor<4x4096xf32>
  %0 = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4096xf32>, tensor<4096x4096xf32>) outs(%start : tensor<4x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x4096xf32>
  return %0 : tensor<4x4096xf32>
}
