// RUN: inferno-opt %s -p outline-kernels --split-input-file | FileCheck %s

// A contraction of two results that are both used has two destinations; a tensor that is read twice is one argument.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @matmul{{.*}}(%arg0, %{{.*}}, %{{.*}}) {{.*}} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xbf16>) -> (tensor<8x8xf32>, tensor<8x8xbf16>)
// CHECK: return %[[R]]#1, %[[R]]#0
// CHECK-LABEL: func.func private @matmul
// CHECK-SAME: (%[[X:.*]]: tensor<8x8xf32>, %[[SUM:.*]]: tensor<8x8xf32>, %[[OUT:.*]]: tensor<8x8xbf16>) -> (tensor<8x8xf32>, tensor<8x8xbf16>)
// CHECK-NOT: tensor.empty
// CHECK: %[[F:.*]] = linalg.fill {{.*}} outs(%[[SUM]]
// CHECK: %[[K:.*]]:2 = linalg.generic {{.*}} ins(%[[X]], %[[X]] : {{.*}} outs(%[[F]],
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xbf16>, tensor<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c7 = arith.constant 7 : index
  %e = tensor.empty() : tensor<8x8xf32>
  %v = tensor.empty() : tensor<8x8xbf16>
  %acc = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %0:2 = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%acc, %v : tensor<8x8xf32>, tensor<8x8xbf16>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %old: bf16):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c7 : index
    %t = arith.truncf %s : f32 to bf16
    %y = arith.select %last, %t, %old : bf16
    linalg.yield %s, %y : f32, bf16
  } -> (tensor<8x8xf32>, tensor<8x8xbf16>)
  return %0#1, %0#0 : tensor<8x8xbf16>, tensor<8x8xf32>
}

// -----

// Sizes of 0 and tensors of no dimensions are sizes like others.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @exp(%arg0, %{{.*}}) {{.*}} -> tensor<0x4xf32>
// CHECK: %[[B:.*]] = call @exp_1(%arg1, %{{.*}}) {{.*}} -> tensor<f32>
// CHECK: return %[[A]], %[[B]]
// CHECK-LABEL: func.func private @exp(
// CHECK-LABEL: func.func private @exp_1(
func.func @main(%x: tensor<0x4xf32>, %y: tensor<f32>) -> (tensor<0x4xf32>, tensor<f32>) {
  %e = tensor.empty() : tensor<0x4xf32>
  %e1 = tensor.empty() : tensor<f32>
  %0 = linalg.exp ins(%x : tensor<0x4xf32>) outs(%e : tensor<0x4xf32>) -> tensor<0x4xf32>
  %1 = linalg.exp ins(%y : tensor<f32>) outs(%e1 : tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<0x4xf32>, tensor<f32>
}

// -----

// A function that is there already keeps its name; a result that is returned twice is computed once.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @exp_1(%arg0, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[A]], %[[A]]
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}
func.func private @exp(tensor<4xf32>) -> tensor<4xf32>

// -----

// What two kernels share that costs nothing is in both; what one of them computes is read by the other.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @mulf(%arg0, %{{.*}})
// CHECK: %[[B:.*]] = call @reduce_addf(%[[A]], %{{.*}})
// CHECK: return %[[B]]
// CHECK-LABEL: func.func private @mulf(
// CHECK-NEXT: arith.constant 2.0
// CHECK-NEXT: linalg.generic
// CHECK-LABEL: func.func private @reduce_addf(
// CHECK-DAG: arith.constant 2.0
// CHECK: linalg.fill
// CHECK: linalg.generic
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %es = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %two : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  %f = linalg.fill ins(%two : f32) outs(%es : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%0 : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Parts of what has sizes that vary are read where they are, too, at places that are numbers or sizes.
// CHECK-LABEL: func.func @main
// CHECK: call @addf(%arg1, %{{.*}}, %arg0, %{{.*}})
// CHECK-NOT: call
// CHECK-LABEL: func.func private @addf
// CHECK-SAME: (%arg0: index {{{.*}}inferno.symbol = "n0"}, %arg1: index {{{.*}}inferno.symbol = "n1"}
// CHECK-DAG: tensor.extract_slice %{{.*}}[0, 4] [%{{.*}}, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
// CHECK-DAG: tensor.extract_slice %{{.*}}[%{{.*}}, 0] [%{{.*}}, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
// CHECK: linalg.generic
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<?x8xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 8)>},
                %n: index {inferno.divisor = 2 : i64, inferno.hint = 64 : i64, inferno.range = [2, 4096], inferno.symbol = "s0"}) -> tensor<?x4xf32> {
  %two = arith.constant 2 : index
  %half = arith.floordivsi %n, %two : index
  %a = tensor.extract_slice %x[0, 4] [%half, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
  %b = tensor.extract_slice %x[%half, 0] [%half, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
  %e = tensor.empty(%half) : tensor<?x4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<?x4xf32>, tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// A size that is computed by a map, as canonicalization makes it of a reshape's, stays in @main.
// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = affine.apply
// CHECK: %[[A:.*]] = call @exp({{.*}}) {{.*}} -> tensor<?xf32>
// CHECK: %[[B:.*]] = tensor.expand_shape %[[A]] {{\[}}[0, 1]] output_shape [%[[N]], 1]
// CHECK: return %[[B]]
func.func @main(%x: tensor<?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1)>},
                %b: index {inferno.divisor = 1 : i64, inferno.hint = 2 : i64, inferno.range = [2, 512], inferno.symbol = "s0"},
                %t: index {inferno.divisor = 1 : i64, inferno.hint = 12 : i64, inferno.range = [2, 512], inferno.symbol = "s1"}) -> tensor<?x1xf32> {
  %n = affine.apply affine_map<()[s0, s1] -> (s0 * s1)>()[%b, %t]
  %rows = tensor.collapse_shape %x [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.exp ins(%rows : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %column = tensor.expand_shape %y [[0, 1]] output_shape [%n, 1] : tensor<?xf32> into tensor<?x1xf32>
  return %column : tensor<?x1xf32>
}

// -----

// A number that may be below 0 is made in the kernel, of the size: an argument never is.
// CHECK-LABEL: func.func @main
// CHECK: call @[[NAME:.*]](%arg1, %{{.*}}) {{.*}} : (index, tensor<4xi64>) -> tensor<4xi64>
// CHECK: func.func private @[[NAME]](%arg0: index {{{.*}}inferno.range = [0, 99], inferno.symbol = "n0"}, %arg1: tensor<4xi64>)
// CHECK: %[[LESS:.*]] = arith.addi %arg0, %c-3
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[LESS]] : index to i64
// CHECK: linalg.generic
// CHECK: arith.maxsi %[[NUMBER]]
#row = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 64 : i64, inferno.range = [0, 99], inferno.symbol = "s0"}) -> tensor<4xi64> {
  %three = arith.constant -3 : index
  %less = arith.addi %n, %three : index
  %number = arith.index_cast %less : index to i64
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<4xi64>
  %0 = linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]} outs(%e : tensor<4xi64>) {
  ^bb0(%o: i64):
    %s = arith.maxsi %number, %zero : i64
    linalg.yield %s : i64
  } -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
