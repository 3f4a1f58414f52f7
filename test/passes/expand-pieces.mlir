// RUN: inferno-opt -p expand-pieces %s --split-input-file | FileCheck %s

// A row's halves, one of them negated, is one operation on points: nothing of half the size is made.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.concat
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[C:.*]] = linalg.index 1
// CHECK: %[[LOW:.*]] = arith.cmpi ult, %[[C]], %{{.*}} : index
// CHECK: scf.if %[[LOW]]
// CHECK: %[[H:.*]] = arith.addi %[[C]]
// CHECK: %[[X:.*]] = tensor.extract %{{.*}}[%[[ROW]], %[[H]]] : tensor<4x8xf32>
// CHECK: arith.negf %[[X]]
// CHECK: else
// CHECK: arith.subi %[[C]]
// CHECK: tensor.extract
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %low = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
    %high = tensor.extract_slice %x[0, 4] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
    %e = tensor.empty() : tensor<4x4xf32>
    %n = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
        ins(%high : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%p: f32, %old: f32):
      %y = arith.negf %p : f32
      linalg.yield %y : f32
    } -> tensor<4x4xf32>
    %r = tensor.concat dim(1) %n, %low : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
    return %r : tensor<4x8xf32>
  }
}

// -----

// Neighbours that are stacked and then in one row: the places come from a division of the row's.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.collapse_shape
// CHECK: outs(%{{.*}} : tensor<4x16xf32>)
// CHECK: %[[P:.*]] = arith.remui
// CHECK: %[[J:.*]] = arith.divui
// CHECK: arith.cmpi ult, %[[P]]
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %[[J]]] : tensor<4x8xf32>
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %[[J]]] : tensor<4x8xf32>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x16xf32> {
    %a = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 8, 1] : tensor<4x8xf32> into tensor<4x8x1xf32>
    %b = tensor.expand_shape %y [[0], [1, 2]] output_shape [4, 8, 1] : tensor<4x8xf32> into tensor<4x8x1xf32>
    %s = tensor.concat dim(2) %a, %b : (tensor<4x8x1xf32>, tensor<4x8x1xf32>) -> tensor<4x8x2xf32>
    %r = tensor.collapse_shape %s [[0], [1, 2]] : tensor<4x8x2xf32> into tensor<4x16xf32>
    return %r : tensor<4x16xf32>
  }
}

// -----

// A padding is a choice between an element and the number around it.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.pad
// CHECK: arith.subi
// CHECK: arith.cmpi ult
// CHECK: scf.if
// CHECK: tensor.extract %{{.*}} : tensor<4x8xf32>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x11xf32> {
    %c = arith.constant 1.0 : f32
    %r = tensor.pad %x low[0, 2] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %c : f32
    } : tensor<4x8xf32> to tensor<4x11xf32>
    return %r : tensor<4x11xf32>
  }
}

// -----

// The one element of a row is a number: it is read where the row has it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xi64>, %[[AT:.*]]: tensor<1xi64>)
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: tensor.extract %[[AT]][%[[ZERO]]] : tensor<1xi64>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4xi64>, %at: tensor<1xi64>) -> tensor<6xi64> {
    %n = tensor.collapse_shape %at [] : tensor<1xi64> into tensor<i64>
    %e = tensor.empty() : tensor<2xi64>
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%n : tensor<i64>) outs(%e : tensor<2xi64>) {
    ^bb0(%a: i64, %o: i64):
      linalg.yield %a : i64
    } -> tensor<2xi64>
    %r = tensor.concat dim(0) %x, %y : (tensor<4xi64>, tensor<2xi64>) -> tensor<6xi64>
    return %r : tensor<6xi64>
  }
}

// -----

// Nobody asked; and pieces whose lengths nothing tells.
// CHECK-LABEL: func.func @main
// CHECK: tensor.concat
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %r = tensor.concat dim(1) %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: tensor.concat
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x?xf32>, %y: tensor<4x8xf32>) -> tensor<4x?xf32> {
    %r = tensor.concat dim(1) %x, %y : (tensor<4x?xf32>, tensor<4x8xf32>) -> tensor<4x?xf32>
    return %r : tensor<4x?xf32>
  }
}

// -----

// Both parts of a new tensor are written: a choice by the place of neighbours, without a number for the others where there are none.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.insert_slice
// CHECK: %[[C:.*]] = linalg.index 1
// CHECK: %[[P:.*]] = arith.remui %[[C]]
// CHECK: %[[ODD:.*]] = arith.cmpi eq, %[[P]]
// CHECK: %[[J:.*]] = arith.divui %[[C]]
// CHECK: scf.if %[[ODD]]
// CHECK: tensor.extract %arg1[%{{.*}}, %[[J]]] : tensor<4x8xf32>
// CHECK: else
// CHECK: tensor.extract %arg0[%{{.*}}, %{{.*}}] : tensor<4x8xf32>
// CHECK-NOT: tensor.insert_slice
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x16xf32> {
    %e = tensor.empty() : tensor<4x16xf32>
    %a = tensor.insert_slice %x into %e[0, 0] [4, 8] [1, 2] : tensor<4x8xf32> into tensor<4x16xf32>
    %b = tensor.insert_slice %y into %a[0, 1] [4, 8] [1, 2] : tensor<4x8xf32> into tensor<4x16xf32>
    return %b : tensor<4x16xf32>
  }
}

// -----

// An argument that a call writes to keeps its place in memory, where a part of it is written.
// CHECK-LABEL: func.func @main
// CHECK: tensor.insert_slice
module attributes {inferno.expand_pieces} {
  func.func @main(%cache: tensor<4x64x8xf32> {inferno.written}, %x: tensor<4x1x8xf32>) -> tensor<4x64x8xf32> {
    %a = tensor.insert_slice %x into %cache[0, 5, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x64x8xf32>
    return %a : tensor<4x64x8xf32>
  }
}

// -----

// So it does between two writes, though the first one's result is read, too.
// CHECK-LABEL: func.func @main
// CHECK: %[[ONE:.*]] = tensor.insert_slice %{{.*}} into %arg0
// CHECK: tensor.insert_slice %{{.*}} into %[[ONE]]
#map = affine_map<(b, l, d) -> (b, l, d)>
module attributes {inferno.expand_pieces} {
  func.func @main(%cache: tensor<4x64x8xf32> {inferno.written}, %x: tensor<4x1x8xf32>) -> (tensor<4x64x8xf32>, tensor<4x64x8xf32>) {
    %a = tensor.insert_slice %x into %cache[0, 5, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x64x8xf32>
    %e = tensor.empty() : tensor<4x64x8xf32>
    %n = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<4x64x8xf32>) outs(%e : tensor<4x64x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %m = arith.negf %in : f32
      linalg.yield %m : f32
    } -> tensor<4x64x8xf32>
    %b = tensor.insert_slice %x into %a[0, 7, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x64x8xf32>
    return %b, %n : tensor<4x64x8xf32>, tensor<4x64x8xf32>
  }
}

// -----

// A copy of an argument is new: all of it is written once.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.insert_slice
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x64x8xf32>)
// CHECK: scf.if
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x64x8xf32>, %y: tensor<4x1x8xf32>) -> tensor<4x64x8xf32> {
    %a = tensor.insert_slice %y into %x[0, 5, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x64x8xf32>
    return %a : tensor<4x64x8xf32>
  }
}

// -----

// Where others read it, too, as attention reads a cache, a part of it is written.
// CHECK-LABEL: func.func @main
// CHECK: tensor.insert_slice
#whole = affine_map<(h, l, d) -> (h, l, d)>
#sums = affine_map<(h, l, d) -> (h, d)>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x64x8xf32>, %y: tensor<4x1x8xf32>, %z: tensor<4x8xf32>) -> (tensor<4x64x8xf32>, tensor<4x8xf32>) {
    %a = tensor.insert_slice %y into %x[0, 5, 0] [4, 1, 8] [1, 1, 1] : tensor<4x1x8xf32> into tensor<4x64x8xf32>
    %b = linalg.generic {indexing_maps = [#whole, #sums], iterator_types = ["parallel", "reduction", "parallel"]} ins(%a : tensor<4x64x8xf32>) outs(%z : tensor<4x8xf32>) {
    ^bb0(%v: f32, %o: f32):
      %w = arith.addf %o, %v : f32
      linalg.yield %w : f32
    } -> tensor<4x8xf32>
    return %a, %b : tensor<4x64x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Columns that have a dimension less are put into a table of places.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.insert_slice
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: tensor.extract %arg1[%[[ROW]]] : tensor<40xi64>
// CHECK: tensor.extract %arg0[%[[ROW]]] : tensor<40xi64>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<40xi64>, %y: tensor<40xi64>) -> tensor<40x2xi64> {
    %zero = arith.constant 0 : i64
    %e = tensor.empty() : tensor<40x2xi64>
    %f = linalg.fill ins(%zero : i64) outs(%e : tensor<40x2xi64>) -> tensor<40x2xi64>
    %a = tensor.insert_slice %x into %f[0, 0] [40, 1] [1, 1] : tensor<40xi64> into tensor<40x2xi64>
    %b = tensor.insert_slice %y into %a[0, 1] [40, 1] [1, 1] : tensor<40xi64> into tensor<40x2xi64>
    return %b : tensor<40x2xi64>
  }
}

// -----

// A few columns of a large product are written in place.
// CHECK-LABEL: func.func @main
// CHECK: linalg.matmul
// CHECK: tensor.insert_slice
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<1024x64xf32>, %y: tensor<64x1024xf32>, %z: tensor<1024x8xf32>) -> tensor<1024x1024xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1024x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %p = linalg.matmul ins(%x, %y : tensor<1024x64xf32>, tensor<64x1024xf32>) outs(%f : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %a = tensor.insert_slice %z into %p[0, 5] [1024, 8] [1, 1] : tensor<1024x8xf32> into tensor<1024x1024xf32>
    return %a : tensor<1024x1024xf32>
  }
}

// -----

// Half of its columns are chosen where they are read.
// CHECK-LABEL: func.func @main
// CHECK: linalg.matmul
// CHECK-NOT: tensor.insert_slice
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<1024x64xf32>, %y: tensor<64x1024xf32>, %z: tensor<1024x512xf32>) -> tensor<1024x1024xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1024x1024xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %p = linalg.matmul ins(%x, %y : tensor<1024x64xf32>, tensor<64x1024xf32>) outs(%f : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %a = tensor.insert_slice %z into %p[0, 0] [1024, 512] [1, 2] : tensor<1024x512xf32> into tensor<1024x1024xf32>
    return %a : tensor<1024x1024xf32>
  }
}

// -----

// What is behind a padding by a width that varies is told from the tensor by its size.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.pad
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[IN:.*]] = arith.cmpi ult, %[[I]], %{{.*}} : index
// CHECK: scf.if %[[IN]]
// CHECK: tensor.extract %{{.*}}[%[[I]]] : tensor<?xf32>
module attributes {inferno.expand_pieces} {
  func.func @main(%n: index {inferno.symbol = "s0", inferno.range = [2, 64]}, %x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}) -> tensor<?xf32> {
    %zero = arith.constant 0.0 : f32
    %three = arith.constant 3 : index
    %four = arith.constant 4 : index
    %up = arith.addi %n, %three : index
    %count = arith.divui %up, %four : index
    %whole = arith.muli %count, %four : index
    %behind = arith.subi %whole, %n : index
    %p = tensor.pad %x low[0] high[%behind] {
    ^bb0(%i: index):
      tensor.yield %zero : f32
    } : tensor<?xf32> to tensor<?xf32>
    return %p : tensor<?xf32>
  }
}

// -----

// Every other element of a new tensor of a size that varies is written.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.insert_slice
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: arith.remui %[[I]], %{{.*}} : index
// CHECK: %[[HALF:.*]] = arith.divui %[[I]], %{{.*}} : index
// CHECK: scf.if
// CHECK: tensor.extract %{{.*}}[%[[HALF]]] : tensor<?xf32>
module attributes {inferno.expand_pieces} {
  func.func @main(%n: index {inferno.symbol = "s0", inferno.range = [2, 64]}, %x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}) -> tensor<?xf32> {
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2 : index
    %twice = arith.muli %n, %two : index
    %e = tensor.empty(%twice) : tensor<?xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %r = tensor.insert_slice %x into %f[1] [%n] [2] : tensor<?xf32> into tensor<?xf32>
    return %r : tensor<?xf32>
  }
}

// -----

// Slices that lie in one piece each are all that reads a concatenation: they are slices of the pieces.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scf.if
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[0, 0] [8, 2] [1, 1] : tensor<8x2xf32> to tensor<8x2xf32>
// CHECK: %[[B:.*]] = tensor.extract_slice %arg1[0, 1] [8, 1] [1, 1] : tensor<8x3xf32> to tensor<8xf32>
// CHECK: return %[[A]], %[[B]]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8x2xf32>, %y: tensor<8x3xf32>) -> (tensor<8x2xf32>, tensor<8xf32>) {
    %c = tensor.concat dim(1) %x, %y : (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>
    %a = tensor.extract_slice %c[0, 0] [8, 2] [1, 1] : tensor<8x5xf32> to tensor<8x2xf32>
    %b = tensor.extract_slice %c[0, 3] [8, 1] [1, 1] : tensor<8x5xf32> to tensor<8xf32>
    return %a, %b : tensor<8x2xf32>, tensor<8xf32>
  }
}

// -----

// Another slice has a part of both: all of them choose.
// CHECK-LABEL: func.func @main
// CHECK: scf.if
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [8, 2] [1, 1] : tensor<8x5xf32> to tensor<8x2xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 1] [8, 2] [1, 2] : tensor<8x5xf32> to tensor<8x2xf32>
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8x2xf32>, %y: tensor<8x3xf32>) -> (tensor<8x2xf32>, tensor<8x2xf32>) {
    %c = tensor.concat dim(1) %x, %y : (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<8x5xf32>
    %a = tensor.extract_slice %c[0, 0] [8, 2] [1, 1] : tensor<8x5xf32> to tensor<8x2xf32>
    %b = tensor.extract_slice %c[0, 1] [8, 2] [1, 2] : tensor<8x5xf32> to tensor<8x2xf32>
    return %a, %b : tensor<8x2xf32>, tensor<8x2xf32>
  }
}

// -----

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#sums = affine_map<(m, n, k) -> (m, n)>
#points = affine_map<(m, n) -> (m, n)>

// What rounds a product to 16 bits stays the end of the product, and is read where it is.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[P]] :
// CHECK: arith.truncf
// CHECK: scf.if
// CHECK: tensor.extract %[[NARROW]]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<16x8xbf16> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = linalg.generic {indexing_maps = [#left, #right, #sums], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%f : tensor<8x8xf32>) {
    ^bb0(%a: bf16, %b: bf16, %o: f32):
      %c = arith.extf %a : bf16 to f32
      %d = arith.extf %b : bf16 to f32
      %m = arith.mulf %c, %d : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x8xf32>
    %h = tensor.empty() : tensor<8x8xbf16>
    %n = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x8xf32>) outs(%h : tensor<8x8xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %t = arith.truncf %a : f32 to bf16
      linalg.yield %t : bf16
    } -> tensor<8x8xbf16>
    %c = tensor.concat dim(0) %n, %x : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xbf16>
    return %c : tensor<16x8xbf16>
  }
}
