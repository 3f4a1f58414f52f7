// RUN: inferno-opt %s -p 'fuse-duals{target=sm_90a always=1}' --split-input-file | FileCheck %s

// The number of rows varies: the kernel has the size as an argument, and every tensor's is told by it.
// CHECK-LABEL: func.func @main
// CHECK: %[[E:.*]] = tensor.empty(%arg3) : tensor<?x40xbf16>
// CHECK-NEXT: %[[R:.*]] = call @[[NAME:dual_.*]](%arg3, %arg0, %arg1, %arg2, %[[E]])
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @[[NAME]](%[[N:.*]]: index {{{.*}}inferno.symbol = "n0"}, %[[X:.*]]: tensor<?x64xbf16> {inferno.sizes = {{.*}}(s0, 64)>}, %[[G:.*]]: tensor<40x64xbf16>, %[[U:.*]]: tensor<40x64xbf16>, %{{.*}}: tensor<?x40xbf16> {inferno.sizes = {{.*}}(s0, 40)>})
// CHECK: tensor.empty(%[[N]]) : tensor<?x40xf32>
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]} ins(%[[X]], %[[G]]
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]} ins(%[[X]], %[[U]]
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]}
// CHECK-NOT: func.func private
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>

func.func @main(%arg0: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %arg1: tensor<40x64xbf16>, %arg2: tensor<40x64xbf16>, %arg3: index {inferno.divisor = 1 : i64, inferno.hint = 16 : i64, inferno.range = [1, 8192], inferno.symbol = "s0"}) -> tensor<?x40xbf16> {
  %0 = tensor.empty(%arg3) : tensor<?x40xf32>
  %1 = call @matmul(%arg3, %arg0, %arg1, %0) {inferno.source = ["linear"]} : (index, tensor<?x64xbf16>, tensor<40x64xbf16>, tensor<?x40xf32>) -> tensor<?x40xf32>
  %2 = tensor.empty(%arg3) : tensor<?x40xbf16>
  %3 = call @matmul_negf_exp_addf_divf_mulf(%arg3, %arg0, %arg2, %1, %2) {inferno.source = ["linear", "mul", "silu"]} : (index, tensor<?x64xbf16>, tensor<40x64xbf16>, tensor<?x40xf32>, tensor<?x40xbf16>) -> tensor<?x40xbf16>
  return %3 : tensor<?x40xbf16>
}
func.func private @matmul(%arg0: index {inferno.divisor = 1 : i64, inferno.hint = 16 : i64, inferno.range = [1, 8192], inferno.symbol = "n0"}, %arg1: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %arg2: tensor<40x64xbf16>, %arg3: tensor<?x40xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 40)>}) -> tensor<?x40xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%arg3 : tensor<?x40xf32>) -> tensor<?x40xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg1, %arg2 : tensor<?x64xbf16>, tensor<40x64xbf16>) outs(%0 : tensor<?x40xf32>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32):
    %2 = arith.extf %in : bf16 to f32
    %3 = arith.extf %in_0 : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.addf %out, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<?x40xf32>
  return %1 : tensor<?x40xf32>
}
func.func private @matmul_negf_exp_addf_divf_mulf(%arg0: index {inferno.divisor = 1 : i64, inferno.hint = 16 : i64, inferno.range = [1, 8192], inferno.symbol = "n0"}, %arg1: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %arg2: tensor<40x64xbf16>, %arg3: tensor<?x40xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 40)>}, %arg4: tensor<?x40xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 40)>}) -> tensor<?x40xbf16> {
  %c63 = arith.constant 63 : index
  %cst = arith.constant 1.000000e+00 : f32
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty(%arg0) : tensor<?x40xf32>
  %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<?x40xf32>) -> tensor<?x40xf32>
  %2:2 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map2, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg1, %arg2, %arg3 : tensor<?x64xbf16>, tensor<40x64xbf16>, tensor<?x40xf32>) outs(%1, %arg4 : tensor<?x40xf32>, tensor<?x40xbf16>) {
  ^bb0(%in: bf16, %in_1: bf16, %in_2: f32, %out: f32, %out_3: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_1 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 2 : index
    %8 = arith.cmpi eq, %7, %c63 : index
    %9 = arith.negf %in_2 : f32
    %10 = math.exp %9 : f32
    %11 = arith.addf %10, %cst : f32
    %12 = arith.divf %cst, %11 : f32
    %13 = arith.mulf %in_2, %12 : f32
    %14 = arith.mulf %13, %6 : f32
    %15 = arith.truncf %14 : f32 to bf16
    %16 = arith.select %8, %15, %out_3 : bf16
    linalg.yield %6, %16 : f32, bf16
  } -> (tensor<?x40xf32>, tensor<?x40xbf16>)
  return %2#1 : tensor<?x40xbf16>
}

// -----

// Two chunks of one product's columns, in another shape: two products by a slice of the weight each, which is seen as two halves.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = tensor.collapse_shape %arg0
// CHECK: %[[W:.*]] = tensor.expand_shape %arg1 {{.*}} : tensor<80x64xbf16> into tensor<2x40x64xbf16>
// CHECK: %[[R:.*]] = call @[[NAME:dual_.*]](%[[X]], %[[W]], %{{.*}}) {inferno.source = ["linear", "chunk", "mul", "tanh"]}
// CHECK: %[[Y:.*]] = tensor.expand_shape %[[R]] {{.*}} : tensor<16x40xbf16> into tensor<2x8x40xbf16>
// CHECK: return %[[Y]]
// CHECK: func.func private @[[NAME]](%[[X:.*]]: tensor<16x64xbf16>, %[[W:.*]]: tensor<2x40x64xbf16>, %{{.*}}: tensor<16x40xbf16>)
// CHECK-COUNT-2: linalg.generic {{.*}}["parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]]
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]}
// CHECK-NOT: func.func private
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

func.func @main(%arg0: tensor<2x8x64xbf16>, %arg1: tensor<80x64xbf16>) -> tensor<2x8x40xbf16> {
  %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<2x8x64xbf16> into tensor<16x64xbf16>
  %0 = tensor.empty() : tensor<16x80xbf16>
  %1 = call @matmul(%collapsed, %arg1, %0) {inferno.source = ["linear"]} : (tensor<16x64xbf16>, tensor<80x64xbf16>, tensor<16x80xbf16>) -> tensor<16x80xbf16>
  %expanded = tensor.expand_shape %1 [[0, 1], [2]] output_shape [2, 8, 80] : tensor<16x80xbf16> into tensor<2x8x80xbf16>
  %2 = tensor.empty() : tensor<2x8x40xbf16>
  %3 = call @extract_slice(%expanded, %2) {inferno.source = ["chunk"]} : (tensor<2x8x80xbf16>, tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  %4 = tensor.empty() : tensor<2x8x40xbf16>
  %5 = call @extract_slice_1(%expanded, %4) {inferno.source = ["chunk"]} : (tensor<2x8x80xbf16>, tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  %6 = tensor.empty() : tensor<2x8x40xbf16>
  %7 = call @tanh_mulf(%5, %3, %6) {inferno.source = ["mul", "tanh"]} : (tensor<2x8x40xbf16>, tensor<2x8x40xbf16>, tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  return %7 : tensor<2x8x40xbf16>
}
func.func private @matmul(%arg0: tensor<16x64xbf16>, %arg1: tensor<80x64xbf16>, %arg2: tensor<16x80xbf16>) -> tensor<16x80xbf16> {
  %c63 = arith.constant 63 : index
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<16x80xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<16x80xf32>) -> tensor<16x80xf32>
  %2:2 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<16x64xbf16>, tensor<80x64xbf16>) outs(%1, %arg2 : tensor<16x80xf32>, tensor<16x80xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32, %out_1: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_0 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 2 : index
    %8 = arith.cmpi eq, %7, %c63 : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %out_1 : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<16x80xf32>, tensor<16x80xbf16>)
  return %2#1 : tensor<16x80xbf16>
}
func.func private @extract_slice(%arg0: tensor<2x8x80xbf16>, %arg1: tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16> {
  %extracted_slice = tensor.extract_slice %arg0[0, 0, 0] [2, 8, 40] [1, 1, 1] : tensor<2x8x80xbf16> to tensor<2x8x40xbf16>
  %0 = linalg.copy {cast = #linalg.type_fn<cast_signed>} ins(%extracted_slice : tensor<2x8x40xbf16>) outs(%arg1 : tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  return %0 : tensor<2x8x40xbf16>
}
func.func private @extract_slice_1(%arg0: tensor<2x8x80xbf16>, %arg1: tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16> {
  %extracted_slice = tensor.extract_slice %arg0[0, 0, 40] [2, 8, 40] [1, 1, 1] : tensor<2x8x80xbf16> to tensor<2x8x40xbf16>
  %0 = linalg.copy {cast = #linalg.type_fn<cast_signed>} ins(%extracted_slice : tensor<2x8x40xbf16>) outs(%arg1 : tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  return %0 : tensor<2x8x40xbf16>
}
func.func private @tanh_mulf(%arg0: tensor<2x8x40xbf16>, %arg1: tensor<2x8x40xbf16>, %arg2: tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16> {
  %0 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<2x8x40xbf16>, tensor<2x8x40xbf16>) outs(%arg2 : tensor<2x8x40xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: bf16):
    %1 = arith.extf %in_0 : bf16 to f32
    %2 = math.tanh %1 : f32
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.truncf %4 : f32 to bf16
    linalg.yield %5 : bf16
  } -> tensor<2x8x40xbf16>
  return %0 : tensor<2x8x40xbf16>
}

// -----

// A chunk that somebody else reads is made once: everything stays as it is.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul(
// CHECK-COUNT-2: call @extract_slice
// CHECK: call @
// CHECK-NOT: call @
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

func.func @main(%arg0: tensor<2x8x64xbf16>, %arg1: tensor<80x64xbf16>) -> (tensor<2x8x40xbf16>, tensor<2x8x40xbf16>) {
  %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<2x8x64xbf16> into tensor<16x64xbf16>
  %0 = tensor.empty() : tensor<16x80xbf16>
  %1 = call @matmul(%collapsed, %arg1, %0) {inferno.source = ["linear"]} : (tensor<16x64xbf16>, tensor<80x64xbf16>, tensor<16x80xbf16>) -> tensor<16x80xbf16>
  %expanded = tensor.expand_shape %1 [[0, 1], [2]] output_shape [2, 8, 80] : tensor<16x80xbf16> into tensor<2x8x80xbf16>
  %2 = tensor.empty() : tensor<2x8x40xbf16>
  %3 = call @extract_slice(%expanded, %2) {inferno.source = ["chunk"]} : (tensor<2x8x80xbf16>, tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  %4 = tensor.empty() : tensor<2x8x40xbf16>
  %5 = call @extract_slice_1(%expanded, %4) {inferno.source = ["chunk"]} : (tensor<2x8x80xbf16>, tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  %6 = tensor.empty() : tensor<2x8x40xbf16>
  %7 = call @tanh_mulf(%5, %3, %6) {inferno.source = ["mul", "tanh"]} : (tensor<2x8x40xbf16>, tensor<2x8x40xbf16>, tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  return %7, %3 : tensor<2x8x40xbf16>, tensor<2x8x40xbf16>
}
func.func private @matmul(%arg0: tensor<16x64xbf16>, %arg1: tensor<80x64xbf16>, %arg2: tensor<16x80xbf16>) -> tensor<16x80xbf16> {
  %c63 = arith.constant 63 : index
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<16x80xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<16x80xf32>) -> tensor<16x80xf32>
  %2:2 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : tensor<16x64xbf16>, tensor<80x64xbf16>) outs(%1, %arg2 : tensor<16x80xf32>, tensor<16x80xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: f32, %out_1: bf16):
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.extf %in_0 : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %out, %5 : f32
    %7 = linalg.index 2 : index
    %8 = arith.cmpi eq, %7, %c63 : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %out_1 : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<16x80xf32>, tensor<16x80xbf16>)
  return %2#1 : tensor<16x80xbf16>
}
func.func private @extract_slice(%arg0: tensor<2x8x80xbf16>, %arg1: tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16> {
  %extracted_slice = tensor.extract_slice %arg0[0, 0, 0] [2, 8, 40] [1, 1, 1] : tensor<2x8x80xbf16> to tensor<2x8x40xbf16>
  %0 = linalg.copy {cast = #linalg.type_fn<cast_signed>} ins(%extracted_slice : tensor<2x8x40xbf16>) outs(%arg1 : tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  return %0 : tensor<2x8x40xbf16>
}
func.func private @extract_slice_1(%arg0: tensor<2x8x80xbf16>, %arg1: tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16> {
  %extracted_slice = tensor.extract_slice %arg0[0, 0, 40] [2, 8, 40] [1, 1, 1] : tensor<2x8x80xbf16> to tensor<2x8x40xbf16>
  %0 = linalg.copy {cast = #linalg.type_fn<cast_signed>} ins(%extracted_slice : tensor<2x8x40xbf16>) outs(%arg1 : tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16>
  return %0 : tensor<2x8x40xbf16>
}
func.func private @tanh_mulf(%arg0: tensor<2x8x40xbf16>, %arg1: tensor<2x8x40xbf16>, %arg2: tensor<2x8x40xbf16>) -> tensor<2x8x40xbf16> {
  %0 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<2x8x40xbf16>, tensor<2x8x40xbf16>) outs(%arg2 : tensor<2x8x40xbf16>) {
  ^bb0(%in: bf16, %in_0: bf16, %out: bf16):
    %1 = arith.extf %in_0 : bf16 to f32
    %2 = math.tanh %1 : f32
    %3 = arith.extf %in : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.truncf %4 : f32 to bf16
    linalg.yield %5 : bf16
  } -> tensor<2x8x40xbf16>
  return %0 : tensor<2x8x40xbf16>
}
