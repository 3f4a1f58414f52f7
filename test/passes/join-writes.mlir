// RUN: inferno-opt -p 'join-writes,func.func(canonicalize,cse)' %s --split-input-file | FileCheck %s

// A part of a part, with steps, of sizes that vary: one write. What the first one made is read no more.
#two = affine_map<()[s0, s1] -> (s0, s1)>
#rows = affine_map<()[s0, s1] -> (s0 - 1, 2)>
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<?x?xf32> {{{.*}}}, %[[Y:.*]]: tensor<?x2xf32> {{{.*}}}
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[NEW:.*]] = tensor.insert_slice %[[Y]] into %[[X]][1, 5] [%{{.*}}, 2] [1, 6] : tensor<?x2xf32> into tensor<?x?xf32>
// CHECK-NEXT: return %[[NEW]]
module {
  func.func @main(%x: tensor<?x?xf32> {inferno.sizes = #two}, %y: tensor<?x2xf32> {inferno.sizes = #rows}, %n: index {inferno.divisor = 1 : i64, inferno.hint = 4 : i64, inferno.range = [2, 1024], inferno.symbol = "s0"}, %m: index {inferno.divisor = 1 : i64, inferno.hint = 64 : i64, inferno.range = [32, 1024], inferno.symbol = "s1"}) -> tensor<?x?xf32> {
    %less = arith.constant -1 : index
    %rows = arith.addi %n, %less : index
    %again = arith.addi %less, %n : index
    %part = tensor.extract_slice %x[1, 1] [%rows, 8] [1, 2] : tensor<?x?xf32> to tensor<?x8xf32>
    %first = tensor.insert_slice %y into %part[0, 2] [%rows, 2] [1, 3] : tensor<?x2xf32> into tensor<?x8xf32>
    %new = tensor.insert_slice %first into %x[1, 1] [%again, 8] [1, 2] : tensor<?x8xf32> into tensor<?x?xf32>
    return %new : tensor<?x?xf32>
  }
}

// -----

// Written to another place, or to another tensor: both stay.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: tensor.insert_slice
module {
  func.func @main(%x: tensor<8x8xf32>, %z: tensor<8x8xf32>, %y: tensor<4x2xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %part = tensor.extract_slice %x[1, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
    %first = tensor.insert_slice %y into %part[0, 2] [4, 2] [1, 1] : tensor<4x2xf32> into tensor<4x8xf32>
    %new = tensor.insert_slice %first into %x[2, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    %second = tensor.insert_slice %y into %part[0, 4] [4, 2] [1, 1] : tensor<4x2xf32> into tensor<4x8xf32>
    %other = tensor.insert_slice %second into %z[1, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<8x8xf32>
    return %new, %other : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// A part of a row, x[3, 2:4] = y: the row has one dimension less.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<8x6x4xf32>, %[[Y:.*]]: tensor<2x4xf32>)
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[NEW:.*]] = tensor.insert_slice %{{.*}} into %[[X]][3, 2, 0] [1, 2, 4] [1, 1, 1]
// CHECK-NEXT: return %[[NEW]]
module {
  func.func @main(%x: tensor<8x6x4xf32>, %y: tensor<2x4xf32>) -> tensor<8x6x4xf32> {
    %part = tensor.extract_slice %x[3, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<8x6x4xf32> to tensor<1x6x4xf32>
    %row = tensor.collapse_shape %part [[0, 1], [2]] : tensor<1x6x4xf32> into tensor<6x4xf32>
    %first = tensor.insert_slice %y into %row[2, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<6x4xf32>
    %back = tensor.expand_shape %first [[0, 1], [2]] output_shape [1, 6, 4] : tensor<6x4xf32> into tensor<1x6x4xf32>
    %new = tensor.insert_slice %back into %x[3, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<1x6x4xf32> into tensor<8x6x4xf32>
    return %new : tensor<8x6x4xf32>
  }
}
