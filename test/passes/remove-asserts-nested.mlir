// RUN: inferno-opt %s -p remove-asserts | FileCheck %s
// RUN: inferno-opt %s -p remove-asserts,remove-asserts | FileCheck %s

// In a branch of a branch; a condition that is computed outside is gone as well.
// CHECK-LABEL: func.func @branch
// CHECK-NOT: arith.cmpi
// CHECK: scf.if %arg1
// CHECK-NOT: cf.assert
// CHECK: return
func.func @branch(%a: i64, %c: i1) -> i64 {
  %zero = arith.constant 0 : i64
  %ok = arith.cmpi sge, %a, %zero : i64
  %r = scf.if %c -> i64 {
    cf.assert %ok, "not negative"
    scf.yield %a : i64
  } else {
    scf.yield %a : i64
  }
  return %r : i64
}

// A chain of what only the condition needs, from a size to a comparison, goes whole, up to what a sum needs too.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[C:.*]] = arith.constant 0 : index
// CHECK-NEXT: %[[D:.*]] = tensor.dim %arg0, %[[C]]
// CHECK-NEXT: %[[N:.*]] = arith.index_cast %[[D]]
// CHECK-NEXT: return %[[N]]
func.func @chain(%x: tensor<?xf32>) -> i64 {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %n = arith.index_cast %d : index to i64
  %c8 = arith.constant 8 : i64
  %half = arith.divsi %n, %c8 : i64
  %back = arith.muli %half, %c8 : i64
  %ok = arith.cmpi eq, %n, %back : i64
  cf.assert %ok, "a multiple of eight"
  return %n : i64
}

// A condition that a tensor holds: its reading goes, what made the tensor stays for others to remove.
// CHECK-LABEL: func.func @from_tensor
// CHECK-NOT: tensor.extract
// CHECK: linalg.fill
// CHECK-NOT: tensor.extract
// CHECK-NOT: cf.assert
// CHECK: return
func.func @from_tensor(%s: i1) {
  %e = tensor.empty() : tensor<i1>
  %f = linalg.fill ins(%s : i1) outs(%e : tensor<i1>) -> tensor<i1>
  %ok = tensor.extract %f[] : tensor<i1>
  cf.assert %ok, "given"
  return
}

// Two asserts in a body of which one shares its comparison with the value.
// CHECK-LABEL: func.func @body
// CHECK: ^bb0(%[[I:.*]]: i64, %{{.*}}: i64):
// CHECK-NEXT: %[[LOW:.*]] = arith.cmpi slt, %[[I]], %{{.*}}
// CHECK-NEXT: %[[R:.*]] = arith.select %[[LOW]]
// CHECK-NEXT: linalg.yield %[[R]]
// CHECK: return
func.func @body(%x: tensor<4xi64>, %e: tensor<4xi64>) -> tensor<4xi64> {
  %zero = arith.constant 0 : i64
  %eight = arith.constant 8 : i64
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xi64>) outs(%e : tensor<4xi64>) {
  ^bb0(%i: i64, %o: i64):
    %low = arith.cmpi slt, %i, %zero : i64
    %high = arith.cmpi slt, %i, %eight : i64
    cf.assert %low, "negative"
    cf.assert %high, "less than eight"
    %r = arith.select %low, %zero, %i : i64
    linalg.yield %r : i64
  } -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
