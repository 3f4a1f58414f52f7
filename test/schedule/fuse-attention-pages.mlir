// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=APART

#point = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>
#values = affine_map<(b, i, j, d) -> (b, d, j)>

// Keys that a table finds, in pages of four, are read where they are.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @pages
// CHECK: call @attention(%arg1, %arg3, %arg0, %arg2, %{{.*}}) {inferno.source = ["pages", "scores", "softmax", "values"]}
// CHECK-NOT: call
// CHECK: func.func private @attention(%[[K:.*]]: tensor<9x4x8xbf16>, %{{.*}}: tensor<4x4xi32>,
// CHECK: tensor.extract %[[K]]
// CHECK-NOT: func.func private @pages
// APART-LABEL: func.func @main
// APART-COUNT-6: call @
func.func @main(%q: tensor<4x16x8xbf16>, %k: tensor<9x4x8xbf16>, %v: tensor<4x16x8xbf16>, %table: tensor<4x4xi32>) -> tensor<4x16x8xbf16> {
  %t = tensor.empty() : tensor<4x4x4x8xbf16>
  %own = call @pages(%k, %table, %t) {inferno.source = ["pages"]} : (tensor<9x4x8xbf16>, tensor<4x4xi32>, tensor<4x4x4x8xbf16>) -> tensor<4x4x4x8xbf16>
  %kt = tensor.collapse_shape %own [[0], [1, 2], [3]] : tensor<4x4x4x8xbf16> into tensor<4x16x8xbf16>
  %e0 = tensor.empty() : tensor<4x16x16xf32>
  %s = call @scores(%q, %kt, %e0) {inferno.source = ["scores"]} : (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %most = call @most(%s, %e1) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16x16xf32>
  %p = call @power(%s, %most, %e2) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e3 = tensor.empty() : tensor<4x16xf32>
  %sum = call @sum(%p, %e3) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e4 = tensor.empty() : tensor<4x16x8xbf16>
  %o = call @values(%p, %sum, %v, %e4) {inferno.source = ["values"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %o : tensor<4x16x8xbf16>
}
func.func private @pages(%k: tensor<9x4x8xbf16>, %table: tensor<4x4xi32>, %out: tensor<4x4x4x8xbf16>) -> tensor<4x4x4x8xbf16> {
  %zero = arith.constant 0 : i64
  %count = arith.constant 9 : i64
  %0 = linalg.generic {indexing_maps = [affine_map<(b, n, i, d) -> (b, n)>, affine_map<(b, n, i, d) -> (b, n, i, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%table : tensor<4x4xi32>) outs(%out : tensor<4x4x4x8xbf16>) {
  ^bb0(%said: i32, %old: bf16):
    %1 = arith.extsi %said : i32 to i64
    %2 = arith.cmpi slt, %1, %zero : i64
    %3 = arith.addi %1, %count : i64
    %4 = arith.select %2, %3, %1 : i64
    %page = arith.index_cast %4 : i64 to index
    %row = linalg.index 2 : index
    %column = linalg.index 3 : index
    %5 = tensor.extract %k[%page, %row, %column] : tensor<9x4x8xbf16>
    linalg.yield %5 : bf16
  } -> tensor<4x4x4x8xbf16>
  return %0 : tensor<4x4x4x8xbf16>
}
func.func private @scores(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %out: tensor<4x16x16xf32>) -> tensor<4x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.5 : f32
  %last = arith.constant 7 : index
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) outs(%start : tensor<4x16x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.mulf %4, %scale : f32
    %9 = arith.select %6, %7, %4 : f32
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

// -----
#point = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>
#values = affine_map<(b, i, j, d) -> (b, d, j)>

// Single keys are no pages: the copy is made.
// CHECK-LABEL: func.func @main
// CHECK: call @pages
// CHECK: call @attention({{.*}}) {inferno.source = ["scores", "softmax", "values"]}
// CHECK-NOT: call
func.func @main(%q: tensor<4x16x8xbf16>, %k: tensor<9x1x8xbf16>, %v: tensor<4x16x8xbf16>, %table: tensor<4x16xi32>) -> tensor<4x16x8xbf16> {
  %t = tensor.empty() : tensor<4x16x1x8xbf16>
  %own = call @pages(%k, %table, %t) {inferno.source = ["pages"]} : (tensor<9x1x8xbf16>, tensor<4x16xi32>, tensor<4x16x1x8xbf16>) -> tensor<4x16x1x8xbf16>
  %kt = tensor.collapse_shape %own [[0], [1, 2], [3]] : tensor<4x16x1x8xbf16> into tensor<4x16x8xbf16>
  %e0 = tensor.empty() : tensor<4x16x16xf32>
  %s = call @scores(%q, %kt, %e0) {inferno.source = ["scores"]} : (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %most = call @most(%s, %e1) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16x16xf32>
  %p = call @power(%s, %most, %e2) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e3 = tensor.empty() : tensor<4x16xf32>
  %sum = call @sum(%p, %e3) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e4 = tensor.empty() : tensor<4x16x8xbf16>
  %o = call @values(%p, %sum, %v, %e4) {inferno.source = ["values"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %o : tensor<4x16x8xbf16>
}
func.func private @pages(%k: tensor<9x1x8xbf16>, %table: tensor<4x16xi32>, %out: tensor<4x16x1x8xbf16>) -> tensor<4x16x1x8xbf16> {
  %zero = arith.constant 0 : i64
  %count = arith.constant 9 : i64
  %0 = linalg.generic {indexing_maps = [affine_map<(b, n, i, d) -> (b, n)>, affine_map<(b, n, i, d) -> (b, n, i, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%table : tensor<4x16xi32>) outs(%out : tensor<4x16x1x8xbf16>) {
  ^bb0(%said: i32, %old: bf16):
    %1 = arith.extsi %said : i32 to i64
    %2 = arith.cmpi slt, %1, %zero : i64
    %3 = arith.addi %1, %count : i64
    %4 = arith.select %2, %3, %1 : i64
    %page = arith.index_cast %4 : i64 to index
    %row = linalg.index 2 : index
    %column = linalg.index 3 : index
    %5 = tensor.extract %k[%page, %row, %column] : tensor<9x1x8xbf16>
    linalg.yield %5 : bf16
  } -> tensor<4x16x1x8xbf16>
  return %0 : tensor<4x16x1x8xbf16>
}
func.func private @scores(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %out: tensor<4x16x16xf32>) -> tensor<4x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.5 : f32
  %last = arith.constant 7 : index
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) outs(%start : tensor<4x16x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.mulf %4, %scale : f32
    %9 = arith.select %6, %7, %4 : f32
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

// -----

#point = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>
#values = affine_map<(b, i, j, d) -> (b, d, j)>

// What is written to in front of the rest is gathered first: else the old cache would have to stay.
// CHECK-LABEL: func.func @main
// CHECK: call @pages
// CHECK: call @write
// CHECK: call @attention({{.*}}) {inferno.source = ["scores", "softmax", "values"]}
func.func @main(%q: tensor<4x16x8xbf16>, %k: tensor<9x4x8xbf16>, %v: tensor<4x16x8xbf16>, %table: tensor<4x4xi32>) -> (tensor<4x16x8xbf16>, tensor<9x4x8xbf16>) {
  %t = tensor.empty() : tensor<4x4x4x8xbf16>
  %own = call @pages(%k, %table, %t) {inferno.source = ["pages"]} : (tensor<9x4x8xbf16>, tensor<4x4xi32>, tensor<4x4x4x8xbf16>) -> tensor<4x4x4x8xbf16>
  %kt = tensor.collapse_shape %own [[0], [1, 2], [3]] : tensor<4x4x4x8xbf16> into tensor<4x16x8xbf16>
  %n = tensor.empty() : tensor<9x4x8xbf16>
  %new = call @write(%k, %n) : (tensor<9x4x8xbf16>, tensor<9x4x8xbf16>) -> tensor<9x4x8xbf16>
  %e0 = tensor.empty() : tensor<4x16x16xf32>
  %s = call @scores(%q, %kt, %e0) {inferno.source = ["scores"]} : (tensor<4x16x8xbf16>, tensor<4x16x8xbf16>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %most = call @most(%s, %e1) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16x16xf32>
  %p = call @power(%s, %most, %e2) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %e3 = tensor.empty() : tensor<4x16xf32>
  %sum = call @sum(%p, %e3) {inferno.source = ["softmax"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %e4 = tensor.empty() : tensor<4x16x8xbf16>
  %o = call @values(%p, %sum, %v, %e4) {inferno.source = ["values"]} : (tensor<4x16x16xf32>, tensor<4x16xf32>, tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) -> tensor<4x16x8xbf16>
  return %o, %new : tensor<4x16x8xbf16>, tensor<9x4x8xbf16>
}
func.func private @pages(%k: tensor<9x4x8xbf16>, %table: tensor<4x4xi32>, %out: tensor<4x4x4x8xbf16>) -> tensor<4x4x4x8xbf16> {
  %zero = arith.constant 0 : i64
  %count = arith.constant 9 : i64
  %0 = linalg.generic {indexing_maps = [affine_map<(b, n, i, d) -> (b, n)>, affine_map<(b, n, i, d) -> (b, n, i, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%table : tensor<4x4xi32>) outs(%out : tensor<4x4x4x8xbf16>) {
  ^bb0(%said: i32, %old: bf16):
    %1 = arith.extsi %said : i32 to i64
    %2 = arith.cmpi slt, %1, %zero : i64
    %3 = arith.addi %1, %count : i64
    %4 = arith.select %2, %3, %1 : i64
    %page = arith.index_cast %4 : i64 to index
    %row = linalg.index 2 : index
    %column = linalg.index 3 : index
    %5 = tensor.extract %k[%page, %row, %column] : tensor<9x4x8xbf16>
    linalg.yield %5 : bf16
  } -> tensor<4x4x4x8xbf16>
  return %0 : tensor<4x4x4x8xbf16>
}
func.func private @scores(%q: tensor<4x16x8xbf16>, %k: tensor<4x16x8xbf16>, %out: tensor<4x16x16xf32>) -> tensor<4x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.5 : f32
  %last = arith.constant 7 : index
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x16x8xbf16>, tensor<4x16x8xbf16>) outs(%start : tensor<4x16x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 3 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.mulf %4, %scale : f32
    %9 = arith.select %6, %7, %4 : f32
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
func.func private @write(%k: tensor<9x4x8xbf16>, %out: tensor<9x4x8xbf16>) -> tensor<9x4x8xbf16> {
  %0 = linalg.generic {indexing_maps = [#point, #point], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%k : tensor<9x4x8xbf16>) outs(%out : tensor<9x4x8xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %1 = arith.addf %a, %a : bf16
    linalg.yield %1 : bf16
  } -> tensor<9x4x8xbf16>
  return %0 : tensor<9x4x8xbf16>
}
