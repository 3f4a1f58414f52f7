// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a always=1}' --split-input-file | FileCheck %s

#point = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>
#values = affine_map<(b, i, j, d) -> (b, d, j)>

// Exponentials of scores, without the largest one of a row, over their sum and 1: a softmax with a further score of 0 in each row.
// CHECK-LABEL: func.func @main
// CHECK: %[[O:.*]] = call @attention(%arg0, %arg1, %arg2, {{.*}}) {inferno.source = ["scores", "sum", "values"]}
// CHECK-NEXT: return %[[O]]
// CHECK: func.func private @attention
// CHECK-NOT: func.func private
func.func @main(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16> {
  %e0 = tensor.empty() : tensor<4x16x16xbf16>
  %p = call @powers(%q, %k, %e0) {inferno.source = ["scores"]} : (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16>
  %e1 = tensor.empty() : tensor<4x16xbf16>
  %sum = call @sum(%p, %e1) {inferno.source = ["sum"]} : (tensor<4x16x16xbf16>, tensor<4x16xbf16>) -> tensor<4x16xbf16>
  %e2 = tensor.empty() : tensor<4x16x8xbf16>
  %o = call @values(%p, %sum, %v, %e2) {inferno.source = ["values"]} : (tensor<4x16x16xbf16>, tensor<4x16xbf16>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %o : tensor<4x16x8xbf16>
}
func.func private @powers(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %out: tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.5 : f32
  %last = arith.constant 7 : index
  %e = tensor.empty() : tensor<4x16x16xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, #rhs, #out, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) outs(%start, %out : tensor<4x16x16xf32>, tensor<4x16x16xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.mulf %4, %scale : f32
    %8 = math.exp %7 : f32
    %9 = arith.truncf %8 : f32 to bf16
    %10 = arith.select %6, %9, %old : bf16
    linalg.yield %4, %10 : f32, bf16
  } -> (tensor<4x16x16xf32>, tensor<4x16x16xbf16>)
  return %0#1 : tensor<4x16x16xbf16>
}
func.func private @sum(%p: tensor<4x16x16xbf16>, %out: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  %zero = arith.constant 0.0 : bf16
  %start = linalg.fill ins(%zero : bf16) outs(%out : tensor<4x16xbf16>) -> tensor<4x16xbf16>
  %0 = linalg.generic {indexing_maps = [#point, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p : tensor<4x16x16xbf16>) outs(%start : tensor<4x16xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %old : bf16 to f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.truncf %3 : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<4x16xbf16>
  return %0 : tensor<4x16xbf16>
}
func.func private @values(%p: tensor<4x16x16xbf16>, %sum: tensor<4x16xbf16>, %v: tensor<4x16x8xbf16>, %out: tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %last = arith.constant 15 : index
  %e = tensor.empty() : tensor<4x16x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, affine_map<(b, i, e, j) -> (b, i)>, #values, #out, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %sum, %v : tensor<4x16x16xbf16>, tensor<4x16xbf16>, tensor<4x16x8xbf16>) outs(%start, %out : tensor<4x16x8xf32>, tensor<4x16x8xbf16>) {
  ^bb0(%a: bf16, %total: bf16, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.extf %total : bf16 to f32
    %2 = arith.addf %1, %one : f32
    %3 = arith.extf %a : bf16 to f32
    %4 = arith.divf %3, %2 : f32
    %5 = arith.truncf %4 : f32 to bf16
    %6 = arith.extf %5 : bf16 to f32
    %7 = arith.extf %b : bf16 to f32
    %8 = arith.mulf %6, %7 : f32
    %9 = arith.addf %s, %8 : f32
    %10 = linalg.index 3 : index
    %11 = arith.cmpi eq, %10, %last : index
    %12 = arith.truncf %9 : f32 to bf16
    %13 = arith.select %11, %12, %old : bf16
    linalg.yield %9, %13 : f32, bf16
  } -> (tensor<4x16x8xf32>, tensor<4x16x8xbf16>)
  return %0#1 : tensor<4x16x8xbf16>
}

// -----

#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#shared = affine_map<(b, i, j, d) -> (j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>
#values = affine_map<(b, i, j, d) -> (b, d, j)>

// Weights that are made of each score alone, of several heads.  Two products with matrices that all have in common stay apart.
// CHECK-LABEL: func.func @main
// CHECK: %[[O:.*]] = call @attention(%arg0, %arg1, %arg2, {{.*}}) {inferno.source = ["scores", "values"]}
// CHECK: %[[H:.*]] = call @layer(
// CHECK: %[[Y:.*]] = call @values(%[[H]]
// CHECK: return %[[O]], %[[Y]]
// CHECK: func.func private @attention
// CHECK: arith.maximumf
func.func @main(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %v: tensor<4x16x8xbf16>, %w: tensor<16x8xbf16>) -> (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) {
  %e0 = tensor.empty() : tensor<4x16x16xbf16>
  %p = call @scores(%q, %k, %e0) {inferno.source = ["scores"]} : (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16>
  %e1 = tensor.empty() : tensor<4x16x8xbf16>
  %o = call @values(%p, %v, %e1) {inferno.source = ["values"]} : (tensor<4x16x16xbf16>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  %e2 = tensor.empty() : tensor<4x16x16xbf16>
  %h = call @layer(%q, %w, %e2) {inferno.source = ["layer"]} : (tensor<4x16x8xbf16>, tensor<16x8xbf16>, tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16>
  %e3 = tensor.empty() : tensor<4x16x8xbf16>
  %y = call @values(%h, %v, %e3) {inferno.source = ["layer"]} : (tensor<4x16x16xbf16>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %o, %y : tensor<4x16x8xbf16>, tensor<4x16x8xbf16>
}
func.func private @scores(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %out: tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 7 : index
  %e = tensor.empty() : tensor<4x16x16xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, #rhs, #out, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) outs(%start, %out : tensor<4x16x16xf32>, tensor<4x16x16xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.maximumf %4, %zero : f32
    %8 = arith.truncf %7 : f32 to bf16
    %9 = arith.select %6, %8, %old : bf16
    linalg.yield %4, %9 : f32, bf16
  } -> (tensor<4x16x16xf32>, tensor<4x16x16xbf16>)
  return %0#1 : tensor<4x16x16xbf16>
}
func.func private @layer(%q: tensor<4x16x8xbf16>, %k: tensor<16x8xbf16>, %out: tensor<4x16x16xbf16>) -> tensor<4x16x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 7 : index
  %e = tensor.empty() : tensor<4x16x16xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, #shared, #out, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x16x8xbf16>, tensor<16x8xbf16>) outs(%start, %out : tensor<4x16x16xf32>, tensor<4x16x16xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.maximumf %4, %zero : f32
    %8 = arith.truncf %7 : f32 to bf16
    %9 = arith.select %6, %8, %old : bf16
    linalg.yield %4, %9 : f32, bf16
  } -> (tensor<4x16x16xf32>, tensor<4x16x16xbf16>)
  return %0#1 : tensor<4x16x16xbf16>
}
func.func private @values(%p: tensor<4x16x16xbf16>, %v: tensor<4x16x8xbf16>, %out: tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 15 : index
  %e = tensor.empty() : tensor<4x16x8xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, #values, #out, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<4x16x16xbf16>, tensor<4x16x8xbf16>) outs(%start, %out : tensor<4x16x8xf32>, tensor<4x16x8xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.truncf %4 : f32 to bf16
    %8 = arith.select %6, %7, %old : bf16
    linalg.yield %4, %8 : f32, bf16
  } -> (tensor<4x16x8xf32>, tensor<4x16x8xbf16>)
  return %0#1 : tensor<4x16x8xbf16>
}
