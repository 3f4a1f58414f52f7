// RUN: inferno-opt %s -p 'narrow-comparisons,func.func(canonicalize)' --split-input-file | FileCheck %s

#point = affine_map<(d) -> (d)>

// The least float32 that is not below the constant, the greatest that is not above, and on the other side the other way round.
// CHECK-LABEL: @clamps
// CHECK-DAG: %[[ABOVE:.*]] = arith.constant 1.00000012 : f32
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NOT: f64
// CHECK: arith.cmpf olt, %{{.*}}, %[[ABOVE]] : f32
// CHECK: arith.cmpf ugt, %{{.*}}, %[[ONE]] : f32
// CHECK: arith.cmpf olt, %[[ONE]], %{{.*}} : f32
// CHECK: arith.cmpf oeq, %{{.*}}, %[[ONE]] : f32
func.func @clamps(%x: tensor<8xf32>, %y: tensor<8xf32>, %o: tensor<8xi1>) -> (tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>) {
  %c = arith.constant 1.00000001 : f64
  %n = arith.constant 1.0 : f64
  %r:4 = linalg.generic {indexing_maps = [#point, #point, #point, #point, #point, #point], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%o, %o, %o, %o : tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>) {
  ^bb0(%a: f32, %b: f32, %p: i1, %q: i1, %s: i1, %t: i1):
    %d = arith.extf %a : f32 to f64
    %e = arith.extf %b : f32 to f64
    %1 = arith.cmpf olt, %d, %c : f64
    %2 = arith.cmpf ugt, %e, %c : f64
    %3 = arith.cmpf olt, %c, %e : f64
    %4 = arith.cmpf oeq, %e, %n : f64
    linalg.yield %1, %2, %3, %4 : i1, i1, i1, i1
  } -> (tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<8xi1>, tensor<8xi1>, tensor<8xi1>, tensor<8xi1>
}

// -----

// No float32 is equal to it, numbers of f64 are compared in it, and those of 16 bits as they are rounded.
// CHECK-LABEL: @left_alone
// CHECK-COUNT-3: arith.cmpf {{.*}} : f64
func.func @left_alone(%x: f32, %y: f64, %z: bf16) -> (i1, i1, i1) {
  %c = arith.constant 1.00000001 : f64
  %e = arith.extf %x : f32 to f64
  %1 = arith.cmpf oeq, %e, %c : f64
  %2 = arith.cmpf olt, %y, %c : f64
  %f = arith.extf %z : bf16 to f64
  %3 = arith.cmpf olt, %f, %c : f64
  return %1, %2, %3 : i1, i1, i1
}
