// RUN: inferno-opt %s -p 'fuse-attention-gradients{target=sm_90a always=1}' | FileCheck %s
// RUN: sed 's/return %%of_q,/return %%of_scores,/; s/-> (tensor<2x16x4x8xbf16>,/-> (tensor<2x4x16x24xbf16>,/; s/return \(.*\) : tensor<2x16x4x8xbf16>,/return \1 : tensor<2x4x16x24xbf16>,/' %s | inferno-opt - -p 'fuse-attention-gradients{target=sm_90a always=1}' | FileCheck %s --check-prefix=READ
// RUN: inferno-opt %s -p 'fuse-attention-gradients{target=sm_90a always=1 together=1}' | FileCheck %s --check-prefix=TOGETHER
// RUN: sed 's/return %%of_q, %%of_k, %%of_v : \(.*\)$/return %%of_q, %%of_k, %%of_v, %%of_scores : \1, tensor<2x4x16x24xbf16>/; s/^\(func.func @main.*\)) {$/\1, tensor<2x4x16x24xbf16>) {/' %s | inferno-opt - -p 'fuse-attention-gradients{target=sm_90a always=1 together=1}' | FileCheck %s --check-prefix=SCORES

// Two kernels, one of the gradient of queries, the other of those of keys and values, compute the weights for themselves; the sums of a result and
// its gradient, which are small, stay apart.
// CHECK-LABEL: func.func @main
// CHECK: %[[MEANS:.*]] = call @means
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: call @attention_gradient(%{{.*}}) {inferno.source = {{.*}}} : ({{.*}}) -> tensor<2x16x4x8xbf16>
// CHECK: call @attention_gradient_1(%{{.*}}) {inferno.source = {{.*}}} : ({{.*}}) -> (tensor<2x24x4x8xbf16>, tensor<2x24x4x16xbf16>)
// CHECK-NOT: call
// CHECK: return
// CHECK: func.func private @attention_gradient(
// CHECK: func.func private @attention_gradient_1(
// One that also leaves the gradients of scores in memory for a while.
// TOGETHER-LABEL: func.func @main
// TOGETHER: call @means
// TOGETHER: call @attention_gradient{{.*}} -> (tensor<2x24x4x8xbf16>, tensor<2x24x4x16xbf16>, tensor<2x16x4x8xbf16>)
// TOGETHER-NOT: call
// Which are a result where somebody else reads them, as the gradient of a bias does.
// SCORES-LABEL: func.func @main
// SCORES: call @means
// SCORES: call @attention_gradient{{.*}} -> (tensor<2x24x4x8xbf16>, tensor<2x24x4x16xbf16>, tensor<2x16x4x8xbf16>, tensor<2x4x16x24xbf16>)
// SCORES-NOT: call
// SCORES: return %{{.*}}#2, %{{.*}}#0, %{{.*}}#1, %{{.*}}#3
// What somebody else reads is computed in any case.
// READ-LABEL: func.func @main
// READ-COUNT-8: call @

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
#map2 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map3 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>
#map8 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d3)>
#map9 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d2)>
func.func @main(%gradient: tensor<2x4x16x16xbf16>, %q: tensor<2x4x16x8xbf16>, %k: tensor<2x4x24x8xbf16>, %v: tensor<2x4x24x16xbf16>, %result: tensor<2x4x16x16xbf16>, %totals: tensor<2x4x16xf32>) -> (tensor<2x16x4x8xbf16>, tensor<2x24x4x8xbf16>, tensor<2x24x4x16xbf16>) {
  %collapsed = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x4x16x8xbf16> into tensor<8x16x8xbf16>
  %0 = tensor.empty() : tensor<8x16x8xf32>
  %wide = call @wide(%collapsed, %0) {inferno.source = ["wide"]} : (tensor<8x16x8xbf16>, tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  %expanded = tensor.expand_shape %wide [[0, 1], [2], [3]] output_shape [2, 4, 16, 8] : tensor<8x16x8xf32> into tensor<2x4x16x8xf32>
  %2 = tensor.empty() : tensor<2x4x16x24xf32>
  %weights = call @weights(%expanded, %k, %totals, %2) {inferno.source = ["weights"]} : (tensor<2x4x16x8xf32>, tensor<2x4x24x8xbf16>, tensor<2x4x16xf32>, tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %4 = tensor.empty() : tensor<2x4x16xf32>
  %means = call @means(%gradient, %result, %4) {inferno.source = ["means"]} : (tensor<2x4x16x16xbf16>, tensor<2x4x16x16xbf16>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %6 = tensor.empty() : tensor<2x4x16x24xbf16>
  %of_scores = call @of_scores(%gradient, %v, %weights, %means, %6) {inferno.source = ["of_scores"]} : (tensor<2x4x16x16xbf16>, tensor<2x4x24x16xbf16>, tensor<2x4x16x24xf32>, tensor<2x4x16xf32>, tensor<2x4x16x24xbf16>) -> tensor<2x4x16x24xbf16>
  %8 = tensor.empty() : tensor<2x4x16x24xbf16>
  %rounded = call @rounded(%weights, %8) {inferno.source = ["rounded"]} : (tensor<2x4x16x24xf32>, tensor<2x4x16x24xbf16>) -> tensor<2x4x16x24xbf16>
  %10 = tensor.empty() : tensor<2x16x4x8xbf16>
  %of_q = call @of_q(%of_scores, %k, %10) {inferno.source = ["of_q"]} : (tensor<2x4x16x24xbf16>, tensor<2x4x24x8xbf16>, tensor<2x16x4x8xbf16>) -> tensor<2x16x4x8xbf16>
  %12 = tensor.empty() : tensor<2x24x4x8xbf16>
  %of_k = call @of_k(%of_scores, %expanded, %12) {inferno.source = ["of_k"]} : (tensor<2x4x16x24xbf16>, tensor<2x4x16x8xf32>, tensor<2x24x4x8xbf16>) -> tensor<2x24x4x8xbf16>
  %14 = tensor.empty() : tensor<2x24x4x16xbf16>
  %of_v = call @of_v(%rounded, %gradient, %14) {inferno.source = ["of_v"]} : (tensor<2x4x16x24xbf16>, tensor<2x4x16x16xbf16>, tensor<2x24x4x16xbf16>) -> tensor<2x24x4x16xbf16>
  return %of_q, %of_k, %of_v : tensor<2x16x4x8xbf16>, tensor<2x24x4x8xbf16>, tensor<2x24x4x16xbf16>
}
func.func private @wide(%arg0: tensor<8x16x8xbf16>, %arg1: tensor<8x16x8xf32>) -> tensor<8x16x8xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<8x16x8xbf16>) outs(%arg1 : tensor<8x16x8xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %1 = arith.extf %in : bf16 to f32
    linalg.yield %1 : f32
  } -> tensor<8x16x8xf32>
  return %0 : tensor<8x16x8xf32>
}
func.func private @weights(%arg0: tensor<2x4x16x8xf32>, %arg1: tensor<2x4x24x8xbf16>, %arg2: tensor<2x4x16xf32>, %arg3: tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32> {
  %c7 = arith.constant 7 : index
  %cst = arith.constant 2.500000e-01 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = linalg.fill ins(%cst_1 : f32) outs(%arg3 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %1 = linalg.generic {indexing_maps = [#map1, #map2, #map3, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1, %arg2 : tensor<2x4x16x8xf32>, tensor<2x4x24x8xbf16>, tensor<2x4x16xf32>) outs(%0 : tensor<2x4x16x24xf32>) {
  ^bb0(%in: f32, %in_2: bf16, %in_3: f32, %out: f32):
    %2 = arith.extf %in_2 : bf16 to f32
    %3 = arith.mulf %in, %2 : f32
    %4 = arith.addf %out, %3 : f32
    %5 = linalg.index 4 : index
    %6 = arith.cmpi eq, %5, %c7 : index
    %7 = linalg.index 2 : index
    %8 = arith.index_cast %7 : index to i64
    %9 = linalg.index 3 : index
    %10 = arith.index_cast %9 : index to i64
    %11 = arith.mulf %4, %cst : f32
    %12 = arith.cmpi sle, %10, %8 : i64
    %13 = arith.select %12, %11, %cst_0 : f32
    %14 = arith.subf %13, %in_3 : f32
    %15 = math.exp %14 : f32
    %16 = arith.select %6, %15, %4 : f32
    linalg.yield %16 : f32
  } -> tensor<2x4x16x24xf32>
  return %1 : tensor<2x4x16x24xf32>
}
func.func private @means(%arg0: tensor<2x4x16x16xbf16>, %arg1: tensor<2x4x16x16xbf16>, %arg2: tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%arg2 : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %1 = linalg.generic {indexing_maps = [#map5, #map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<2x4x16x16xbf16>, tensor<2x4x16x16xbf16>) outs(%0 : tensor<2x4x16xf32>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32):
    %2 = arith.extf %in : bf16 to f32
    %3 = arith.extf %in_0 : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.addf %4, %out : f32
    linalg.yield %5 : f32
  } -> tensor<2x4x16xf32>
  return %1 : tensor<2x4x16xf32>
}
func.func private @of_scores(%arg0: tensor<2x4x16x16xbf16>, %arg1: tensor<2x4x24x16xbf16>, %arg2: tensor<2x4x16x24xf32>, %arg3: tensor<2x4x16xf32>, %arg4: tensor<2x4x16x24xbf16>) -> tensor<2x4x16x24xbf16> {
  %c15 = arith.constant 15 : index
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4x16x24xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %2:2 = linalg.generic {indexing_maps = [#map1, #map2, #map4, #map3, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1, %arg2, %arg3 : tensor<2x4x16x16xbf16>, tensor<2x4x24x16xbf16>, tensor<2x4x16x24xf32>, tensor<2x4x16xf32>) outs(%1, %arg4 : tensor<2x4x16x24xf32>, tensor<2x4x16x24xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %in_1: f32, %in_2: f32, %out: f32, %out_3: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_0 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 4 : index
    %8 = arith.cmpi eq, %7, %c15 : index
    %9 = arith.subf %6, %in_2 : f32
    %10 = arith.mulf %in_1, %9 : f32
    %11 = arith.truncf %10 : f32 to bf16
    %12 = arith.select %8, %11, %out_3 : bf16
    linalg.yield %6, %12 : f32, bf16
  } -> (tensor<2x4x16x24xf32>, tensor<2x4x16x24xbf16>)
  return %2#1 : tensor<2x4x16x24xbf16>
}
func.func private @rounded(%arg0: tensor<2x4x16x24xf32>, %arg1: tensor<2x4x16x24xbf16>) -> tensor<2x4x16x24xbf16> {
  %0 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x4x16x24xf32>) outs(%arg1 : tensor<2x4x16x24xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %1 = arith.truncf %in : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<2x4x16x24xbf16>
  return %0 : tensor<2x4x16x24xbf16>
}
func.func private @of_q(%arg0: tensor<2x4x16x24xbf16>, %arg1: tensor<2x4x24x8xbf16>, %arg2: tensor<2x16x4x8xbf16>) -> tensor<2x16x4x8xbf16> {
  %c23 = arith.constant 23 : index
  %cst = arith.constant 2.500000e-01 : f32
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4x16x8xf32>
  %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %2:2 = linalg.generic {indexing_maps = [#map1, #map7, #map4, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<2x4x16x24xbf16>, tensor<2x4x24x8xbf16>) outs(%1, %arg2 : tensor<2x4x16x8xf32>, tensor<2x16x4x8xbf16>) {
  ^bb0(%in: bf16, %in_1: bf16, %out: f32, %out_2: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_1 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 4 : index
    %8 = arith.cmpi eq, %7, %c23 : index
    %9 = arith.mulf %6, %cst : f32
    %10 = arith.truncf %9 : f32 to bf16
    %11 = arith.select %8, %10, %out_2 : bf16
    linalg.yield %6, %11 : f32, bf16
  } -> (tensor<2x4x16x8xf32>, tensor<2x16x4x8xbf16>)
  return %2#1 : tensor<2x16x4x8xbf16>
}
func.func private @of_k(%arg0: tensor<2x4x16x24xbf16>, %arg1: tensor<2x4x16x8xf32>, %arg2: tensor<2x24x4x8xbf16>) -> tensor<2x24x4x8xbf16> {
  %c15 = arith.constant 15 : index
  %cst = arith.constant 2.500000e-01 : f32
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4x24x8xf32>
  %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<2x4x24x8xf32>) -> tensor<2x4x24x8xf32>
  %2:2 = linalg.generic {indexing_maps = [#map9, #map7, #map4, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<2x4x16x24xbf16>, tensor<2x4x16x8xf32>) outs(%1, %arg2 : tensor<2x4x24x8xf32>, tensor<2x24x4x8xbf16>) {
  ^bb0(%in: bf16, %in_1: f32, %out: f32, %out_2: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.mulf %3, %in_1 : f32
    %5 = arith.addf %out, %4 : f32
    %6 = linalg.index 4 : index
    %7 = arith.cmpi eq, %6, %c15 : index
    %8 = arith.mulf %5, %cst : f32
    %9 = arith.truncf %8 : f32 to bf16
    %10 = arith.select %7, %9, %out_2 : bf16
    linalg.yield %5, %10 : f32, bf16
  } -> (tensor<2x4x24x8xf32>, tensor<2x24x4x8xbf16>)
  return %2#1 : tensor<2x24x4x8xbf16>
}
func.func private @of_v(%arg0: tensor<2x4x16x24xbf16>, %arg1: tensor<2x4x16x16xbf16>, %arg2: tensor<2x24x4x16xbf16>) -> tensor<2x24x4x16xbf16> {
  %c15 = arith.constant 15 : index
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x4x24x16xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4x24x16xf32>) -> tensor<2x4x24x16xf32>
  %2:2 = linalg.generic {indexing_maps = [#map9, #map7, #map4, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<2x4x16x24xbf16>, tensor<2x4x16x16xbf16>) outs(%1, %arg2 : tensor<2x4x24x16xf32>, tensor<2x24x4x16xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32, %out_1: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_0 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 4 : index
    %8 = arith.cmpi eq, %7, %c15 : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %out_1 : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<2x4x24x16xf32>, tensor<2x24x4x16xbf16>)
  return %2#1 : tensor<2x24x4x16xbf16>
}
