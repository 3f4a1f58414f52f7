// RUN: inferno-opt %s -p lift-constants --split-input-file | FileCheck %s

// Equal bytes of another type or shape are other constants, and are lifted in order.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%arg0: tensor<2xi32> {inferno.constant = dense<[0, 1]> : tensor<2xi32>
// CHECK-SAME: %arg1: tensor<1x2xi32> {
// CHECK-SAME: %arg2: tensor<2xi1> {
// CHECK-SAME: %arg3: tensor<2xf32> {
// CHECK-NEXT: return %arg0, %arg1, %arg2, %arg3
func.func @main() -> (tensor<2xi32>, tensor<1x2xi32>, tensor<2xi1>, tensor<2xf32>) {
  %0 = arith.constant dense<[0, 1]> : tensor<2xi32>
  %1 = arith.constant dense<[[0, 1]]> : tensor<1x2xi32>
  %2 = arith.constant dense<[false, true]> : tensor<2xi1>
  %3 = arith.constant dense<[0.0, 0x7FC00000]> : tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xi32>, tensor<1x2xi32>, tensor<2xi1>, tensor<2xf32>
}

// -----

// One element, or none, is one value; so are booleans and 16-bit floats.
// CHECK-LABEL: func.func @main() ->
// CHECK: linalg.fill {{.*}} -> tensor<i64>
// CHECK: linalg.fill {{.*}} -> tensor<1xi1>
// CHECK: linalg.fill ins(%{{.*}} : bf16) {{.*}} -> tensor<3xbf16>
// CHECK-NOT: dense
// CHECK: return
func.func @main() -> (tensor<i64>, tensor<1xi1>, tensor<3xbf16>) {
  %0 = arith.constant dense<7> : tensor<i64>
  %1 = arith.constant dense<true> : tensor<1xi1>
  %2 = arith.constant dense<0xFF80> : tensor<3xbf16>
  return %0, %1, %2 : tensor<i64>, tensor<1xi1>, tensor<3xbf16>
}

// -----

// A named operation reads a fill; two readers of one constant each read the scalar; scalars in bodies stay where they are.
// CHECK-LABEL: func.func @main
// CHECK: %[[F:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// CHECK: linalg.mul ins(%arg0, %[[F]]
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4xf32>)
// CHECK: arith.addf %{{.*}}, %[[THREE:.*]] : f32
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4xf32>)
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: arith.subf %{{.*}}, %[[THREE]] : f32
// CHECK: arith.addf %{{.*}}, %[[ONE]]
// CHECK: return
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c = arith.constant dense<3.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.mul ins(%x, %c : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %c : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %c : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %s = arith.subf %a, %b : f32
    %t = arith.addf %s, %one : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A table that a body reads at indices of its own is data, or a fill.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg1: tensor<3xf32> {inferno.constant = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>
// CHECK: %[[F:.*]] = linalg.fill
// CHECK: linalg.generic
// CHECK-DAG: tensor.extract %arg1
// CHECK-DAG: tensor.extract %[[F]]
// CHECK: return
func.func @main(%at: tensor<4xi64>) -> tensor<4xf32> {
  %table = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %same = arith.constant dense<0.5> : tensor<3xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%at : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i64, %o: f32):
    %i = arith.index_cast %a : i64 to index
    %p = tensor.extract %table[%i] : tensor<3xf32>
    %q = tensor.extract %same[%i] : tensor<3xf32>
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
