// RUN: inferno-opt -p mark-overwrites %s --split-input-file | FileCheck %s

// A cache of which one row is changed, read by a sum behind it: the sum comes first then.  What is read at other places, or twice, is not marked.

// CHECK-LABEL: func.func @main
// CHECK: %[[TO:.*]] = tensor.empty() : tensor<4x8xf32>
// CHECK: %[[SUM:.*]] = call @sum(%arg0
// CHECK: %[[NEW:.*]] = call @put(%arg0, %arg1, %[[TO]])
// CHECK-NEXT: return %[[NEW]], %[[SUM]]
// CHECK: func.func private @put{{.*}} attributes {inferno.overwrites = array<i64: 0>}
// CHECK: func.func private @sum
// CHECK-NOT: inferno.overwrites
#row = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0, d1) -> (d1)>
module {
  func.func @main(%cache: tensor<4x8xf32>, %row: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
    %e = tensor.empty() : tensor<4x8xf32>
    %new = call @put(%cache, %row, %e) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %f = tensor.empty() : tensor<8xf32>
    %sum = call @sum(%cache, %f) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %new, %sum : tensor<4x8xf32>, tensor<8xf32>
  }
  func.func private @put(%a: tensor<4x8xf32>, %b: tensor<8xf32>, %to: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = linalg.generic {indexing_maps = [#row, #one, #row], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%to : tensor<4x8xf32>) {
    ^bb0(%in: f32, %x: f32, %out: f32):
      %1 = arith.addf %in, %x : f32
      linalg.yield %1 : f32
    } -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @sum(%a: tensor<4x8xf32>, %to: tensor<8xf32>) -> tensor<8xf32> {
    %c = arith.constant 0.0 : f32
    %z = linalg.fill ins(%c : f32) outs(%to : tensor<8xf32>) -> tensor<8xf32>
    %0 = linalg.generic {indexing_maps = [#row, #one], iterator_types = ["reduction", "parallel"]} ins(%a : tensor<4x8xf32>) outs(%z : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %1 = arith.addf %in, %out : f32
      linalg.yield %1 : f32
    } -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// A transposed read, and one of the tensor as a whole from inside: neither input can be given up.

// CHECK-LABEL: func.func private @transposed
// CHECK-NOT: inferno.overwrites
// CHECK-LABEL: func.func private @looked
// CHECK-NOT: inferno.overwrites
#row = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
module {
  func.func private @transposed(%a: tensor<8x8xf32>, %to: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = linalg.generic {indexing_maps = [#row, #transposed, #row], iterator_types = ["parallel", "parallel"]} ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%to : tensor<8x8xf32>) {
    ^bb0(%in: f32, %x: f32, %out: f32):
      %1 = arith.addf %in, %x : f32
      linalg.yield %1 : f32
    } -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @looked(%a: tensor<8x8xf32>, %to: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %c0 = arith.constant 0 : index
    %0 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<8x8xf32>) outs(%to : tensor<8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %first = tensor.extract %a[%c0, %c0] : tensor<8x8xf32>
      %1 = arith.addf %in, %first : f32
      linalg.yield %1 : f32
    } -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// Of a size that varies what is read where the result is written is marked if it has that size, and not if it has another one that varies.

// CHECK-LABEL: func.func private @alike
// CHECK-SAME: inferno.overwrites = array<i64: 1>
// CHECK-LABEL: func.func private @other
// CHECK-NOT: inferno.overwrites
#row = affine_map<(d0, d1) -> (d0, d1)>
#same = affine_map<()[s0] -> (s0, 8)>
#first = affine_map<()[s0, s1] -> (s0, 8)>
#second = affine_map<()[s0, s1] -> (s1, 8)>
module {
  func.func private @alike(%n: index {inferno.divisor = 1 : i64, inferno.hint = 4 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "n0"}, %a: tensor<?x8xf32> {inferno.sizes = #same}, %to: tensor<?x8xf32> {inferno.sizes = #same}) -> tensor<?x8xf32> {
    %0 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<?x8xf32>) outs(%to : tensor<?x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %1 = arith.negf %in : f32
      linalg.yield %1 : f32
    } -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
  func.func private @other(%n: index {inferno.divisor = 1 : i64, inferno.hint = 4 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "n0"}, %m: index {inferno.divisor = 1 : i64, inferno.hint = 4 : i64, inferno.range = [2, 4611686018427387904], inferno.symbol = "n1"}, %a: tensor<?x8xf32> {inferno.sizes = #first}, %to: tensor<?x8xf32> {inferno.sizes = #second}) -> tensor<?x8xf32> {
    %0 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<?x8xf32>) outs(%to : tensor<?x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %1 = arith.negf %in : f32
      linalg.yield %1 : f32
    } -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
}

// -----

// A result with new values in a part may take the place of what it is otherwise, if the kernel reads of that what it writes, for what is written there.

// CHECK-LABEL: func.func private @added
// CHECK-SAME: inferno.overwrites = array<i64: 0>
// CHECK-LABEL: func.func private @shifted
// CHECK-NOT: inferno.overwrites
// CHECK-LABEL: func.func private @beside
// CHECK-NOT: inferno.overwrites = [array<i64: 0>
#row = affine_map<(d0) -> (d0)>
module {
  func.func private @added(%x: tensor<9xf32>, %y: tensor<8xf32>, %to: tensor<9xf32>) -> tensor<9xf32> attributes {inferno.schedule = {across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64, windows = false}} {
    %0 = linalg.copy ins(%x : tensor<9xf32>) outs(%to : tensor<9xf32>) -> tensor<9xf32>
    %part = tensor.extract_slice %0[1] [8] [1] : tensor<9xf32> to tensor<8xf32>
    %old = tensor.extract_slice %x[1] [8] [1] : tensor<9xf32> to tensor<8xf32>
    %1 = linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%old, %y : tensor<8xf32>, tensor<8xf32>) outs(%part : tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    } -> tensor<8xf32>
    %2 = tensor.insert_slice %1 into %0[1] [8] [1] : tensor<8xf32> into tensor<9xf32>
    return %2 : tensor<9xf32>
  }
  func.func private @shifted(%x: tensor<9xf32>, %to: tensor<9xf32>) -> tensor<9xf32> attributes {inferno.schedule = {across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64, windows = false}} {
    %0 = linalg.copy ins(%x : tensor<9xf32>) outs(%to : tensor<9xf32>) -> tensor<9xf32>
    %part = tensor.extract_slice %0[1] [8] [1] : tensor<9xf32> to tensor<8xf32>
    %old = tensor.extract_slice %x[0] [8] [1] : tensor<9xf32> to tensor<8xf32>
    %1 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%old : tensor<8xf32>) outs(%part : tensor<8xf32>) {
    ^bb0(%a: f32, %out: f32):
      linalg.yield %a : f32
    } -> tensor<8xf32>
    %2 = tensor.insert_slice %1 into %0[1] [8] [1] : tensor<8xf32> into tensor<9xf32>
    return %2 : tensor<9xf32>
  }
  func.func private @beside(%x: tensor<9xf32>, %y: tensor<8xf32>, %to: tensor<9xf32>, %and: tensor<8xf32>) -> (tensor<9xf32>, tensor<8xf32>) attributes {inferno.schedule = {across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64, windows = false}} {
    %0 = linalg.copy ins(%x : tensor<9xf32>) outs(%to : tensor<9xf32>) -> tensor<9xf32>
    %part = tensor.extract_slice %0[1] [8] [1] : tensor<9xf32> to tensor<8xf32>
    %old = tensor.extract_slice %x[1] [8] [1] : tensor<9xf32> to tensor<8xf32>
    %1:2 = linalg.generic {indexing_maps = [#row, #row, #row, #row], iterator_types = ["parallel"]} ins(%old, %y : tensor<8xf32>, tensor<8xf32>) outs(%part, %and : tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32, %out: f32, %also: f32):
      linalg.yield %b, %a : f32, f32
    } -> (tensor<8xf32>, tensor<8xf32>)
    %2 = tensor.insert_slice %1#0 into %0[1] [8] [1] : tensor<8xf32> into tensor<9xf32>
    return %2, %1#1 : tensor<9xf32>, tensor<8xf32>
  }
}

// -----

// A part of another argument is read beside it; a part of the same argument is not where the result goes.

// CHECK-LABEL: func.func private @beside_part
// CHECK-SAME: inferno.overwrites = array<i64: 0>
// CHECK-LABEL: func.func private @own_part
// CHECK-NOT: inferno.overwrites
#row = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0, d1) -> (d0)>
module {
  func.func private @beside_part(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %to: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %part = tensor.extract_slice %b[0, 3] [4, 1] [1, 1] : tensor<4x8xf32> to tensor<4xf32>
    %0 = linalg.generic {indexing_maps = [#row, #one, #row], iterator_types = ["parallel", "parallel"]} ins(%a, %part : tensor<4x8xf32>, tensor<4xf32>) outs(%to : tensor<4x8xf32>) {
    ^bb0(%in: f32, %x: f32, %out: f32):
      %1 = arith.addf %in, %x : f32
      linalg.yield %1 : f32
    } -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @own_part(%a: tensor<4x8xf32>, %to: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %part = tensor.extract_slice %a[0, 3] [4, 1] [1, 1] : tensor<4x8xf32> to tensor<4xf32>
    %0 = linalg.generic {indexing_maps = [#row, #one, #row], iterator_types = ["parallel", "parallel"]} ins(%a, %part : tensor<4x8xf32>, tensor<4xf32>) outs(%to : tensor<4x8xf32>) {
    ^bb0(%in: f32, %x: f32, %out: f32):
      %1 = arith.addf %in, %x : f32
      linalg.yield %1 : f32
    } -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
