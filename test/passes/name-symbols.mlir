// RUN: inferno-opt %s --pass-pipeline='name-symbols,remove-asserts,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// The symbols become arguments at the end; sizes are expressions of them, each computed once, and what is decided by the ranges is gone.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x16xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 16)>}
// CHECK-SAME: %[[Y:.*]]: tensor<?x16xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s1, 16)>}
// CHECK-SAME: %[[A:.*]]: index {inferno.divisor = 1 : i64, inferno.hint = 3 : i64, inferno.range = [1, 64], inferno.symbol = "s0"}
// CHECK-SAME: %[[B:.*]]: index {{{.*}}inferno.symbol = "s1"}
// CHECK-NOT: tensor.dim
// CHECK-NOT: arith.cmpi
// CHECK: %[[SUM:.*]] = arith.addi
// CHECK: tensor.concat
// CHECK: tensor.empty(%[[SUM]])
func.func @main(%x: tensor<?x16xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 16)>},
                %y: tensor<?x16xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s1, 16)>}) -> tensor<?x16xf32> attributes {
    inferno.symbols = [{inferno.symbol = "s0", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 3},
                       {inferno.symbol = "s1", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 5}]} {
  %c0 = arith.constant 0 : index
  %0 = tensor.concat dim(0) %x, %y : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
  %d = tensor.dim %0, %c0 : tensor<?x16xf32>
  %positive = arith.cmpi sgt, %d, %c0 : index
  cf.assert %positive, "a sum of sizes that are at least 1"
  %e = tensor.empty(%d) : tensor<?x16xf32>
  %1 = linalg.exp ins(%0 : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %1 : tensor<?x16xf32>
}

// -----

// A reshape by way of one dimension merges and cuts no more than it has to.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x?x12x8xf32>
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0], [1], [2, 3]] : tensor<?x?x12x8xf32> into tensor<?x?x96xf32>
// CHECK-NEXT: return %[[C]]
func.func @main(%x: tensor<?x?x12x8xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 12, 8)>}) -> tensor<?x?x96xf32> attributes {
    inferno.symbols = [{inferno.symbol = "s0", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 3},
                       {inferno.symbol = "s1", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 5}]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c96 = arith.constant 96 : i64
  %a = tensor.dim %x, %c0 : tensor<?x?x12x8xf32>
  %b = tensor.dim %x, %c1 : tensor<?x?x12x8xf32>
  %i = arith.index_cast %a : index to i64
  %j = arith.index_cast %b : index to i64
  %flat = tensor.collapse_shape %x [[0, 1, 2, 3]] : tensor<?x?x12x8xf32> into tensor<?xf32>
  %shape = tensor.from_elements %i, %j, %c96 : tensor<3xi64>
  %0 = tensor.reshape %flat(%shape) : (tensor<?xf32>, tensor<3xi64>) -> tensor<?x?x96xf32>
  return %0 : tensor<?x?x96xf32>
}

// -----

// A number that the import forgets, as of what it reshaped before, is said before the tensor is reshaped again.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x?x4xf32>
// CHECK: %[[K:.*]] = tensor.cast %[[X]] : tensor<?x?x4xf32> to tensor<?x2x4xf32>
// CHECK: tensor.expand_shape %[[K]] {{\[\[}}0], [1], [2, 3]] {{.*}} : tensor<?x2x4xf32> into tensor<?x2x2x2xf32>
func.func @main(%x: tensor<?x?x4xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 2, 4)>}) -> tensor<?x2x2x2xf32> attributes {
    inferno.symbols = [{inferno.symbol = "s0", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 3}]} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : i64
  %d = tensor.dim %x, %c0 : tensor<?x?x4xf32>
  %n = arith.index_cast %d : index to i64
  %sizes = tensor.from_elements %n, %c2, %c2, %c2 : tensor<4xi64>
  %0 = tensor.reshape %x(%sizes) : (tensor<?x?x4xf32>, tensor<4xi64>) -> tensor<?x2x2x2xf32>
  return %0 : tensor<?x2x2x2xf32>
}

// -----

// A size that is what the others leave of the elements is not known to leave none, which torch asks of a call.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<?x3xf32>
// CHECK-SAME: %[[A:[a-z0-9]+]]: index {{.*}}"s0"}, %[[B:[a-z0-9]+]]: index
// CHECK: %[[Q:.*]] = arith.divui %[[A]], %[[B]] : index
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{\[\[}}0, 1], [2]] output_shape [%[[B]], %[[Q]], 3] : tensor<?x3xf32> into tensor<?x?x3xf32>
// CHECK-NEXT: return %[[E]]
func.func @main(%x: tensor<?x3xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 3)>},
                %y: tensor<?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s1)>}) -> tensor<?x?x3xf32> attributes {
    inferno.symbols = [{inferno.symbol = "s0", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 8},
                       {inferno.symbol = "s1", inferno.range = [1, 64], inferno.divisor = 1, inferno.hint = 4}]} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : i64
  %a = tensor.dim %x, %c0 : tensor<?x3xf32>
  %b = tensor.dim %y, %c0 : tensor<?xf32>
  %i = arith.index_cast %a : index to i64
  %j = arith.index_cast %b : index to i64
  %k = arith.divui %i, %j : i64
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<?x3xf32> into tensor<?xf32>
  %shape = tensor.from_elements %j, %k, %c3 : tensor<3xi64>
  %0 = tensor.reshape %flat(%shape) : (tensor<?xf32>, tensor<3xi64>) -> tensor<?x?x3xf32>
  return %0 : tensor<?x?x3xf32>
}

// -----

// A condition that depends on the call stays, and so does a program without symbols.
// CHECK-LABEL: func.func @main
// CHECK: arith.cmpi eq
// CHECK: arith.select
func.func @main(%x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}) -> tensor<1xi64> attributes {
    inferno.symbols = [{inferno.symbol = "s0", inferno.range = [0, 64], inferno.divisor = 1, inferno.hint = 3}]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : i64
  %c5 = arith.constant 5 : i64
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = arith.cmpi eq, %d, %c0 : index
  %s = arith.select %empty, %c1, %c5 : i64
  %0 = tensor.from_elements %s : tensor<1xi64>
  return %0 : tensor<1xi64>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{.*}}: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
