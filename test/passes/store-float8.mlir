// RUN: inferno-opt -p store-float8 %s --split-input-file | FileCheck %s

// Tensors of bytes, and a rounding of bits: half a unit more, and an exponent of another bias; small numbers by an addition.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{.*}}: tensor<4xf32>) -> tensor<4xi8>
// CHECK: tensor.empty() : tensor<4xi8>
// CHECK: %[[BITS:.*]] = arith.bitcast %{{.*}} : f32 to i32
// CHECK: arith.shrui
// CHECK: arith.addf
// CHECK: %[[MOST:.*]] = arith.constant 126 : i32
// CHECK: arith.minui %{{.*}}, %[[MOST]]
// CHECK: %[[R:.*]] = arith.trunci %{{.*}} : i32 to i8
// CHECK: linalg.yield %[[R]] : i8
func.func @main(%x: tensor<4xf32>) -> tensor<4xf8E4M3FN> {
  %e = tensor.empty() : tensor<4xf8E4M3FN>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf8E4M3FN>) {
  ^bb0(%a: f32, %old: f8E4M3FN):
    %b = arith.truncf %a : f32 to f8E4M3FN
    linalg.yield %b : f8E4M3FN
  } -> tensor<4xf8E4M3FN>
  return %r : tensor<4xf8E4M3FN>
}

// -----

// What is too large is no number in older versions of torch.
// CHECK-LABEL: func.func @main
// CHECK-NOT: inferno.float8_overflows
// CHECK: %[[MOST:.*]] = arith.constant 127 : i32
// CHECK: arith.minui %{{.*}}, %[[MOST]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf8E4M3FN> attributes {inferno.float8_overflows} {
  %e = tensor.empty() : tensor<4xf8E4M3FN>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf8E4M3FN>) {
  ^bb0(%a: f32, %old: f8E4M3FN):
    %b = arith.truncf %a : f32 to f8E4M3FN
    linalg.yield %b : f8E4M3FN
  } -> tensor<4xf8E4M3FN>
  return %r : tensor<4xf8E4M3FN>
}

// -----

// The other way, through float16; constants; what only moves such numbers.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{.*}}: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xi8>)
// CHECK: %[[ONE:.*]] = arith.constant 60 : i8
// CHECK: %[[H:.*]] = arith.bitcast %{{.*}} : i16 to f16
// CHECK: arith.extf %[[H]] : f16 to f32
// CHECK: linalg.fill ins(%[[ONE]] : i8) outs(%{{.*}} : tensor<4xi8>) -> tensor<4xi8>
func.func @main(%x: tensor<4xf8E5M2>) -> (tensor<4xf32>, tensor<4xf8E5M2>) {
  %one = arith.constant 1.0 : f8E5M2
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf8E5M2>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f8E5M2, %old: f32):
    %b = arith.extf %a : f8E5M2 to f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  %f = tensor.empty() : tensor<4xf8E5M2>
  %s = linalg.fill ins(%one : f8E5M2) outs(%f : tensor<4xf8E5M2>) -> tensor<4xf8E5M2>
  return %r, %s : tensor<4xf32>, tensor<4xf8E5M2>
}
