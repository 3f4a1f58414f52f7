// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a},merge-siblings{target=sm_90a}' | FileCheck %s

// The number of rows varies: the one call takes it, and has schedules for ranges of it, each for both.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @matmul_siblings(%arg3, %arg0, %arg1, %arg2,
// CHECK: return %[[R]]#0, %[[R]]#1
// CHECK: func.func private @matmul_siblings(%{{.*}}: index {{{.*}}inferno.symbol = "n0"}, %{{.*}}: tensor<?x1024xbf16> {inferno.sizes = {{.*}}(s0, 1024)>}
// CHECK-SAME: inferno.schedule = {generator = "by_size", large =
// CHECK-SAME: each = {{{.*}}generator = "wgmma"{{.*}}}, generator = "siblings"
// CHECK-NOT: func.func private
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
module attributes {inferno.siblings} {
func.func @main(%arg0: tensor<?x1024xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 1024)>}, %arg1: tensor<1024x1024xbf16>, %arg2: tensor<256x1024xbf16>, %arg3: index {inferno.divisor = 1 : i64, inferno.hint = 16 : i64, inferno.range = [1, 8192], inferno.symbol = "s0"}) -> (tensor<?x1024xbf16>, tensor<?x256xbf16>) {
  %0 = tensor.empty(%arg3) : tensor<?x1024xbf16>
  %1 = call @matmul(%arg3, %arg0, %arg1, %0) {inferno.source = ["linear"]} : (index, tensor<?x1024xbf16>, tensor<1024x1024xbf16>, tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
  %2 = tensor.empty(%arg3) : tensor<?x256xbf16>
  %3 = call @matmul_1(%arg3, %arg0, %arg2, %2) {inferno.source = ["linear"]} : (index, tensor<?x1024xbf16>, tensor<256x1024xbf16>, tensor<?x256xbf16>) -> tensor<?x256xbf16>
  return %1, %3 : tensor<?x1024xbf16>, tensor<?x256xbf16>
}
func.func private @matmul(%arg0: index {inferno.divisor = 1 : i64, inferno.hint = 16 : i64, inferno.range = [1, 8192], inferno.symbol = "n0"}, %arg1: tensor<?x1024xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 1024)>}, %arg2: tensor<1024x1024xbf16>, %arg3: tensor<?x1024xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 1024)>}) -> tensor<?x1024xbf16> {
  %c1023 = arith.constant 1023 : index
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty(%arg0) : tensor<?x1024xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<?x1024xf32>) -> tensor<?x1024xf32>
  %2:2 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg1, %arg2 : tensor<?x1024xbf16>, tensor<1024x1024xbf16>) outs(%1, %arg3 : tensor<?x1024xf32>, tensor<?x1024xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32, %out_1: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_0 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 2 : index
    %8 = arith.cmpi eq, %7, %c1023 : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %out_1 : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<?x1024xf32>, tensor<?x1024xbf16>)
  return %2#1 : tensor<?x1024xbf16>
}
func.func private @matmul_1(%arg0: index {inferno.divisor = 1 : i64, inferno.hint = 16 : i64, inferno.range = [1, 8192], inferno.symbol = "n0"}, %arg1: tensor<?x1024xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 1024)>}, %arg2: tensor<256x1024xbf16>, %arg3: tensor<?x256xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 256)>}) -> tensor<?x256xbf16> {
  %c1023 = arith.constant 1023 : index
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty(%arg0) : tensor<?x256xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<?x256xf32>) -> tensor<?x256xf32>
  %2:2 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg1, %arg2 : tensor<?x1024xbf16>, tensor<256x1024xbf16>) outs(%1, %arg3 : tensor<?x256xf32>, tensor<?x256xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32, %out_1: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_0 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 2 : index
    %8 = arith.cmpi eq, %7, %c1023 : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %out_1 : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<?x256xf32>, tensor<?x256xbf16>)
  return %2#1 : tensor<?x256xbf16>
}
}
