// RUN: inferno-opt %s -p outline-kernels | FileCheck %s

// What a kernel is called: the contraction with what is before and after it; conversions and comparisons only where alone.
// CHECK: call @exp_conv_tanh(
// CHECK: call @batch_matmul(
// CHECK: call @reduce_mulf_addf(
// CHECK: call @iota(
// CHECK: call @transpose(
// CHECK: call @broadcast(
// CHECK: call @truncf(
// CHECK: call @gather(
// CHECK: call @add(
// CHECK: call @add_1(
// CHECK: call @sin_cos_tan_exp_log_sqrt_rsqrt_tanh(
func.func @main(%x: tensor<4x4xf32>, %w: tensor<3xf32>, %i: tensor<4xi64>) -> (tensor<4x2xf32>, tensor<4x2x2xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e42 = tensor.empty() : tensor<4x2xf32>
  %f42 = linalg.fill ins(%zero : f32) outs(%e42 : tensor<4x2xf32>) -> tensor<4x2xf32>
  %conv = linalg.generic {indexing_maps = [affine_map<(a, b, k) -> (a, b + k)>, affine_map<(a, b, k) -> (k)>, affine_map<(a, b, k) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4xf32>, tensor<3xf32>) outs(%f42 : tensor<4x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = math.exp %a : f32
    %2 = arith.mulf %1, %b : f32
    %3 = arith.addf %o, %2 : f32
    %k = linalg.index 2 : index
    %c2 = arith.constant 2 : index
    %last = arith.cmpi eq, %k, %c2 : index
    %4 = math.tanh %3 : f32
    %5 = arith.select %last, %4, %3 : f32
    linalg.yield %5 : f32
  } -> tensor<4x2xf32>
  %v = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 2, 2] : tensor<4x4xf32> into tensor<4x2x2xf32>
  %e422 = tensor.empty() : tensor<4x2x2xf32>
  %f422 = linalg.fill ins(%zero : f32) outs(%e422 : tensor<4x2x2xf32>) -> tensor<4x2x2xf32>
  %bmm = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%v, %v : tensor<4x2x2xf32>, tensor<4x2x2xf32>) outs(%f422 : tensor<4x2x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %2 = arith.mulf %a, %b : f32
    %3 = arith.addf %2, %o : f32
    linalg.yield %3 : f32
  } -> tensor<4x2x2xf32>
  %e4 = tensor.empty() : tensor<4xf32>
  %f4 = linalg.fill ins(%zero : f32) outs(%e4 : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x4xf32>) outs(%f4 : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %2 = arith.mulf %a, %a : f32
    %3 = arith.addf %2, %o : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  %e4i = tensor.empty() : tensor<4xi64>
  %iota = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e4i : tensor<4xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<4xi64>
  %e = tensor.empty() : tensor<4x4xf32>
  %transposed = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%squares : tensor<4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  %eb = tensor.empty() : tensor<4x4xbf16>
  %narrow = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%eb : tensor<4x4xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %1 = arith.truncf %a : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4x4xbf16>
  %rows = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]} ins(%i : tensor<4xi64>) outs(%e4 : tensor<4xf32>) {
  ^bb0(%a: i64, %o: f32):
    %1 = arith.index_cast %a : i64 to index
    %2 = tensor.extract %squares[%1] : tensor<4xf32>
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  %sum = linalg.add ins(%x, %wide : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum1 = linalg.add ins(%sum, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %long = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%sum1 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = math.sin %a : f32
    %2 = math.cos %1 : f32
    %3 = math.tan %2 : f32
    %4 = math.exp %3 : f32
    %5 = math.log %4 : f32
    %6 = math.sqrt %5 : f32
    %7 = math.rsqrt %6 : f32
    %8 = math.tanh %7 : f32
    %9 = math.floor %8 : f32
    %10 = math.ceil %9 : f32
    linalg.yield %10 : f32
  } -> tensor<4x4xf32>
  return %conv, %bmm, %squares, %iota, %transposed, %wide, %narrow, %rows, %sum1, %long : tensor<4x2xf32>, tensor<4x2x2xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
