// RUN: inferno-opt -p fuse-gathers %s --split-input-file | FileCheck %s
// What is picked, and read by others, too.

// Of what is padded, a row further is picked of the tensor itself: the padded one need not be in memory for it.
// CHECK-LABEL: @moved
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract %arg0
// CHECK: linalg.generic {{.*}} ins(%[[Y]] : tensor<9x64xf32>)
// CHECK-NOT: tensor.extract %[[Y]]
// CHECK: tensor.extract %arg0
// CHECK-NOT: tensor.extract %[[Y]]
func.func @moved(%x: tensor<8x64xf32>, %o: tensor<9x64xf32>, %p: tensor<9x64xf32>) -> (tensor<9x64xf32>, tensor<9x64xf32>) {
  %last = arith.constant 8 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %y = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<9x64xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %i, %one : index
    %c = arith.cmpi ult, %k, %last : index
    %u = scf.if %c -> (f32) {
      %a = tensor.extract %x[%k, %j] : tensor<8x64xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %u : f32
  } -> tensor<9x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<9x64xf32>) outs(%p : tensor<9x64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %i, %one : index
    %c = arith.cmpi ult, %k, %last : index
    %u = scf.if %c -> (f32) {
      %b = tensor.extract %y[%k, %j] : tensor<9x64xf32>
      scf.yield %b : f32
    } else {
      scf.yield %zero : f32
    }
    %d = arith.subf %a, %u : f32
    linalg.yield %d : f32
  } -> tensor<9x64xf32>
  return %y, %r : tensor<9x64xf32>, tensor<9x64xf32>
}

// -----

// A few of many exponentials, which a sum reads, are made of the tensor and the rows' maxima.
// CHECK-LABEL: @few
// CHECK: arith.maximumf
// CHECK: %[[E:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} ins(%[[E]]
// CHECK: linalg.generic
// CHECK-NOT: tensor.extract %[[E]]
// CHECK: %[[X:.*]] = tensor.extract %arg0
// CHECK: math.exp
func.func @few(%x: tensor<8x1024xf32>, %i: tensor<8xindex>, %m: tensor<8xf32>, %s: tensor<8xf32>, %o: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %n = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x1024xf32>) outs(%m : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.maximumf %a, %old : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %e0 = tensor.empty() : tensor<8x1024xf32>
  %e = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %n : tensor<8x1024xf32>, tensor<8xf32>) outs(%e0 : tensor<8x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %d = arith.subf %a, %b : f32
    %v = math.exp %d : f32
    linalg.yield %v : f32
  } -> tensor<8x1024xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%e : tensor<8x1024xf32>) outs(%s : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.addf %a, %old : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<8xindex>) outs(%o : tensor<8xf32>) {
  ^bb0(%at: index, %old: f32):
    %row = linalg.index 0 : index
    %v = tensor.extract %e[%row, %at] : tensor<8x1024xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %t, %r : tensor<8xf32>, tensor<8xf32>
}

// -----

// Of what is in memory anyway it is picked, where it is most of it.
// CHECK-LABEL: @most
// CHECK: %[[E:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: tensor.extract %[[E]]
func.func @most(%x: tensor<8x1024xf32>, %i: tensor<8xindex>, %o: tensor<8x1024xf32>) -> (tensor<8x1024xf32>, tensor<8x1024xf32>) {
  %e = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x1024xf32>) outs(%o : tensor<8x1024xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8x1024xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<8xindex>) outs(%o : tensor<8x1024xf32>) {
  ^bb0(%at: index, %old: f32):
    %column = linalg.index 1 : index
    %v = tensor.extract %e[%at, %column] : tensor<8x1024xf32>
    linalg.yield %v : f32
  } -> tensor<8x1024xf32>
  return %e, %r : tensor<8x1024xf32>, tensor<8x1024xf32>
}

// -----

// What is gathered of a flattened tensor is gathered as it was made, at quotients and remainders: rows of 32 numbers stay together.
// CHECK-LABEL: @flattened
// CHECK-NOT: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: %[[R:.*]] = linalg.index 0
// CHECK: %[[AT:.*]] = arith.addi %[[R]], %c1
// CHECK-DAG: %[[OF:.*]] = arith.divui %[[AT]], %c2
// CHECK-DAG: %[[IN:.*]] = arith.remui %[[AT]], %c2
// CHECK: tensor.extract %arg0[%[[IN]], %[[OF]], %{{.*}}] : tensor<2x4x32xf32>
// CHECK-NOT: linalg.generic
func.func @flattened(%x: tensor<2x4x32xf32>, %e: tensor<4x2x32xf32>, %o: tensor<7x32xf32>) -> tensor<7x32xf32> {
  %t = linalg.generic {indexing_maps = [affine_map<(a,b,c) -> (b,a,c)>, affine_map<(a,b,c) -> (a,b,c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x32xf32>) outs(%e : tensor<4x2x32xf32>) {
  ^bb0(%a: f32, %old: f32):
    linalg.yield %a : f32
  } -> tensor<4x2x32xf32>
  %f = tensor.collapse_shape %t [[0, 1], [2]] : tensor<4x2x32xf32> into tensor<8x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<7x32xf32>) {
  ^bb0(%old: f32):
    %one = arith.constant 1 : index
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %at = arith.addi %row, %one : index
    %v = tensor.extract %f[%at, %column] : tensor<8x32xf32>
    linalg.yield %v : f32
  } -> tensor<7x32xf32>
  return %r : tensor<7x32xf32>
}

// -----

// Others that read the flattened tensor keep it, and places are as they were.
// CHECK-LABEL: @flattened_and_read
// CHECK: %[[F:.*]] = tensor.collapse_shape
// CHECK-NOT: arith.divui
// CHECK: tensor.extract %[[F]]
func.func @flattened_and_read(%x: tensor<2x4x32xf32>, %e: tensor<4x2x32xf32>, %o: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %t = linalg.generic {indexing_maps = [affine_map<(a,b,c) -> (b,a,c)>, affine_map<(a,b,c) -> (a,b,c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x32xf32>) outs(%e : tensor<4x2x32xf32>) {
  ^bb0(%a: f32, %old: f32):
    linalg.yield %a : f32
  } -> tensor<4x2x32xf32>
  %f = tensor.collapse_shape %t [[0, 1], [2]] : tensor<4x2x32xf32> into tensor<8x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<8x32xf32>) {
  ^bb0(%old: f32):
    %seven = arith.constant 7 : index
    %row = linalg.index 0 : index
    %column = linalg.index 1 : index
    %at = arith.subi %seven, %row : index
    %v = tensor.extract %f[%at, %column] : tensor<8x32xf32>
    linalg.yield %v : f32
  } -> tensor<8x32xf32>
  return %r, %f : tensor<8x32xf32>, tensor<8x32xf32>
}

// -----

// What a product's results are rounded to is its end, and half as much is written and gathered: not what gathers rounds them.
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>
#points = affine_map<(m, n) -> (m, n)>
// CHECK-LABEL: func.func @rounded
// CHECK: %[[P:.*]] = linalg.generic {{.*}} "reduction"]} ins(%arg0, %arg1
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<6x11xf32>) outs(%{{.*}} : tensor<6x11xbf16>)
// CHECK: tensor.extract %[[R]]
func.func @rounded(%a: tensor<6x8xf32>, %b: tensor<11x8xf32>, %o: tensor<6x6xbf16>) -> tensor<6x6xbf16> {
  %zero = arith.constant 0.0 : f32
  %five = arith.constant 5 : index
  %e = tensor.empty() : tensor<6x11xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<6x11xf32>) -> tensor<6x11xf32>
  %p = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<6x8xf32>, tensor<11x8xf32>) outs(%f : tensor<6x11xf32>) {
  ^bb0(%i: f32, %j: f32, %s: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<6x11xf32>
  %g = tensor.empty() : tensor<6x11xbf16>
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<6x11xf32>) outs(%g : tensor<6x11xbf16>) {
  ^bb0(%i: f32, %s: bf16):
    %n = arith.truncf %i : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<6x11xbf16>
  %y = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<6x6xbf16>) {
  ^bb0(%s: bf16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %d = arith.subi %j, %i : index
    %at = arith.addi %d, %five : index
    %x = tensor.extract %r[%i, %at] : tensor<6x11xbf16>
    linalg.yield %x : bf16
  } -> tensor<6x6xbf16>
  return %y : tensor<6x6xbf16>
}

// -----

// One number, which is made of two where it is gathered, has no loops.
// CHECK-LABEL: func.func @of_one
// CHECK-NOT: tensor.extract %
// CHECK: linalg.generic {{.*}} iterator_types = []
// CHECK: arith.mulf
// CHECK: return
#one = affine_map<(d0) -> (d0)>
#number = affine_map<() -> ()>
func.func @of_one(%a: tensor<1xf32>, %b: tensor<1xf32>, %o: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0 : index
  %e = tensor.empty() : tensor<1xf32>
  %p = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]} ins(%a, %b : tensor<1xf32>, tensor<1xf32>) outs(%e : tensor<1xf32>) {
  ^bb0(%i: f32, %j: f32, %s: f32):
    %m = arith.mulf %i, %j : f32
    linalg.yield %m : f32
  } -> tensor<1xf32>
  %y = linalg.generic {indexing_maps = [#number], iterator_types = []} outs(%o : tensor<f32>) {
  ^bb0(%s: f32):
    %x = tensor.extract %p[%zero] : tensor<1xf32>
    linalg.yield %x : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}
