// RUN: inferno-opt %s -p lift-constants --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p lift-constants,lift-constants --split-input-file | FileCheck %s

// Data becomes a trailing argument, equal data one argument; the other arguments keep their attributes.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%arg0: tensor<2xi64> {inferno.name = "x"}, %arg1: tensor<2xi64> {inferno.constant = dense<[3, 4]> : tensor<2xi64>, inferno.kind = "constant", inferno.name = "constant 0"},
// CHECK-SAME: %arg2: tensor<2xbf16> {inferno.constant = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xbf16>,
// CHECK-NEXT: return %arg1, %arg1, %arg0, %arg2
func.func @main(%x: tensor<2xi64> {inferno.name = "x"}) -> (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xbf16>) {
  %0 = arith.constant dense<[3, 4]> : tensor<2xi64>
  %1 = arith.constant dense<[3, 4]> : tensor<2xi64>
  %2 = arith.constant dense<[1.0, 2.0]> : tensor<2xbf16>
  return %0, %1, %x, %2 : tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xbf16>
}

// -----

// One value for all: a scalar in the bodies that read it, however often, and a fill for the rest.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[HALF:.*]] = arith.constant 5.0{{.*}} : f32
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<4xf32>
// CHECK-NEXT: %[[F:.*]] = linalg.fill ins(%[[HALF]] : f32) outs(%[[E]]
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xf32>) attrs = {kept = 1 : i64} {
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[HALF]], %[[A]]
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[S]], %[[HALF]]
// CHECK-NEXT: linalg.yield %[[P]]
// CHECK: return %{{.*}}, %[[F]]
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = arith.constant dense<0.5> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]} ins(%c, %x, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {kept = 1} {
  ^bb0(%a: f32, %b: f32, %d: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    %p = arith.mulf %s, %d : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %0, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

// A generic keeps the input that alone says how long a loop is, and an output stays an output.
// CHECK-LABEL: func.func @main
// CHECK: %[[F:.*]] = linalg.fill {{.*}} -> tensor<4x8xf32>
// CHECK: %[[G:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// CHECK: linalg.generic {{.*}} ins(%[[F]] : tensor<4x8xf32>) outs(%[[G]] : tensor<4xf32>)
func.func @main() -> tensor<4xf32> {
  %c = arith.constant dense<0.5> : tensor<4x8xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%c : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Scalars, and modules without constants, are left alone.
// CHECK-LABEL: func.func @main(%arg0: tensor<4xf32>)
// CHECK-NEXT: arith.constant 1
// CHECK-NEXT: tensor.extract
// CHECK-NEXT: return
func.func @main(%x: tensor<4xf32>) -> f32 {
  %c1 = arith.constant 1 : index
  %0 = tensor.extract %x[%c1] : tensor<4xf32>
  return %0 : f32
}

// -----

// So does a tensor that is full of a size, as of a side of an image that places are scaled by.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg1: index {
// CHECK: %[[SIZE:.*]] = arith.index_cast %arg1 : index to i64
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<?xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[S:.*]] = arith.sitofp %[[SIZE]] : i64 to f32
// CHECK-NEXT: arith.mulf %[[A]], %[[S]]
#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
func.func @main(%x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 64 : i64, inferno.range = [2, 4096], inferno.symbol = "s0"}) -> tensor<?xf32> {
  %size = arith.index_cast %n : index to i64
  %e = tensor.empty() : tensor<i64>
  %full = linalg.fill ins(%size : i64) outs(%e : tensor<i64>) -> tensor<i64>
  %o = tensor.empty(%n) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [#id, #none, #id], iterator_types = ["parallel"]} ins(%x, %full : tensor<?xf32>, tensor<i64>) outs(%o : tensor<?xf32>) {
  ^bb0(%a: f32, %b: i64, %c: f32):
    %s = arith.sitofp %b : i64 to f32
    %p = arith.mulf %a, %s : f32
    linalg.yield %p : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
