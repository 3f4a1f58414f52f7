// RUN: inferno-opt %s --pass-pipeline='inferno-fuse,fuse-reductions{target=sm_90a},fuse-totals{target=sm_90a}' --split-input-file | FileCheck %s

#points = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#one = affine_map<(d0, d1) -> ()>

/// What all squares of distances from the rows' largest come to: the kernel that has the rows adds up each, and writes nothing else.
// CHECK-LABEL: func.func @main
// CHECK: %[[E:.*]] = tensor.empty() : tensor<8192xf32>
// CHECK-NEXT: %[[R:.*]] = call @rows_reduce_maximumf_subf_exp_reduce_add_1(%arg0, %[[E]]) {{.*}} : (tensor<8192x1024xf32>, tensor<8192xf32>) -> tensor<8192xf32>
// CHECK: call @reduce_divf_mulf_addf_2(%[[R]], %{{.*}}) {{.*}} : (tensor<8192xf32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @rows_reduce_maximumf_subf_exp_reduce_add_1(
// CHECK: arith.maximumf
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK-LABEL: func.func private @reduce_divf_mulf_addf_2(
// CHECK: iterator_types = ["reduction"]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
func.func @main(%x: tensor<8192x1024xf32>) -> tensor<f32> {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8192xf32>
  %p = tensor.empty() : tensor<8192x1024xf32>
  %o1 = tensor.empty() : tensor<f32>
  %m0 = linalg.fill ins(%least : f32) outs(%e : tensor<8192xf32>) -> tensor<8192xf32>
  %m = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8192x1024xf32>) outs(%m0 : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8192xf32>
  %d = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8192x1024xf32>, tensor<8192xf32>) outs(%p : tensor<8192x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %y = math.exp %s : f32
    linalg.yield %y : f32
  } -> tensor<8192x1024xf32>
  %n0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8192xf32>) -> tensor<8192xf32>
  %n = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<8192x1024xf32>) outs(%n0 : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8192xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<f32>) -> tensor<f32>
  %t = linalg.generic {indexing_maps = [#points, #rows, #one], iterator_types = ["reduction", "reduction"]} ins(%d, %n : tensor<8192x1024xf32>, tensor<8192xf32>) outs(%t0 : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.divf %a, %b : f32
    %s = arith.mulf %q, %q : f32
    %y = arith.addf %s, %o : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %t : tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#columns = affine_map<(d0, d1) -> (d1)>
#one = affine_map<(d0, d1) -> ()>

/// Weights that are a row of a tensor are taken where the rows are.
// CHECK-LABEL: func.func @main
// CHECK: call @[[R:.*]](%arg0, %arg1, %{{.*}}) {{.*}} : (tensor<8192x1024xf32>, tensor<4x1024xf32>, tensor<8192xf32>) -> tensor<8192xf32>
// CHECK-NEXT: call @reduce_{{.*}} : (tensor<8192xf32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT: return
// CHECK: func.func private @[[R]](
// CHECK: tensor.extract_slice %{{.*}}[3, 0] [1, 1024] [1, 1]
// CHECK-LABEL: func.func private @reduce_
// CHECK-NOT: tensor.extract_slice
func.func @main(%x: tensor<8192x1024xf32>, %w: tensor<4x1024xf32>) -> tensor<f32> {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %row = tensor.extract_slice %w[3, 0] [1, 1024] [1, 1] : tensor<4x1024xf32> to tensor<1024xf32>
  %e = tensor.empty() : tensor<8192xf32>
  %p = tensor.empty() : tensor<8192x1024xf32>
  %o1 = tensor.empty() : tensor<f32>
  %m0 = linalg.fill ins(%least : f32) outs(%e : tensor<8192xf32>) -> tensor<8192xf32>
  %m = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8192x1024xf32>) outs(%m0 : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8192xf32>
  %d = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8192x1024xf32>, tensor<8192xf32>) outs(%p : tensor<8192x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %y = math.exp %s : f32
    linalg.yield %y : f32
  } -> tensor<8192x1024xf32>
  %n0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8192xf32>) -> tensor<8192xf32>
  %n = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<8192x1024xf32>) outs(%n0 : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8192xf32>
  %t0 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<f32>) -> tensor<f32>
  %t = linalg.generic {indexing_maps = [#points, #rows, #columns, #one], iterator_types = ["reduction", "reduction"]} ins(%d, %n, %row : tensor<8192x1024xf32>, tensor<8192xf32>, tensor<1024xf32>) outs(%t0 : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %q = arith.divf %a, %b : f32
    %r = arith.mulf %q, %c : f32
    %s = arith.mulf %r, %r : f32
    %y = arith.addf %s, %o : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %t : tensor<f32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#one = affine_map<(d0, d1) -> ()>

/// Of a total in 16 bits what rows come to is not rounded.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @reduce_maximumf_reduce_subf_addf(%arg0, {{.*}} -> tensor<8192xf32>
// CHECK: %[[T:.*]] = call @reduce_subf_addf_{{[0-9]+}}(%[[R]], {{.*}} -> tensor<bf16>
// CHECK-NEXT: return %[[T]]
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.addf
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @main(%x: tensor<8192x1024xf32>) -> tensor<bf16> {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<8192xf32>
  %p = tensor.empty() : tensor<8192x1024xbf16>
  %o1 = tensor.empty() : tensor<bf16>
  %m0 = linalg.fill ins(%least : f32) outs(%e : tensor<8192xf32>) -> tensor<8192xf32>
  %m = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8192x1024xf32>) outs(%m0 : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8192xf32>
  %d = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8192x1024xf32>, tensor<8192xf32>) outs(%p : tensor<8192x1024xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %s = arith.subf %a, %b : f32
    %y = arith.truncf %s : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<8192x1024xbf16>
  %n0 = linalg.fill ins(%zero : bf16) outs(%o1 : tensor<bf16>) -> tensor<bf16>
  %n = linalg.generic {indexing_maps = [#points, #one], iterator_types = ["reduction", "reduction"]} ins(%d : tensor<8192x1024xbf16>) outs(%n0 : tensor<bf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %y = arith.addf %a, %o : bf16
    linalg.yield %y : bf16
  } -> tensor<bf16>
  return %n : tensor<bf16>
}
