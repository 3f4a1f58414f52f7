// RUN: inferno-opt %s -p remove-asserts | FileCheck %s

// The condition goes with the assert, also where two operands are one value and where two asserts share a condition.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT: return %arg0
func.func @plain(%a: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %square = arith.muli %a, %a : i64
  %ok = arith.cmpi sge, %square, %zero : i64
  cf.assert %ok, "not negative"
  cf.assert %ok, "again"
  return %a : i64
}

// What something else needs stays.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK-NEXT: %[[OK:.*]] = arith.cmpi sge, %arg0, %[[ZERO]]
// CHECK-NEXT: return %[[OK]]
func.func @shared(%a: i64) -> i1 {
  %zero = arith.constant 0 : i64
  %ok = arith.cmpi sge, %a, %zero : i64
  cf.assert %ok, "not negative"
  return %ok : i1
}

// Inside of a structured operation; what the condition read from outside is still read by the rest.
// CHECK-LABEL: func.func @gather
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0(%[[I:.*]]: i64, %{{.*}}: f32):
// CHECK-NEXT: %[[AT:.*]] = arith.index_cast %[[I]]
// CHECK-NEXT: %[[V:.*]] = tensor.extract %arg0[%[[AT]]]
// CHECK-NEXT: linalg.yield %[[V]]
// CHECK-NOT: cf.assert
func.func @gather(%table: tensor<8xf32>, %indices: tensor<4xi64>) -> tensor<4xf32> {
  %c8 = arith.constant 8 : i64
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%indices : tensor<4xi64>) outs(%empty : tensor<4xf32>) {
  ^bb0(%i: i64, %o: f32):
    %at = arith.index_cast %i : i64 to index
    %ok = arith.cmpi slt, %i, %c8 : i64
    cf.assert %ok, "index out of bounds"
    %v = tensor.extract %table[%at] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A condition that comes from an operation with an effect, or is an argument, only loses its assert.
// CHECK-LABEL: func.func @called
// CHECK-NEXT: call @check
// CHECK-NEXT: return
func.func private @check(i64) -> i1
func.func @called(%a: i64, %b: i1) {
  %ok = call @check(%a) : (i64) -> i1
  cf.assert %ok, "checked"
  cf.assert %b, "given"
  return
}
