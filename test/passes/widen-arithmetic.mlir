// RUN: inferno-opt %s --pass-pipeline='widen-arithmetic,func.func(cse)' | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

/// A chain in bf16 is extended once and rounded once; the constant is exact.
// CHECK-LABEL: func.func @chain
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[M:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK: %[[E:.*]] = math.exp %[[M]] : f32
// CHECK: %[[S:.*]] = arith.addf %[[E]], %{{.*}} : f32
// CHECK: %[[R:.*]] = arith.truncf %[[S]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[R]] : bf16
func.func @chain(%x: tensor<8xbf16>, %e: tensor<8xbf16>) -> tensor<8xbf16> {
  %one = arith.constant 1.0 : bf16
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xbf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %m = arith.mulf %a, %a : bf16
    %t = math.exp %m : bf16
    %s = arith.addf %t, %one : bf16
    linalg.yield %s : bf16
  } -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

/// Integers and float64 stay as they are.
// CHECK-LABEL: func.func @other_types
// CHECK: arith.addi %{{.*}} : i16
// CHECK: arith.mulf %{{.*}} : f64
// CHECK-NOT: extf
func.func @other_types(%i: tensor<8xi16>, %x: tensor<8xf64>, %ei: tensor<8xi16>, %ex: tensor<8xf64>) -> (tensor<8xi16>, tensor<8xf64>) {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<8xi16>) outs(%ei : tensor<8xi16>) {
  ^bb0(%a: i16, %o: i16):
    %m = arith.addi %a, %a : i16
    linalg.yield %m : i16
  } -> tensor<8xi16>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf64>) outs(%ex : tensor<8xf64>) {
  ^bb0(%a: f64, %o: f64):
    %m = arith.mulf %a, %a : f64
    linalg.yield %m : f64
  } -> tensor<8xf64>
  return %0, %1 : tensor<8xi16>, tensor<8xf64>
}

/// So are branches, and what is chosen between them is not rounded on the way: the sum and the product are of float32.
// CHECK-LABEL: func.func @pieces
// CHECK: %[[R:.*]] = scf.if %{{.*}} -> (f32)
// CHECK: %[[C:.*]] = scf.if %{{.*}} -> (f32)
// CHECK: %[[E:.*]] = math.exp %{{.*}} : f32
// CHECK-NEXT: scf.yield %[[E]] : f32
// CHECK: arith.addf %[[C]], %{{.*}} : f32
// CHECK-NOT: truncf
// CHECK: %[[M:.*]] = arith.mulf %[[R]], %[[R]] : f32
// CHECK-NEXT: %[[T:.*]] = arith.truncf %[[M]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[T]] : bf16
func.func @pieces(%x: tensor<8xbf16>, %y: tensor<8xbf16>, %z: tensor<8xbf16>, %e: tensor<16xbf16>) -> tensor<16xbf16> {
  %c8 = arith.constant 8 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : bf16
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<16xbf16>) {
  ^bb0(%o: bf16):
    %i = linalg.index 0 : index
    %c = arith.cmpi ult, %i, %c8 : index
    %r = scf.if %c -> (bf16) {
      %d = arith.cmpi ult, %i, %c4 : index
      %r2 = scf.if %d -> (bf16) {
        %a = tensor.extract %x[%i] : tensor<8xbf16>
        %b = math.exp %a : bf16
        scf.yield %b : bf16
      } else {
        %a = tensor.extract %z[%i] : tensor<8xbf16>
        scf.yield %a : bf16
      }
      %s = arith.addf %r2, %one : bf16
      scf.yield %s : bf16
    } else {
      %j = arith.subi %i, %c8 : index
      %a = tensor.extract %y[%j] : tensor<8xbf16>
      scf.yield %a : bf16
    }
    %m = arith.mulf %r, %r : bf16
    linalg.yield %m : bf16
  } -> tensor<16xbf16>
  return %0 : tensor<16xbf16>
}

/// What is only moved stays as narrow as it is.
// CHECK-LABEL: func.func @moved
// CHECK: scf.if %{{.*}} -> (bf16)
// CHECK-NOT: extf
func.func @moved(%x: tensor<8xbf16>, %y: tensor<8xbf16>, %e: tensor<16xbf16>) -> tensor<16xbf16> {
  %c8 = arith.constant 8 : index
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<16xbf16>) {
  ^bb0(%o: bf16):
    %i = linalg.index 0 : index
    %c = arith.cmpi ult, %i, %c8 : index
    %r = scf.if %c -> (bf16) {
      %a = tensor.extract %x[%i] : tensor<8xbf16>
      scf.yield %a : bf16
    } else {
      %j = arith.subi %i, %c8 : index
      %a = tensor.extract %y[%j] : tensor<8xbf16>
      scf.yield %a : bf16
    }
    linalg.yield %r : bf16
  } -> tensor<16xbf16>
  return %0 : tensor<16xbf16>
}

/// What is compared with another value is rounded; neither for a constant nor for the greater of two.
// CHECK-LABEL: func.func @compared
// CHECK: %[[P:.*]] = arith.mulf
// CHECK: %[[R:.*]] = arith.truncf %[[P]] : f32 to bf16
// CHECK: %[[W:.*]] = arith.extf %[[R]] : bf16 to f32
// CHECK: arith.cmpf oeq, %[[W]]
// CHECK-LABEL: func.func @chosen
// CHECK: %[[P:.*]] = arith.mulf
// CHECK: arith.cmpf ogt, %[[P]]
// CHECK: arith.cmpf ogt, %[[P]]
// CHECK-COUNT-1: truncf
// CHECK-NOT: truncf
func.func @compared(%x: tensor<8xbf16>, %m: tensor<8xbf16>, %e: tensor<8xi1>) -> tensor<8xi1> {
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %m : tensor<8xbf16>, tensor<8xbf16>) outs(%e : tensor<8xi1>) {
  ^bb0(%a: bf16, %b: bf16, %o: i1):
    %p = arith.mulf %a, %a : bf16
    %c = arith.cmpf oeq, %p, %b : bf16
    linalg.yield %c : i1
  } -> tensor<8xi1>
  return %0 : tensor<8xi1>
}
func.func @chosen(%x: tensor<8xbf16>, %m: tensor<8xbf16>, %e: tensor<8xbf16>) -> tensor<8xbf16> {
  %zero = arith.constant 0.0 : bf16
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %m : tensor<8xbf16>, tensor<8xbf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %p = arith.mulf %a, %a : bf16
    %c = arith.cmpf ogt, %p, %zero : bf16
    %r = arith.select %c, %p, %a : bf16
    %d = arith.cmpf ogt, %p, %b : bf16
    %s = arith.select %d, %p, %b : bf16
    %t = arith.addf %r, %s : bf16
    linalg.yield %t : bf16
  } -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

/// The place of the greatest number is that of the first of those that are equal to it when rounded, of which the greatest is found, too.
// CHECK-LABEL: func.func @placed
// CHECK: %[[M:.*]] = arith.mulf
// CHECK: %[[T:.*]] = arith.truncf %[[M]] {inferno.rounds} : f32 to bf16
// CHECK: %[[R:.*]] = arith.extf %[[T]]
// CHECK: arith.maximumf %[[R]]
// CHECK: arith.cmpf ogt, %[[R]]
func.func @placed(%x: tensor<8xbf16>, %m: tensor<bf16>, %p: tensor<i64>) -> (tensor<bf16>, tensor<i64>) {
  %0:2 = linalg.generic {indexing_maps = [#id, #none, #none], iterator_types = ["reduction"]} ins(%x : tensor<8xbf16>) outs(%m, %p : tensor<bf16>, tensor<i64>) {
  ^bb0(%a: bf16, %b: bf16, %q: i64):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %s = arith.mulf %a, %a : bf16
    %g = arith.maximumf %s, %b : bf16
    %c = arith.cmpf ogt, %s, %b : bf16
    %d = arith.select %c, %j, %q : i64
    linalg.yield %g, %d : bf16, i64
  } -> (tensor<bf16>, tensor<i64>)
  return %0#0, %0#1 : tensor<bf16>, tensor<i64>
}

/// A greatest number alone is rounded once.
// CHECK-LABEL: func.func @greatest
// CHECK: %[[M:.*]] = arith.mulf
// CHECK-NOT: truncf
// CHECK: arith.maximumf %[[M]]
func.func @greatest(%x: tensor<8xbf16>, %m: tensor<bf16>) -> tensor<bf16> {
  %0 = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%x : tensor<8xbf16>) outs(%m : tensor<bf16>) {
  ^bb0(%a: bf16, %b: bf16):
    %s = arith.mulf %a, %a : bf16
    %g = arith.maximumf %s, %b : bf16
    linalg.yield %g : bf16
  } -> tensor<bf16>
  return %0 : tensor<bf16>
}
