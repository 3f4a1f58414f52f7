// RUN: inferno-opt %s -p 'fold-scans,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// Places are counted by ones.
// CHECK-LABEL: func.func @places
// CHECK-NOT: tm_tensor.scan
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.index 1
// CHECK: arith.sitofp {{.*}} : i64 to f32
// CHECK: return
func.func @places(%start: tensor<3x5xf32>, %last: tensor<3xf32>) -> tensor<3x5xf32> {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x5xf32>
  %x = linalg.fill ins(%one : f32) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<3x5xf32>) outs(%s, %last : tensor<3x5xf32>, tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tm_tensor.yield %c : f32
  } -> tensor<3x5xf32>, tensor<3xf32>
  return %r#0 : tensor<3x5xf32>
}

// -----

// The number is computed of the one that a mask has everywhere, and is a sum of 16 bits.
#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @mask
// CHECK-NOT: tm_tensor.scan
// CHECK: linalg.index 0
// CHECK: arith.trunci {{.*}} : i64 to i16
// CHECK: return
func.func @mask(%start: tensor<3x5xi16>, %last: tensor<5xi16>) -> tensor<3x5xi16> {
  %true = arith.constant true
  %e = tensor.empty() : tensor<3x5xi1>
  %m = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<3x5xi1>) {
  ^bb0(%o: i1):
    linalg.yield %true : i1
  } -> tensor<3x5xi1>
  %f = tensor.empty() : tensor<3x5xi16>
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<3x5xi1>) outs(%f : tensor<3x5xi16>) {
  ^bb0(%i: i1, %o: i16):
    %w = arith.extui %i : i1 to i16
    linalg.yield %w : i16
  } -> tensor<3x5xi16>
  %r:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<3x5xi16>) outs(%start, %last : tensor<3x5xi16>, tensor<5xi16>) {
  ^bb0(%a: i16, %b: i16):
    %c = arith.addi %a, %b : i16
    tm_tensor.yield %c : i16
  } -> tensor<3x5xi16>, tensor<5xi16>
  return %r#0 : tensor<3x5xi16>
}

// -----

// Products of one number stay, and sums whose last number is asked for.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: tm_tensor.scan
func.func @others(%start: tensor<5xf32>, %last: tensor<f32>, %two: f32) -> (tensor<5xf32>, tensor<f32>) {
  %e = tensor.empty() : tensor<5xf32>
  %x = linalg.fill ins(%two : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  %p:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<5xf32>) outs(%start, %last : tensor<5xf32>, tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tm_tensor.yield %c : f32
  } -> tensor<5xf32>, tensor<f32>
  %s:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<5xf32>) outs(%start, %last : tensor<5xf32>, tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tm_tensor.yield %c : f32
  } -> tensor<5xf32>, tensor<f32>
  return %p#0, %s#1 : tensor<5xf32>, tensor<f32>
}
