// RUN: inferno-opt %s --pass-pipeline='recompute-results{target=sm_90a}' --split-input-file | FileCheck %s

#points = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#columns = affine_map<(d0, d1) -> (d1)>

/// A softmax whose columns are added up: exponentials are computed where they are read, of what they were made of and of the rows' largest points.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]]:2 = call @softmax_1(%arg0, {{.*}} -> (tensor<4096xf32>, tensor<4096xf32>)
// CHECK: %[[SUMS:.*]] = call @recomputed_columns({{.*}}%[[ROWS]]#
// CHECK: return %[[SUMS]]
// CHECK-LABEL: func.func private @softmax_1
// CHECK: return %{{.*}}, %{{.*}} : tensor<4096xf32>, tensor<4096xf32>
// CHECK-LABEL: func.func private @recomputed_columns
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: arith.addf
// CHECK-NOT: linalg.generic
func.func @main(%x: tensor<4096x1024xbf16>) -> tensor<1024xf32> {
  %e = tensor.empty() : tensor<4096x1024xf32>
  %t = tensor.empty() : tensor<4096xf32>
  %c = tensor.empty() : tensor<1024xf32>
  %made:2 = call @softmax(%x, %e, %t) : (tensor<4096x1024xbf16>, tensor<4096x1024xf32>, tensor<4096xf32>) -> (tensor<4096x1024xf32>, tensor<4096xf32>)
  %sums = call @columns(%made#0, %made#1, %c) : (tensor<4096x1024xf32>, tensor<4096xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %sums : tensor<1024xf32>
}
func.func private @softmax(%x: tensor<4096x1024xbf16>, %e: tensor<4096x1024xf32>, %t: tensor<4096xf32>) -> (tensor<4096x1024xf32>, tensor<4096xf32>) {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %p = tensor.empty() : tensor<4096xf32>
  %m0 = linalg.fill ins(%least : f32) outs(%p : tensor<4096xf32>) -> tensor<4096xf32>
  %m = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x1024xbf16>) outs(%m0 : tensor<4096xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %y = arith.maximumf %w, %o : f32
    linalg.yield %y : f32
  } -> tensor<4096xf32>
  %exp = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<4096x1024xbf16>, tensor<4096xf32>) outs(%e : tensor<4096x1024xf32>) {
  ^bb0(%a: bf16, %b: f32, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %d = arith.subf %w, %b : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<4096x1024xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%t : tensor<4096xf32>) -> tensor<4096xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%exp : tensor<4096x1024xf32>) outs(%s0 : tensor<4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<4096xf32>
  return %exp, %s : tensor<4096x1024xf32>, tensor<4096xf32>
}
func.func private @columns(%e: tensor<4096x1024xf32>, %s: tensor<4096xf32>, %c: tensor<1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = linalg.fill ins(%zero : f32) outs(%c : tensor<1024xf32>) -> tensor<1024xf32>
  %sums = linalg.generic {indexing_maps = [#transposed, #columns, #rows], iterator_types = ["parallel", "reduction"]} ins(%e, %s : tensor<4096x1024xf32>, tensor<4096xf32>) outs(%c0 : tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.divf %a, %b : f32
    %y = arith.addf %q, %o : f32
    linalg.yield %y : f32
  } -> tensor<1024xf32>
  return %sums : tensor<1024xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#columns = affine_map<(d0, d1) -> (d1)>

/// A product that is as wide as two factors are together is read instead of both.
// CHECK-LABEL: func.func @main
// CHECK: call @norms(
// CHECK: call @columns(
func.func @main(%x: tensor<4096x1024xf32>, %y: tensor<4096x1024xf32>) -> (tensor<4096xf32>, tensor<1024xf32>) {
  %p = tensor.empty() : tensor<4096x1024xbf16>
  %t = tensor.empty() : tensor<4096xf32>
  %c = tensor.empty() : tensor<1024xf32>
  %made:2 = call @norms(%x, %y, %p, %t) : (tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xbf16>, tensor<4096xf32>) -> (tensor<4096x1024xbf16>, tensor<4096xf32>)
  %sums = call @columns(%made#0, %c) : (tensor<4096x1024xbf16>, tensor<1024xf32>) -> tensor<1024xf32>
  return %made#1, %sums : tensor<4096xf32>, tensor<1024xf32>
}
func.func private @norms(%x: tensor<4096x1024xf32>, %y: tensor<4096x1024xf32>, %p: tensor<4096x1024xbf16>, %t: tensor<4096xf32>) -> (tensor<4096x1024xbf16>, tensor<4096xf32>) {
  %zero = arith.constant 0.0 : f32
  %made = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4096x1024xf32>, tensor<4096x1024xf32>) outs(%p : tensor<4096x1024xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %w = arith.mulf %a, %b : f32
    %n = arith.truncf %w : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<4096x1024xbf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%t : tensor<4096xf32>) -> tensor<4096xf32>
  %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%made : tensor<4096x1024xbf16>) outs(%s0 : tensor<4096xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %d = arith.mulf %w, %w : f32
    %y1 = arith.addf %d, %o : f32
    linalg.yield %y1 : f32
  } -> tensor<4096xf32>
  return %made, %s : tensor<4096x1024xbf16>, tensor<4096xf32>
}
func.func private @columns(%e: tensor<4096x1024xbf16>, %c: tensor<1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = linalg.fill ins(%zero : f32) outs(%c : tensor<1024xf32>) -> tensor<1024xf32>
  %sums = linalg.generic {indexing_maps = [#transposed, #rows], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<4096x1024xbf16>) outs(%c0 : tensor<1024xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %y1 = arith.addf %w, %o : f32
    linalg.yield %y1 : f32
  } -> tensor<1024xf32>
  return %sums : tensor<1024xf32>
}
