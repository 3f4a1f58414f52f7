// RUN: inferno-opt -p 'fuse-reductions{target=sm_90a}' %s | FileCheck %s

// The two sums of a batch norm's backward with channels last are one kernel, which reads the gradient once, though one with what is computed of them would
// take longer than each by itself.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]]:2 = call @[[SUMS:rows_reduce_addf_reduce_subf_mulf_addf]](
// CHECK: call @mulf(%[[S]]#1,
// CHECK: call @mulf_subf(%{{.*}}, %{{.*}}, %{{.*}}, %[[S]]#0, %{{.*}}, %[[S]]#1,
// CHECK: func.func private @[[SUMS]]
// CHECK-COUNT-2: iterator_types = ["reduction", "parallel", "reduction", "reduction"]
#map = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3, d1)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d1)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
module {
  func.func @main(%arg0: tensor<64x56x56x256xbf16>, %arg1: tensor<64x56x56x256xbf16>, %arg2: tensor<256xf32>, %arg3: tensor<256xf32>, %arg4: tensor<256xf32>, %arg5: tensor<256xf32>, %arg6: tensor<256xf32>) -> (tensor<64x56x56x256xbf16>, tensor<256xf32>, tensor<256xf32>) {
    %0 = tensor.empty() : tensor<256xf32>
    %1 = call @reduce_addf(%arg0, %0) : (tensor<64x56x56x256xbf16>, tensor<256xf32>) -> tensor<256xf32>
    %2 = tensor.empty() : tensor<256xf32>
    %3 = call @reduce_subf_mulf_addf(%arg0, %arg5, %arg1, %2) : (tensor<64x56x56x256xbf16>, tensor<256xf32>, tensor<64x56x56x256xbf16>, tensor<256xf32>) -> tensor<256xf32>
    %4 = tensor.empty() : tensor<256xf32>
    %5 = call @mulf(%3, %arg6, %4) : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %6 = tensor.empty() : tensor<64x56x56x256xbf16>
    %7 = call @mulf_subf(%arg6, %arg2, %arg0, %1, %arg5, %3, %arg1, %6) : (tensor<256xf32>, tensor<256xf32>, tensor<64x56x56x256xbf16>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<64x56x56x256xbf16>, tensor<64x56x56x256xbf16>) -> tensor<64x56x56x256xbf16>
    return %7, %5, %1 : tensor<64x56x56x256xbf16>, tensor<256xf32>, tensor<256xf32>
  }
  func.func private @reduce_addf(%arg0: tensor<64x56x56x256xbf16>, %arg1: tensor<256xf32>) -> tensor<256xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = linalg.fill ins(%cst : f32) outs(%arg1 : tensor<256xf32>) -> tensor<256xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<64x56x56x256xbf16>) outs(%0 : tensor<256xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %2 = arith.extf %in : bf16 to f32
      %3 = arith.addf %2, %out : f32
      linalg.yield %3 : f32
    } -> tensor<256xf32>
    return %1 : tensor<256xf32>
  }
  func.func private @reduce_subf_mulf_addf(%arg0: tensor<64x56x56x256xbf16>, %arg1: tensor<256xf32>, %arg2: tensor<64x56x56x256xbf16>, %arg3: tensor<256xf32>) -> tensor<256xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = linalg.fill ins(%cst : f32) outs(%arg3 : tensor<256xf32>) -> tensor<256xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map, #map1], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1, %arg2 : tensor<64x56x56x256xbf16>, tensor<256xf32>, tensor<64x56x56x256xbf16>) outs(%0 : tensor<256xf32>) {
    ^bb0(%in: bf16, %in_0: f32, %in_1: bf16, %out: f32):
      %2 = arith.extf %in : bf16 to f32
      %3 = arith.extf %in_1 : bf16 to f32
      %4 = arith.subf %3, %in_0 : f32
      %5 = arith.mulf %2, %4 : f32
      %6 = arith.addf %5, %out : f32
      linalg.yield %6 : f32
    } -> tensor<256xf32>
    return %1 : tensor<256xf32>
  }
  func.func private @mulf(%arg0: tensor<256xf32>, %arg1: tensor<256xf32>, %arg2: tensor<256xf32>) -> tensor<256xf32> {
    %0 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%arg0, %arg1 : tensor<256xf32>, tensor<256xf32>) outs(%arg2 : tensor<256xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %1 = arith.mulf %in, %in_0 : f32
      linalg.yield %1 : f32
    } -> tensor<256xf32>
    return %0 : tensor<256xf32>
  }
  func.func private @mulf_subf(%arg0: tensor<256xf32>, %arg1: tensor<256xf32>, %arg2: tensor<64x56x56x256xbf16>, %arg3: tensor<256xf32>, %arg4: tensor<256xf32>, %arg5: tensor<256xf32>, %arg6: tensor<64x56x56x256xbf16>, %arg7: tensor<64x56x56x256xbf16>) -> tensor<64x56x56x256xbf16> {
    %cst = arith.constant 4.9824617346938772E-6 : f64
    %0 = linalg.generic {indexing_maps = [#map3, #map3, #map4, #map3, #map3, #map3, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 : tensor<256xf32>, tensor<256xf32>, tensor<64x56x56x256xbf16>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<64x56x56x256xbf16>) outs(%arg7 : tensor<64x56x56x256xbf16>) {
    ^bb0(%in: f32, %in_0: f32, %in_1: bf16, %in_2: f32, %in_3: f32, %in_4: f32, %in_5: bf16, %out: bf16):
      %1 = arith.extf %in_5 : bf16 to f32
      %2 = arith.mulf %in, %in : f32
      %3 = arith.truncf %cst : f64 to f32
      %4 = arith.mulf %in_4, %3 : f32
      %5 = arith.mulf %4, %2 : f32
      %6 = arith.subf %1, %in_3 : f32
      %7 = arith.mulf %in_2, %3 : f32
      %8 = arith.mulf %6, %5 : f32
      %9 = arith.extf %in_1 : bf16 to f32
      %10 = arith.subf %9, %8 : f32
      %11 = arith.mulf %in, %in_0 : f32
      %12 = arith.subf %10, %7 : f32
      %13 = arith.mulf %12, %11 : f32
      %14 = arith.truncf %13 : f32 to bf16
      linalg.yield %14 : bf16
    } -> tensor<64x56x56x256xbf16>
    return %0 : tensor<64x56x56x256xbf16>
  }
}
