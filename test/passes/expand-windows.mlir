// RUN: inferno-opt -p expand-windows %s --split-input-file | FileCheck %s

// The maximum of windows of three, two apart: three elements a point, one after the other.
// CHECK-LABEL: func.func @main
// CHECK-NOT: inferno.expand_pieces
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]} outs(%{{.*}} : tensor<4xf32>)
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[A:.*]] = tensor.extract
// CHECK: %[[M:.*]] = arith.maximumf %[[A]], %{{.*}} : f32
// CHECK: %[[B:.*]] = tensor.extract
// CHECK: %[[N:.*]] = arith.maximumf %[[B]], %[[M]]
// CHECK: %[[C:.*]] = tensor.extract
// CHECK: %[[R:.*]] = arith.maximumf %[[C]], %[[N]]
// CHECK: linalg.yield %[[R]]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<9xf32>, %w: tensor<3xf32>) -> tensor<4xf32> {
    %least = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%least : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i,k) -> (i * 2 + k)>, affine_map<(i,k) -> (k)>, affine_map<(i,k) -> (i)>],
        iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<9xf32>, tensor<3xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %m = arith.maximumf %a, %old : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
}

// -----

// A convolution is a contraction, and a sum along a dimension has no windows.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: iterator_types = ["parallel", "reduction"]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<6xf32>, %w: tensor<3xf32>, %y: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i,k) -> (i + k)>, affine_map<(i,k) -> (k)>, affine_map<(i,k) -> (i)>],
        iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<6xf32>, tensor<3xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %p = arith.mulf %a, %b : f32
      %m = arith.addf %old, %p : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(i,k) -> (i,k)>, affine_map<(i,k) -> (i)>], iterator_types = ["parallel", "reduction"]}
        ins(%y : tensor<4x3xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = arith.addf %a, %old : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    return %r, %s : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Of few rows the sum is elementwise, and computes its terms of what was there before the rows were grouped.
// CHECK-LABEL: func.func @main
// CHECK-NOT: "reduction"
// CHECK: iterator_types = ["parallel", "parallel"]
// CHECK-COUNT-2: tensor.extract {{.*}} : tensor<8x64xf32>
// CHECK-NOT: tensor.extract
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8x64xf32>) -> tensor<4x64xf32> {
    %zero = arith.constant 0.0 : f32
    %h = tensor.empty() : tensor<8x64xf32>
    %n = linalg.generic {indexing_maps = [affine_map<(i,j) -> (i,j)>, affine_map<(i,j) -> (i,j)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<8x64xf32>) outs(%h : tensor<8x64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.negf %a : f32
      linalg.yield %m : f32
    } -> tensor<8x64xf32>
    %y = tensor.expand_shape %n [[0, 1], [2]] output_shape [4, 2, 64] : tensor<8x64xf32> into tensor<4x2x64xf32>
    %e = tensor.empty() : tensor<4x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(i,k,j) -> (i,k,j)>, affine_map<(i,k,j) -> (i,j)>], iterator_types = ["parallel", "reduction", "parallel"]}
        ins(%y : tensor<4x2x64xf32>) outs(%f : tensor<4x64xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = arith.addf %a, %old : f32
      linalg.yield %m : f32
    } -> tensor<4x64xf32>
    return %s : tensor<4x64xf32>
  }
}

// -----

// What else reads its terms, a softmax's end, or many of them, stay.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: iterator_types = ["parallel", "reduction", "parallel"]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x2x64xf32>, %y: tensor<4x9x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x2x64xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(i,k,j) -> (i,k,j)>, affine_map<(i,k,j) -> (i,j)>], iterator_types = ["parallel", "reduction", "parallel"]}
        ins(%x : tensor<4x2x64xf32>) outs(%f : tensor<4x64xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = arith.addf %a, %old : f32
      linalg.yield %m : f32
    } -> tensor<4x64xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(i,k,j) -> (i,k,j)>, affine_map<(i,k,j) -> (i,j)>], iterator_types = ["parallel", "reduction", "parallel"]}
        ins(%y : tensor<4x9x64xf32>) outs(%f : tensor<4x64xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = arith.addf %a, %old : f32
      linalg.yield %m : f32
    } -> tensor<4x64xf32>
    return %s, %t, %x : tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x2x64xf32>
  }
}

// -----

// Whole numbers, as those that say how often each expert is chosen, are added up in the same way; bytes are not.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} outs(%{{.*}} : tensor<4x64xi64>)
// CHECK: arith.addi
// CHECK: iterator_types = ["parallel", "reduction", "parallel"]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x2x64xi64>, %y: tensor<4x2x64xi8>) -> (tensor<4x64xi64>, tensor<4x64xi8>) {
    %zero = arith.constant 0 : i64
    %e = tensor.empty() : tensor<4x64xi64>
    %f = linalg.fill ins(%zero : i64) outs(%e : tensor<4x64xi64>) -> tensor<4x64xi64>
    %s = linalg.generic {indexing_maps = [affine_map<(i,k,j) -> (i,k,j)>, affine_map<(i,k,j) -> (i,j)>], iterator_types = ["parallel", "reduction", "parallel"]}
        ins(%x : tensor<4x2x64xi64>) outs(%f : tensor<4x64xi64>) {
    ^bb0(%a: i64, %old: i64):
      %m = arith.addi %a, %old : i64
      linalg.yield %m : i64
    } -> tensor<4x64xi64>
    %none = arith.constant 0 : i8
    %g = tensor.empty() : tensor<4x64xi8>
    %h = linalg.fill ins(%none : i8) outs(%g : tensor<4x64xi8>) -> tensor<4x64xi8>
    %t = linalg.generic {indexing_maps = [affine_map<(i,k,j) -> (i,k,j)>, affine_map<(i,k,j) -> (i,j)>], iterator_types = ["parallel", "reduction", "parallel"]}
        ins(%y : tensor<4x2x64xi8>) outs(%h : tensor<4x64xi8>) {
    ^bb0(%a: i8, %old: i8):
      %m = arith.addi %a, %old : i8
      linalg.yield %m : i8
    } -> tensor<4x64xi8>
    return %s, %t : tensor<4x64xi64>, tensor<4x64xi8>
  }
}
