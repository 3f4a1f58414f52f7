// RUN: inferno-opt %s -p 'fold-transposes,fold-fills,fold-transposes,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// The state at the beginning is zeros: all columns of its product are the same, and what is less that product reads them so.
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @state
// CHECK: %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[ROW]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<2x5x7xf32>) outs(%{{.*}} : tensor<2x5xf32>)
// CHECK: arith.mulf
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[ROW]], #[[ID]]], {{.*}} ins(%arg1, %[[SUM]] : tensor<2x5x3xf32>, tensor<2x5xf32>)
// CHECK: arith.subf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @state(%k: tensor<2x5x7xf32>, %v: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x7x3xf32>
  %state = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x7x3xf32>) -> tensor<2x7x3xf32>
  %e1 = tensor.empty() : tensor<2x5x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %p = linalg.batch_matmul ins(%k, %state : tensor<2x5x7xf32>, tensor<2x7x3xf32>) outs(%start : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %r = linalg.sub ins(%v, %p : tensor<2x5x3xf32>, tensor<2x5x3xf32>) outs(%e1 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  return %r : tensor<2x5x3xf32>
}

// -----

// Half numbers are widened as they were.
// CHECK-LABEL: func.func @twos
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<2x7x3xbf16>) outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: arith.mulf
// CHECK: return
func.func @twos(%x: tensor<2x7x3xbf16>) -> tensor<2x5x3xf32> {
  %two = arith.constant 2.0 : bf16
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x5x7xbf16>
  %twos = linalg.fill ins(%two : bf16) outs(%e0 : tensor<2x5x7xbf16>) -> tensor<2x5x7xbf16>
  %e1 = tensor.empty() : tensor<2x5x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %p = linalg.batch_matmul ins(%twos, %x : tensor<2x5x7xbf16>, tensor<2x7x3xbf16>) outs(%start : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  return %p : tensor<2x5x3xf32>
}

// -----

// The first step of a recurrent network is like all others.
// CHECK-LABEL: func.func @one_weight
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: return
func.func @one_weight(%w: tensor<7x5xf32>) -> tensor<3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<3x7xf32>
  %state = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x7xf32>) -> tensor<3x7xf32>
  %e1 = tensor.empty() : tensor<3x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x5xf32>) -> tensor<3x5xf32>
  %p = linalg.matmul ins(%state, %w : tensor<3x7xf32>, tensor<7x5xf32>) outs(%start : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}

// -----

// What does not start from a number stays.
// CHECK-LABEL: func.func @added
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: return
func.func @added(%x: tensor<2x3x7xf32>, %s: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x7x5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x7x5xf32>) -> tensor<2x7x5xf32>
  %p = linalg.batch_matmul ins(%x, %zeros : tensor<2x3x7xf32>, tensor<2x7x5xf32>) outs(%s : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %p : tensor<2x3x5xf32>
}
