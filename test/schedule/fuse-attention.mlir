// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=APART
// RUN: inferno-opt %s -p 'fuse-attention{target=cpu}' --split-input-file | FileCheck %s --check-prefix=APART

#point = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>
#values = affine_map<(b, i, j, d) -> (b, d, j)>

// Two contractions and what is between them, a causal mask and a softmax, are one kernel.  The keys are read where they are: the copy of them is
// made inside, where it is no copy, and stays for the program, which reads it too; the mask, which is computed of nothing, is computed inside.
// CHECK-LABEL: func.func @main
// CHECK: %[[K:.*]] = call @copy(%arg1
// CHECK-NOT: call @mask
// CHECK: %[[O:.*]] = call @attention(%arg1, %arg0, %arg2, {{.*}}) {inferno.source = ["mask", "scores", "softmax", "values"]} : (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>)
// CHECK-NOT: call
// CHECK: return %[[O]], %[[K]]
// CHECK: func.func private @attention(%[[K:.*]]: tensor<4x16x8xbf16>, %[[Q:.*]]: tensor<4x16x8xbf16>, %[[V:.*]]: tensor<4x16x8xbf16>, %[[DST:.*]]: tensor<4x16x8xbf16>)
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} %[[V]] : {{.*}} outs({{.*}}, %[[DST]]
// CHECK: func.func private @copy
// CHECK-NOT: func.func private
// APART-LABEL: func.func @main
// APART-COUNT-7: call @
func.func @main(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>) -> (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>) {
  %t = tensor.empty() : tensor<4x8x16xbf16>
  %kt = call @copy(%k, %t) {inferno.source = ["turn"]} : (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>) -> tensor<4x8x16xbf16>
  %m = tensor.empty() : tensor<16x16xi1>
  %mask = call @mask(%m) {inferno.source = ["mask"]} : (tensor<16x16xi1>) -> tensor<16x16xi1>
  %e0 = tensor.empty() : tensor<4x16x16xf32>
  %s = call @scores(%q, %kt, %mask, %e0) {inferno.source = ["scores"]} : (tensor<4x16x8xbf16>, tensor<4x8x16xbf16>, tensor<16x16xi1>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %most = call @most(%s, %e1) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16x16xf32>
  %p = call @power(%s, %most, %e2) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e3 = tensor.empty() : tensor<4x16xf32>
  %sum = call @sum(%p, %e3) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e4 = tensor.empty() : tensor<4x16x8xbf16>
  %o = call @values(%p, %sum, %v, %e4) {inferno.source = ["values"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %o, %kt : tensor<4x16x8xbf16>, tensor<4x8x16xbf16>
}
func.func private @copy(%k: tensor<4x16x8xbf16>, %out: tensor<4x8x16xbf16>) -> tensor<4x8x16xbf16> {
  %0 = linalg.transpose ins(%k : tensor<4x16x8xbf16>) outs(%out : tensor<4x8x16xbf16>) permutation = [0, 2, 1]
  return %0 : tensor<4x8x16xbf16>
}
func.func private @mask(%out: tensor<16x16xi1>) -> tensor<16x16xi1> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%out : tensor<16x16xi1>) {
  ^bb0(%old: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %1 = arith.cmpi sle, %j, %i : index
    linalg.yield %1 : i1
  } -> tensor<16x16xi1>
  return %0 : tensor<16x16xi1>
}
func.func private @scores(%q: tensor<4x16x8xbf16>, %k: tensor<4x8x16xbf16>, %mask: tensor<16x16xi1>, %out: tensor<4x16x16xf32>) -> tensor<4x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %scale = arith.constant 0.5 : f32
  %last = arith.constant 7 : index
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0 = linalg.generic {indexing_maps = [#lhs, affine_map<(b, i, j, d) -> (b, d, j)>, affine_map<(b, i, j, d) -> (i, j)>, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k, %mask : tensor<4x16x8xbf16>, tensor<4x8x16xbf16>, tensor<16x16xi1>) outs(%start : tensor<4x16x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %seen: i1, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.mulf %4, %scale : f32
    %8 = arith.select %seen, %7, %least : f32
    %9 = arith.select %6, %8, %4 : f32
    linalg.yield %9 : f32
  } -> tensor<4x16x16xf32>
  return %0 : tensor<4x16x16xf32>
}
func.func private @most(%s: tensor<4x16x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %least = arith.constant 0xFF800000 : f32
  %start = linalg.fill ins(%least : f32) outs(%out : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#point, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%s : tensor<4x16x16xf32>) outs(%start : tensor<4x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %1 = arith.maximumf %a, %old : f32
    linalg.yield %1 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func private @power(%s: tensor<4x16x16xf32>, %most: tensor<4x16xf32>, %out: tensor<4x16x16xf32>) -> tensor<4x16x16xf32> {
  %0 = linalg.generic {indexing_maps = [#point, #row, #point], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %most : tensor<4x16x16xf32>, tensor<4x16xf32>) outs(%out : tensor<4x16x16xf32>) {
  ^bb0(%a: f32, %m: f32, %old: f32):
    %1 = arith.subf %a, %m : f32
    %2 = math.exp %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x16x16xf32>
  return %0 : tensor<4x16x16xf32>
}
func.func private @sum(%p: tensor<4x16x16xf32>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.generic {indexing_maps = [#point, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p : tensor<4x16x16xf32>) outs(%start : tensor<4x16xf32>) {
  ^bb0(%a: f32, %old: f32):
    %1 = arith.addf %a, %old : f32
    linalg.yield %1 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func private @values(%p: tensor<4x16x16xf32>, %sum: tensor<4x16xf32>, %v: tensor<4x16x8xbf16>, %out: tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 15 : index
  %e = tensor.empty() : tensor<4x16x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, affine_map<(b, i, e, j) -> (b, i)>, #values, #out, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %sum, %v : tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x8xbf16>) outs(%start, %out : tensor<4x16x8xf32>, tensor<4x16x8xbf16>) {
  ^bb0(%a: f32, %total: f32, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.divf %a, %total : f32
    %2 = arith.truncf %1 : f32 to bf16
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.extf %b : bf16 to f32
    %5 = arith.mulf %3, %4 : f32
    %6 = arith.addf %s, %5 : f32
    %7 = linalg.index 3 : index
    %8 = arith.cmpi eq, %7, %last : index
    %9 = arith.truncf %6 : f32 to bf16
    %10 = arith.select %8, %9, %old : bf16
    linalg.yield %6, %10 : f32, bf16
  } -> (tensor<4x16x8xf32>, tensor<4x16x8xbf16>)
  return %0#1 : tensor<4x16x8xbf16>
}
