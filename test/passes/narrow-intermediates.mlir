// RUN: inferno-opt %s -p narrow-intermediates --split-input-file | FileCheck %s

// Another order, a reshape, and a sum: what is stored is bf16, and the sum widens it.
// CHECK-LABEL: @transposed
// CHECK: %[[T:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x8x4xbf16>)
// CHECK-NOT: extf
// CHECK: %[[V:.*]] = tensor.collapse_shape %[[T]] {{.*}} : tensor<2x8x4xbf16> into tensor<2x32xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[V]] : tensor<2x32xbf16>)
// CHECK: %[[W:.*]] = arith.extf
// CHECK: arith.addf %[[W]]
module {
  func.func @transposed(%x: tensor<2x4x8xbf16>, %s: tensor<2xf32>) -> tensor<2xf32> {
    %e = tensor.empty() : tensor<2x8x4xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a,b,c) -> (a,c,b)>, affine_map<(a,b,c) -> (a,b,c)>],
        iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x4x8xbf16>) outs(%e : tensor<2x8x4xf32>) {
    ^bb0(%v: bf16, %o: f32):
      %w = arith.extf %v : bf16 to f32
      linalg.yield %w : f32
    } -> tensor<2x8x4xf32>
    %v = tensor.collapse_shape %t [[0], [1, 2]] : tensor<2x8x4xf32> into tensor<2x32xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>], iterator_types = ["parallel", "reduction"]}
        ins(%v : tensor<2x32xf32>) outs(%s : tensor<2xf32>) {
    ^bb0(%y: f32, %o: f32):
      %z = arith.addf %y, %o : f32
      linalg.yield %z : f32
    } -> tensor<2xf32>
    return %r : tensor<2xf32>
  }
}

// -----

// Nothing but the cast: its reader reads the argument.
// CHECK-LABEL: @cast
// CHECK-SAME: %[[X:.*]]: tensor<2x32xi8>,
// CHECK-NOT: -> tensor<2x32xi32>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[X]] : tensor<2x32xi8>, tensor<2x32xi8>)
// CHECK: arith.extsi
module {
  func.func @cast(%x: tensor<2x32xi8>, %s: tensor<2xi32>) -> tensor<2xi32> {
    %e = tensor.empty() : tensor<2x32xi32>
    %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<2x32xi8>) outs(%e : tensor<2x32xi32>) {
    ^bb0(%v: i8, %o: i32):
      %w = arith.extsi %v : i8 to i32
      linalg.yield %w : i32
    } -> tensor<2x32xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>],
        iterator_types = ["parallel", "reduction"]} ins(%t, %t : tensor<2x32xi32>, tensor<2x32xi32>) outs(%s : tensor<2xi32>) {
    ^bb0(%y: i32, %q: i32, %o: i32):
      %p = arith.maxsi %y, %q : i32
      %z = arith.maxsi %p, %o : i32
      linalg.yield %z : i32
    } -> tensor<2xi32>
    return %r : tensor<2xi32>
  }
}

// -----

// What is returned, too, and what a contraction multiplies, stays wide.
// CHECK-LABEL: @kept
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4x8xbf16>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: arith.extf
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4x8xbf16>) outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: arith.extf
// CHECK-NOT: extf
// CHECK: return
#swap = affine_map<(a,b) -> (b,a)>
#same = affine_map<(a,b) -> (a,b)>
module {
  func.func @kept(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>, %w: tensor<4x8xf32>, %o: tensor<8x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x8xf32>) {
    %e = tensor.empty() : tensor<8x4xf32>
    %t = linalg.generic {indexing_maps = [#swap, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xbf16>) outs(%e : tensor<8x4xf32>) {
    ^bb0(%v: bf16, %old: f32):
      %z = arith.extf %v : bf16 to f32
      linalg.yield %z : f32
    } -> tensor<8x4xf32>
    %u = linalg.generic {indexing_maps = [#swap, #same], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x8xbf16>) outs(%e : tensor<8x4xf32>) {
    ^bb0(%v: bf16, %old: f32):
      %z = arith.extf %v : bf16 to f32
      linalg.yield %z : f32
    } -> tensor<8x4xf32>
    %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) {
    ^bb0(%v: f32, %old: f32):
      %z = arith.negf %v : f32
      linalg.yield %z : f32
    } -> tensor<8x4xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m,n,k) -> (m,k)>, affine_map<(m,n,k) -> (k,n)>, affine_map<(m,n,k) -> (m,n)>],
        iterator_types = ["parallel", "parallel", "reduction"]} ins(%u, %w : tensor<8x4xf32>, tensor<4x8xf32>) outs(%o : tensor<8x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    } -> tensor<8x8xf32>
    return %t, %n, %r : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x8xf32>
  }
}

// -----

// A border around what is widened: its number is one of 16 bits, and slices are read as they are.
// CHECK-LABEL: @bordered
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<6xbf16>)
// CHECK: scf.if %{{.*}} -> (bf16)
// CHECK-NOT: extf
// CHECK: linalg.yield %{{.*}} : bf16
// CHECK: %[[A:.*]] = tensor.extract_slice %[[P]][0] [4] [1] : tensor<6xbf16> to tensor<4xbf16>
// CHECK: %[[B:.*]] = tensor.extract_slice %[[P]][2] [4] [1] : tensor<6xbf16> to tensor<4xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]] : tensor<4xbf16>, tensor<4xbf16>)
// CHECK-COUNT-2: arith.extf
module {
  func.func @bordered(%x: tensor<4xbf16>) -> tensor<4xf32> {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %e = tensor.empty() : tensor<6xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<6xf32>) {
    ^bb0(%o: f32):
      %i = linalg.index 0 : index
      %j = arith.subi %i, %one : index
      %c = arith.cmpi ult, %j, %four : index
      %v = scf.if %c -> (f32) {
        %a = tensor.extract %x[%j] : tensor<4xbf16>
        %w = arith.extf %a : bf16 to f32
        scf.yield %w : f32
      } else {
        scf.yield %zero : f32
      }
      linalg.yield %v : f32
    } -> tensor<6xf32>
    %l = tensor.extract_slice %p[0] [4] [1] : tensor<6xf32> to tensor<4xf32>
    %r = tensor.extract_slice %p[2] [4] [1] : tensor<6xf32> to tensor<4xf32>
    %f = tensor.empty() : tensor<4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        ins(%l, %r : tensor<4xf32>, tensor<4xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%y: f32, %z: f32, %o: f32):
      %t = arith.addf %y, %z : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    return %s : tensor<4xf32>
  }
}

// -----

// The border's number has no place in 16 bits.
// CHECK-LABEL: @fine
// CHECK: scf.if %{{.*}} -> (f32)
module {
  func.func @fine(%x: tensor<4xbf16>) -> tensor<f32> {
    %number = arith.constant 0.1 : f32
    %four = arith.constant 4 : index
    %e = tensor.empty() : tensor<6xf32>
    %p = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<6xf32>) {
    ^bb0(%o: f32):
      %i = linalg.index 0 : index
      %c = arith.cmpi ult, %i, %four : index
      %v = scf.if %c -> (f32) {
        %a = tensor.extract %x[%i] : tensor<4xbf16>
        %w = arith.extf %a : bf16 to f32
        scf.yield %w : f32
      } else {
        scf.yield %number : f32
      }
      linalg.yield %v : f32
    } -> tensor<6xf32>
    %f = tensor.empty() : tensor<f32>
    %s = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> ()>], iterator_types = ["reduction"]}
        ins(%p : tensor<6xf32>) outs(%f : tensor<f32>) {
    ^bb0(%y: f32, %o: f32):
      %t = arith.addf %y, %o : f32
      linalg.yield %t : f32
    } -> tensor<f32>
    return %s : tensor<f32>
  }
}
