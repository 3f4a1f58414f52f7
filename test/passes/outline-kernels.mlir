// RUN: inferno-opt %s -p outline-kernels --split-input-file | FileCheck %s

// A fill moves into the kernel and fills the destination; one that two kernels use is cloned into both.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32> {inferno.name = "x"}, %[[W:.*]]: tensor<8x16xf32>)
// CHECK-NEXT: %[[E0:.*]] = tensor.empty() : tensor<4x16xf32>
// CHECK-NEXT: %[[M:.*]] = call @matmul(%[[X]], %[[W]], %[[E0]]) {inferno.source = ["linear (model.py:12)"]}
// CHECK-NEXT: %[[E1:.*]] = tensor.empty() : tensor<16xf32>
// CHECK-NEXT: %[[S:.*]] = call @reduce_addf(%[[M]], %[[E1]])
// CHECK-NEXT: return %[[M]], %[[S]]
// CHECK-LABEL: func.func private @matmul
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8x16xf32>, %[[OUT:.*]]: tensor<4x16xf32>) -> tensor<4x16xf32>
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: %[[FILLED:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%[[OUT]]
// CHECK-NEXT: %[[R:.*]] = linalg.matmul ins(%[[A]], %[[B]] : tensor<4x8xf32>, tensor<8x16xf32>) outs(%[[FILLED]]
// CHECK-NEXT: return %[[R]]
// CHECK-LABEL: func.func private @reduce_addf
// CHECK: linalg.fill
// CHECK-NEXT: linalg.generic
func.func @main(%x: tensor<4x8xf32> {inferno.name = "x"}, %w: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x16xf32>) outs(%fill : tensor<4x16xf32>) -> tensor<4x16xf32> loc("linear"("dir/model.py":12:3))
  %e1 = tensor.empty() : tensor<16xf32>
  %fill1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<16xf32>) -> tensor<16xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%0 : tensor<4x16xf32>) outs(%fill1 : tensor<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  return %0, %1 : tensor<4x16xf32>, tensor<16xf32>
}

// -----

// A fused contraction: the accumulator is the kernel's own, only the live result has a destination.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul_maximumf(%arg0, %arg1, %{{.*}}) {{.*}} -> tensor<4x16xbf16>
// CHECK-LABEL: func.func private @matmul_maximumf
// CHECK-SAME: %[[OUT:[a-z0-9]*]]: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4x16xf32>
// CHECK: %[[ACC:.*]] = linalg.fill {{.*}} outs(%[[E]]
// CHECK: %[[R:.*]]:2 = linalg.generic
// CHECK-SAME: outs(%[[ACC]], %[[OUT]] : tensor<4x16xf32>, tensor<4x16xbf16>)
// CHECK: return %[[R]]#1
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) -> tensor<4x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %c7 = arith.constant 7 : index
  %e = tensor.empty() : tensor<4x16xf32>
  %v = tensor.empty() : tensor<4x16xbf16>
  %acc = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0:2 = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x8xbf16>, tensor<8x16xbf16>) outs(%acc, %v : tensor<4x16xf32>, tensor<4x16xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %c: f32, %old: bf16):
    %aw = arith.extf %a : bf16 to f32
    %bw = arith.extf %b : bf16 to f32
    %p = arith.mulf %aw, %bw : f32
    %s = arith.addf %c, %p : f32
    %k = linalg.index 2 : index
    %last = arith.cmpi eq, %k, %c7 : index
    %r = arith.maximumf %s, %zero : f32
    %t = arith.truncf %r : f32 to bf16
    %y = arith.select %last, %t, %old : bf16
    linalg.yield %s, %y : f32, bf16
  } -> (tensor<4x16xf32>, tensor<4x16xbf16>)
  return %0#1 : tensor<4x16xbf16>
}

// -----

// An elementwise operation computes into the destination; `outs` that it does not read are dropped, those that it reads are copied.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg
// CHECK: return
// CHECK-LABEL: func.func private @exp(
// CHECK-SAME: %arg0: tensor<8xf32>, %[[OUT:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[R:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<8xf32>) outs(%[[OUT]] : tensor<8xf32>)
// CHECK-LABEL: func.func private @addf(
// CHECK-SAME: %[[IN:.*]]: tensor<8xf32>, %[[OLD:.*]]: tensor<8xf32>, %[[OUT:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[COPY:.*]] = linalg.copy {{.*}} ins(%[[OLD]] {{.*}} outs(%[[OUT]]
// CHECK-NEXT: linalg.generic {{.*}} ins(%[[IN]] : tensor<8xf32>) outs(%[[COPY]] : tensor<8xf32>)
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%y : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// Reshapes stay in @main, and what is returned as it came; a dead operation goes.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[FLAT:.*]] = tensor.collapse_shape %[[X]]
// CHECK-NEXT: return %[[X]], %[[FLAT]]
// CHECK-NOT: func.func
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<8xf32>) {
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %dead = linalg.exp ins(%flat : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  return %x, %flat : tensor<2x4xf32>, tensor<8xf32>
}

// -----

// A fill that is returned, reshaped or not, is a kernel; another user of it still has its own.
// CHECK-LABEL: func.func @main
// CHECK: %[[F:.*]] = call @fill
// CHECK: call @add(%arg0, %{{.*}})
// CHECK: %[[V:.*]] = tensor.expand_shape %[[F]]
// CHECK: return %{{.*}}, %[[V]]
// CHECK-LABEL: func.func private @add(
// CHECK: linalg.fill
// CHECK: linalg.add ins(%arg0, %{{.*}} outs(%arg1
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<2x4xf32>) {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %0 = linalg.add ins(%x, %ones : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %view = tensor.expand_shape %ones [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  return %0, %view : tensor<8xf32>, tensor<2x4xf32>
}

// -----

// A view of a fill that a kernel reads goes into that kernel with it.
// CHECK-LABEL: func.func @main
// CHECK-NOT: expand_shape
// CHECK: call @batch_matmul
// CHECK-LABEL: func.func private @batch_matmul
// CHECK: linalg.fill
// CHECK: tensor.expand_shape
// CHECK: linalg.batch_matmul ins(%{{.*}}, %arg0
func.func @main(%x: tensor<1x4x8xf32>) -> tensor<1x2x8xf32> {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %view = tensor.expand_shape %ones [[0, 1], [2]] output_shape [1, 2, 4] : tensor<2x4xf32> into tensor<1x2x4xf32>
  %eo = tensor.empty() : tensor<1x2x8xf32>
  %acc = linalg.fill ins(%zero : f32) outs(%eo : tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
  %0 = linalg.batch_matmul ins(%view, %x : tensor<1x2x4xf32>, tensor<1x4x8xf32>) outs(%acc : tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
  return %0 : tensor<1x2x8xf32>
}

// -----

// Scalars that are read from tensors are computed in each kernel that needs them.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.extract
// CHECK: %[[A:.*]] = call @from_elements(%arg0, %{{.*}})
// CHECK: %[[B:.*]] = call @mulf(%arg1, %arg0, %{{.*}})
// CHECK: return %[[A]], %[[B]]
// CHECK-LABEL: func.func private @from_elements
// CHECK: tensor.extract
// CHECK: arith.addf
// CHECK-NEXT: %[[V:.*]] = tensor.from_elements
// CHECK-NEXT: linalg.copy {{.*}} ins(%[[V]] : tensor<f32>) outs(%arg1
// CHECK-LABEL: func.func private @mulf
// CHECK: tensor.extract %arg1
func.func @main(%s: tensor<f32>, %x: tensor<8xf32>) -> (tensor<f32>, tensor<8xf32>) {
  %one = arith.constant 1.0 : f32
  %v = tensor.extract %s[] : tensor<f32>
  %plus = arith.addf %v, %one : f32
  %t = tensor.from_elements %plus : tensor<f32>
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %plus : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  return %t, %0 : tensor<f32>, tensor<8xf32>
}

// -----

// A loop is one kernel; a scalar that it leaves is kept in a tensor for the kernels that read it.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]]:2 = call @scf_while(%arg0, %{{.*}}, %{{.*}}) {{.*}} -> (tensor<i64>, tensor<8xf32>)
// CHECK: %[[T:.*]] = call @from_elements(%[[W]]#0, %{{.*}})
// CHECK: return %[[W]]#1, %[[T]]
// CHECK-LABEL: func.func private @scf_while
// CHECK-SAME: %[[COUNT:[a-z0-9]*]]: tensor<i64>, %[[OUT:[a-z0-9]*]]: tensor<8xf32>) -> (tensor<i64>, tensor<8xf32>)
// CHECK: %[[R:.*]]:2 = scf.while
// CHECK: %[[N:.*]] = arith.index_cast %[[R]]#0 : index to i64
// CHECK: linalg.fill ins(%[[N]] : i64) outs(%[[COUNT]]
// CHECK: linalg.copy {{.*}} ins(%[[R]]#1 : tensor<8xf32>) outs(%[[OUT]]
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<index>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %limit = arith.constant 3 : index
  %0:2 = scf.while (%i = %c0, %t = %x) : (index, tensor<8xf32>) -> (index, tensor<8xf32>) {
    %more = arith.cmpi slt, %i, %limit : index
    scf.condition(%more) %i, %t : index, tensor<8xf32>
  } do {
  ^bb0(%i: index, %t: tensor<8xf32>):
    %e = tensor.empty() : tensor<8xf32>
    %n = linalg.exp ins(%t : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
    %next = arith.addi %i, %c1 : index
    scf.yield %next, %n : index, tensor<8xf32>
  }
  %count = tensor.from_elements %0#0 : tensor<index>
  return %0#1, %count : tensor<8xf32>, tensor<index>
}

// -----

// What has no `outs`: the value is copied; an update starts from a copy of what it updates.
// CHECK-LABEL: func.func @main
// CHECK-LABEL: func.func private @concat(
// CHECK: %[[V:.*]] = tensor.concat dim(0) %arg0, %arg0
// CHECK-NEXT: %[[R:.*]] = linalg.copy {{.*}} ins(%[[V]] {{.*}} outs(%arg1
// CHECK-NEXT: return %[[R]]
// CHECK-LABEL: func.func private @insert_slice(
// CHECK-SAME: %[[PART:.*]]: tensor<4xf32>, %[[OLD:.*]]: tensor<8xf32>, %[[OUT:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[COPY:.*]] = linalg.copy {{.*}} ins(%[[OLD]] {{.*}} outs(%[[OUT]]
// CHECK-NEXT: %[[R:.*]] = tensor.insert_slice %[[PART]] into %[[COPY]]
// CHECK-NEXT: return %[[R]]
func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %0 = tensor.concat dim(0) %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %1 = tensor.insert_slice %x into %0[2] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// torch-mlir's structured operations; scatter updates what it is given.
// CHECK-LABEL: func.func @main
// CHECK: call @tm_scatter(%arg1, %arg2, %arg0, %{{.*}})
// CHECK-LABEL: func.func private @tm_scatter
// CHECK: %[[COPY:.*]] = linalg.copy {{.*}} ins(%arg2 {{.*}} outs(%arg3
// CHECK: tm_tensor.scatter {{.*}} outs(%[[COPY]]
func.func @main(%table: tensor<8xf32>, %updates: tensor<4xf32>, %at: tensor<4x1xi32>) -> tensor<8xf32> {
  %0 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false)
      ins(%updates, %at : tensor<4xf32>, tensor<4x1xi32>) outs(%table : tensor<8xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %new, %old : f32
    tm_tensor.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Squares are summed of a row that is read where it lies, and products with another row; factors of several products are copied by whole tiles.
// CHECK-LABEL: func.func @main
// CHECK: call @reduce{{.*}}(%arg0, %{{.*}})
// CHECK: call @matmul{{.*}}(%arg1, %arg0, %{{.*}})
// CHECK: call @extract_slice
// CHECK: call @matmul
// CHECK: func.func private @reduce
// CHECK: tensor.extract_slice
// CHECK: linalg.generic
func.func @main(%x: tensor<4x8xf32>, %y: tensor<8xf32>, %w: tensor<8x3xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %row = tensor.extract_slice %x[2, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> ()>], iterator_types = ["reduction"]}
      ins(%row : tensor<8xf32>) outs(%z : tensor<f32>) {
  ^bb0(%p: f32, %old: f32):
    %q = arith.mulf %p, %p : f32
    %s = arith.addf %q, %old : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %other = tensor.extract_slice %x[1, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>], iterator_types = ["reduction"]}
      ins(%other, %y : tensor<8xf32>, tensor<8xf32>) outs(%z : tensor<f32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %r = arith.mulf %p, %q : f32
    %s = arith.addf %r, %old : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %rows = tensor.extract_slice %x[1, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  %e2 = tensor.empty() : tensor<2x3xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = linalg.matmul ins(%rows, %w : tensor<2x8xf32>, tensor<8x3xf32>) outs(%z2 : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b, %c : tensor<f32>, tensor<f32>, tensor<2x3xf32>
}

// -----

// A part of an image is read in place by a convolution, whose kernel pads it, and by what comes behind.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.extract_slice
// CHECK: call @conv
// CHECK-NOT: tensor.extract_slice
// CHECK: call @addf
// CHECK: return
// CHECK: func.func private @conv
// CHECK: tensor.extract_slice
// CHECK: tensor.pad
// CHECK: func.func private @addf
// CHECK: tensor.extract_slice
func.func @main(%x: tensor<1x4x4x8xf32>, %w: tensor<4x3x3x4xf32>) -> tensor<1x4x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %part = tensor.extract_slice %x[0, 0, 0, 4] [1, 4, 4, 4] [1, 1, 1, 1] : tensor<1x4x4x8xf32> to tensor<1x4x4x4xf32>
  %padded = tensor.pad %part low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %v: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x4x4x4xf32> to tensor<1x6x6x4xf32>
  %e = tensor.empty() : tensor<1x4x4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, h, v, f, i, j, c) -> (n, h + i, v + j, c)>, affine_map<(n, h, v, f, i, j, c) -> (f, i, j, c)>,
      affine_map<(n, h, v, f, i, j, c) -> (n, h, v, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%padded, %w : tensor<1x6x6x4xf32>, tensor<4x3x3x4xf32>) outs(%fill : tensor<1x4x4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %r = arith.mulf %p, %q {inferno.convolution} : f32
    %s = arith.addf %old, %r : f32
    linalg.yield %s : f32
  } -> tensor<1x4x4x4xf32>
  %e1 = tensor.empty() : tensor<1x4x4x4xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(n, h, v, c) -> (n, h, v, c)>, affine_map<(n, h, v, c) -> (n, h, v, c)>,
      affine_map<(n, h, v, c) -> (n, h, v, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%part, %a : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) outs(%e1 : tensor<1x4x4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x4x4x4xf32>
  return %b : tensor<1x4x4x4xf32>
}
