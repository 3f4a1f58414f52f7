// RUN: inferno-opt %s -p 'split-contractions,func.func(canonicalize,cse)' | FileCheck %s
// RUN: inferno-opt %s -p 'split-contractions,func.func(canonicalize,cse)' > %t.split
// RUN: inferno-opt %s -p 'split-contractions,join-contractions,split-contractions,func.func(canonicalize,cse)' | diff %t.split -

#id = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#t = affine_map<(m, n, k) -> (n, m)>
#row = affine_map<(m, n, k) -> (n)>
#step = affine_map<(m, n, k) -> (k)>

/// A kernel that passes its destination: the sum gets a tensor of its own, the value the destination.
// CHECK-LABEL: func.func private @kernel
// CHECK-SAME: %[[X:.*]]: tensor<4x16xf32>, %[[W:.*]]: tensor<16x8xf32>, %[[B:.*]]: tensor<8xf32>, %[[OUT:.*]]: tensor<8x4xf32>)
// CHECK: %[[E:.*]] = tensor.empty() : tensor<8x4xf32>
// CHECK: %[[F:.*]] = linalg.fill {{.*}} outs(%[[E]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[W]] : tensor<4x16xf32>, tensor<16x8xf32>) outs(%[[F]]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: linalg.yield
// CHECK: %[[Y:.*]] = linalg.generic {{.*}}["parallel", "parallel"]} ins(%[[S]], %[[B]] : tensor<8x4xf32>, tensor<8xf32>) outs(%[[OUT]]
// CHECK: math.exp
// CHECK: return %[[Y]]
func.func private @kernel(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %bias: tensor<8xf32>, %out: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %c15 = arith.constant 15 : index
  %f = linalg.fill ins(%zero : f32) outs(%out : tensor<8x4xf32>) -> tensor<8x4xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #row, #t], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w, %bias : tensor<4x16xf32>, tensor<16x8xf32>, tensor<8xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %m, %o : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c15 : index
    %v = arith.addf %s, %r : f32
    %e = math.exp %v : f32
    %y = arith.select %last, %e, %s : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

/// What happens before: a map for each factor, over the loops that it needs; an extension alone is one too, if the other is no extension.
// CHECK-LABEL: func.func @prologue
// CHECK: %[[X:.*]] = linalg.generic {{.*}}["parallel", "parallel"]} ins(%arg0 : tensor<4x16xbf16>) outs(%{{.*}} : tensor<4x16xf32>)
// CHECK: arith.extf
// CHECK: %[[V:.*]] = linalg.generic {{.*}}["parallel"]} ins(%arg1 : tensor<16xbf16>) outs(%{{.*}} : tensor<16xf32>)
// CHECK: linalg.index 0
// CHECK: arith.select
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[V]] : tensor<4x16xf32>, tensor<16xf32>) outs(%{{.*}} : tensor<4x8xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: linalg.yield
// CHECK-NOT: linalg.generic
// CHECK: return %[[S]]
func.func @prologue(%x: tensor<4x16xbf16>, %v: tensor<16xbf16>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c7 = arith.constant 7 : index
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #step, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<4x16xbf16>, tensor<16xbf16>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: bf16, %q: bf16, %o: f32):
    %pw = arith.extf %p : bf16 to f32
    %qw = arith.extf %q : bf16 to f32
    %k = linalg.index 2 : index
    %first = arith.cmpi slt, %k, %c7 : index
    %z = arith.select %first, %qw, %zero : f32
    %m = arith.mulf %pw, %z : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

/// Two results, both of them used: the sum and the value.
// CHECK-LABEL: func.func @both
// CHECK: %[[S:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: arith.addf
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xbf16>)
// CHECK: arith.truncf
// CHECK: return %[[S]], %[[Y]]
func.func @both(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>) {
  %zero = arith.constant 0.0 : f32
  %c15 = arith.constant 15 : index
  %e = tensor.empty() : tensor<4x8xf32>
  %e16 = tensor.empty() : tensor<4x8xbf16>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0:2 = linalg.generic {indexing_maps = [#a, #b, #c, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f, %e16 : tensor<4x8xf32>, tensor<4x8xbf16>) {
  ^bb0(%p: f32, %q: f32, %o: f32, %old: bf16):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c15 : index
    %v = arith.truncf %s : f32 to bf16
    %y = arith.select %last, %v, %old : bf16
    linalg.yield %s, %y : f32, bf16
  } -> (tensor<4x8xf32>, tensor<4x8xbf16>)
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xbf16>
}

/// A sum that starts from a tensor goes on starting from it.
// CHECK-LABEL: func.func @start
// CHECK: %[[S:.*]] = linalg.generic {{.*}} outs(%arg2 : tensor<4x8xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: linalg.yield
// CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: math.exp
// CHECK: return
func.func @start(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %start: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c15 = arith.constant 15 : index
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%start : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c15 : index
    %v = math.exp %s : f32
    %y = arith.select %last, %v, %s : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

/// Left alone: a plain contraction, another step than the last, a value made of an earlier sum, and sizes that are not known.
// CHECK-LABEL: func.func @plain
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1
// CHECK-NOT: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @first_step
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @earlier_sum
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @dynamic
// CHECK: arith.select
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @plain(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %f: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @first_step(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 0 : index
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c : index
    %v = math.exp %s : f32
    %y = arith.select %last, %v, %s : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @earlier_sum(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 15 : index
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c : index
    %v = arith.mulf %s, %o : f32
    %y = arith.select %last, %v, %s : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @dynamic(%x: tensor<4x?xf32>, %w: tensor<?x8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant 15 : index
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x?xf32>, tensor<?x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %o, %m : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c : index
    %v = math.exp %s : f32
    %y = arith.select %last, %v, %s : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

/// The value has nothing to do with the sum: it is a constant from outside of the body.
// CHECK-LABEL: func.func private @constant
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]} {{.*}}outs(
// CHECK: linalg.yield %{{.*}}cst
func.func private @constant(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c15 = arith.constant 15 : index
  %f = linalg.fill ins(%zero : f32) outs(%out : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %acc: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %acc, %1 : f32
    %3 = linalg.index 2 : index
    %4 = arith.cmpi eq, %3, %c15 : index
    %5 = arith.select %4, %zero, %2 : f32
    linalg.yield %5 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

/// What a branch alone reads goes with it.
// CHECK-LABEL: func.func private @branch
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]} {{.*}}outs(
// CHECK: %[[COLUMN:.*]] = linalg.index 1
// CHECK: scf.if
// CHECK-NEXT: arith.index_cast %[[COLUMN]]
func.func private @branch(%x: tensor<4x16xi64>, %w: tensor<16x8xi64>, %out: tensor<4x8xi64>) -> tensor<4x8xi64> {
  %zero = arith.constant 0 : i64
  %c15 = arith.constant 15 : index
  %f = linalg.fill ins(%zero : i64) outs(%out : tensor<4x8xi64>) -> tensor<4x8xi64>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x16xi64>, tensor<16x8xi64>) outs(%f : tensor<4x8xi64>) {
  ^bb0(%in: i64, %in_0: i64, %acc: i64):
    %1 = arith.muli %in, %in_0 : i64
    %2 = arith.addi %acc, %1 : i64
    %3 = linalg.index 2 : index
    %4 = arith.cmpi eq, %3, %c15 : index
    %5 = arith.cmpi sgt, %2, %zero : i64
    %6 = linalg.index 1 : index
    %7 = scf.if %5 -> (i64) {
      %9 = arith.index_cast %6 : index to i64
      scf.yield %9 : i64
    } else {
      scf.yield %zero : i64
    }
    %8 = arith.select %4, %7, %2 : i64
    linalg.yield %8 : i64
  } -> tensor<4x8xi64>
  return %0 : tensor<4x8xi64>
}
