// RUN: inferno-opt %s -p 'fuse-elementwise,func.func(canonicalize,cse)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d1)>
#column = affine_map<(d0, d1) -> (d0)>

/// Read transposed: the producer's operands are, too, and its indices change places.
// CHECK: #[[SWAP:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @transposed
// CHECK: linalg.generic {indexing_maps = [#[[SWAP]], #{{.*}}], {{.*}} ins(%arg0 : tensor<4x8xf32>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: %[[J:.*]] = linalg.index 0
// CHECK: arith.cmpi sge, %[[I]], %[[J]]
// CHECK: math.exp
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @transposed(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %et = tensor.empty() : tensor<8x4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    %y = arith.select %c, %a, %zero : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%et : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

/// A scale that is cheap to compute again goes into both of its readers, an exponential into neither.
// CHECK-LABEL: func.func @two_readers
// CHECK: %[[EXP:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} ins(%[[EXP]], %arg1 :
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.addf
// CHECK: linalg.generic {{.*}} ins(%[[EXP]], %arg1 :
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.subf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @two_readers(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %half : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}

/// One reader that reads twice, as it is and transposed: both reads are computed.
// CHECK-LABEL: func.func @read_twice
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg0 : tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK-COUNT-2: math.exp
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @read_twice(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %0 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

/// A reduction computes what it sums; its own result stays a tensor.
// CHECK-LABEL: func.func @sum
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0, %arg1 : tensor<4x8xf32>, tensor<8xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[ACC:.*]]: f32)
// CHECK: %[[D:.*]] = arith.subf %[[A]], %[[B]]
// CHECK: %[[E:.*]] = math.exp %[[D]]
// CHECK: arith.addf %[[ACC]], %[[E]]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]}
// CHECK: math.log
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @sum(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %es = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%es : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %m = math.exp %s : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%1 : tensor<4xf32>) outs(%es : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %l = math.log %a : f32
    linalg.yield %l : f32
  } -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

/// Pooling reads windows: the producer is read by the window's map.  One that knows where it is cannot be, and stays.
// CHECK-LABEL: func.func @pool
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg1, %arg0 : tensor<3xf32>, tensor<10xf32>)
// CHECK: arith.mulf
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @pool_indices
// CHECK: linalg.generic
// CHECK: linalg.index 0
// CHECK: linalg.generic
// CHECK: arith.maximumf
// CHECK: return
func.func @pool(%x: tensor<10xf32>, %window: tensor<3xf32>) -> tensor<8xf32> {
  %least = arith.constant 0xFF800000 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<10xf32>
  %eo = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%least : f32) outs(%eo : tensor<8xf32>) -> tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<10xf32>) outs(%e : tensor<10xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %half : f32
    linalg.yield %m : f32
  } -> tensor<10xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, #row, #column], iterator_types = ["parallel", "reduction"]}
      ins(%0, %window : tensor<10xf32>, tensor<3xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %w: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func @pool_indices(%x: tensor<10xf32>, %window: tensor<3xf32>) -> tensor<8xf32> {
  %least = arith.constant 0xFF800000 : f32
  %five = arith.constant 5 : index
  %e = tensor.empty() : tensor<10xf32>
  %eo = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%least : f32) outs(%eo : tensor<8xf32>) -> tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<10xf32>) outs(%e : tensor<10xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.cmpi slt, %i, %five : index
    %m = arith.select %c, %a, %least : f32
    linalg.yield %m : f32
  } -> tensor<10xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, #row, #column], iterator_types = ["parallel", "reduction"]}
      ins(%0, %window : tensor<10xf32>, tensor<3xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %w: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

/// A contraction and a convolution are left as they are: fuse-contractions knows what pays there, and libraries a convolution.
// CHECK-LABEL: func.func @contraction
// CHECK-COUNT-2: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @convolution
// CHECK: linalg.generic
// CHECK: arith.maximumf
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: linalg.yield
// CHECK: return
func.func @contraction(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %f: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %half : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row, #column], iterator_types = ["parallel", "reduction"]} ins(%0, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @convolution(%x: tensor<10xf32>, %w: tensor<3xf32>, %f: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<10xf32>) outs(%e : tensor<10xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %zero : f32
    linalg.yield %m : f32
  } -> tensor<10xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, #row, #column], iterator_types = ["parallel", "reduction"]}
      ins(%0, %w : tensor<10xf32>, tensor<3xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

/// An accumulation is no producer (it reads what was there), nor is what writes two tensors.
// CHECK-LABEL: func.func @accumulates
// CHECK-COUNT-2: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @two_results
// CHECK-COUNT-2: linalg.generic
// CHECK: return
func.func @accumulates(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%y : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y0 = math.exp %a : f32
    linalg.yield %y0 : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func @two_results(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e, %e : tensor<4x8xf32>, tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32, %p: f32):
    %s = math.sin %a : f32
    %c = math.cos %a : f32
    linalg.yield %s, %c : f32, f32
  } -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0#0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %1, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
}

/// A reader that only the producer tells how far its loops go keeps it; without elements there is still one operation.
// CHECK-LABEL: func.func @loop_extent
// CHECK-COUNT-2: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @no_elements
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK-NEXT: math.log
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @loop_extent(%s: f32, %f: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x8xf32>) {
  ^bb0(%o: f32):
    %m = math.exp %s : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @no_elements(%x: tensor<0x8xf32>) -> tensor<0x8xf32> {
  %e = tensor.empty() : tensor<0x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<0x8xf32>) outs(%e : tensor<0x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.exp %a : f32
    linalg.yield %m : f32
  } -> tensor<0x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<0x8xf32>) outs(%e : tensor<0x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = math.log %a : f32
    linalg.yield %m : f32
  } -> tensor<0x8xf32>
  return %1 : tensor<0x8xf32>
}

// -----

// What only widens a factor stays apart: the contraction widens it, and reads the narrow one.
// CHECK-LABEL: @widened_factor
// CHECK: math.exp
// CHECK-NEXT: linalg.yield %{{.*}} : bf16
// CHECK: arith.extf
// CHECK-NEXT: linalg.yield %{{.*}} : f32
// CHECK: linalg.batch_matmul
func.func @widened_factor(%x: tensor<4x8x16xbf16>, %w: tensor<4x16x8xf32>) -> tensor<4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8x16xbf16>
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x8x16xbf16>) outs(%e : tensor<4x8x16xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %y = math.exp %a : bf16
    linalg.yield %y : bf16 } -> tensor<4x8x16xbf16>
  %f = tensor.empty() : tensor<4x8x16xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<4x8x16xbf16>) outs(%f : tensor<4x8x16xf32>) {
  ^bb0(%a: bf16, %old: f32):
    %y = arith.extf %a : bf16 to f32
    linalg.yield %y : f32 } -> tensor<4x8x16xf32>
  %o = tensor.empty() : tensor<4x8x8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%o : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %r = linalg.batch_matmul ins(%1, %w : tensor<4x8x16xf32>, tensor<4x16x8xf32>) outs(%s : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  return %r : tensor<4x8x8xf32>
}

/// A row of a matrix is changed, its beginning is read, and another row is changed: that reads the matrix, and not both rows and the one before.
// CHECK-LABEL: func.func @rows_one_by_one
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%arg1, %arg0 : tensor<8xf32>, tensor<4x8xf32>)
// CHECK: tensor.extract_slice %[[A]]
// CHECK: linalg.generic {{.*}} ins(%arg2, %[[A]] : tensor<8xf32>, tensor<4x8xf32>)
// CHECK: return
func.func @rows_one_by_one(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<2x2xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %0 = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%r, %x : tensor<8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.cmpi eq, %i, %one : index
    %y = arith.select %c, %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %p = tensor.extract_slice %0[0, 0] [2, 2] [1, 1] : tensor<4x8xf32> to tensor<2x2xf32>
  %1 = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %0 : tensor<8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.cmpi eq, %i, %two : index
    %y = arith.select %c, %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  return %1, %p : tensor<4x8xf32>, tensor<2x2xf32>
}

/// What is given back, and made of a row's greatest and of what is costly and otherwise for nobody: sums of columns read that, and not both again.
// CHECK-LABEL: func.func @made_of_a_rows_greatest
// CHECK: %[[E:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: math.exp
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[E]]
// CHECK: arith.maximumf
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[E]], %[[M]]
// CHECK: arith.subf
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<4x8xf32>)
// CHECK: return %[[S]], %[[C]]
func.func @made_of_a_rows_greatest(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = tensor.empty() : tensor<4xf32>
  %g = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %i = linalg.fill ins(%least : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.maximumf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %j = linalg.fill ins(%zero : f32) outs(%g : tensor<8xf32>) -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]} ins(%2 : tensor<4x8xf32>) outs(%j : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %2, %3 : tensor<4x8xf32>, tensor<8xf32>
}
