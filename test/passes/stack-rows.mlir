// RUN: inferno-opt %s -p 'stack-rows,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// 7 rows of 3 channels are 3 times 8 channels: of each channel the rows that the windows of a row of the result have, one row of zeros behind them.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 * 2 + d4, d5)>
// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d4, d5)>
#x = affine_map<(n, y, x, f, r, s, c) -> (n, y * 2 + r, x * 2 + s, c)>
#w = affine_map<(n, y, x, f, r, s, c) -> (f, r, s, c)>
#o = affine_map<(n, y, x, f, r, s, c) -> (n, y, x, f)>
module attributes {inferno.convolutions, inferno.unmeasured} {
  // CHECK-LABEL: @main
  // CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
  // CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
  // CHECK-DAG: %[[C7:.*]] = arith.constant 7 : index
  // CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
  // CHECK-NOT: tensor.pad
  // CHECK: %[[X:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x112x229x24xbf16>)
  // CHECK: %[[N:.*]] = linalg.index 0
  // CHECK: %[[P:.*]] = linalg.index 1
  // CHECK: %[[Q:.*]] = linalg.index 2
  // CHECK: %[[K:.*]] = linalg.index 3
  // CHECK-DAG: %[[C:.*]] = arith.divui %[[K]], %[[C8]]
  // CHECK-DAG: %[[R:.*]] = arith.remui %[[K]], %[[C8]]
  // CHECK-DAG: arith.cmpi ult, %[[R]], %[[C7]]
  // CHECK-DAG: %[[BEGIN:.*]] = arith.muli %[[P]], %[[C2]]
  // CHECK-DAG: %[[ROW:.*]] = arith.addi %[[BEGIN]], %[[R]]
  // CHECK-DAG: %[[Y:.*]] = arith.subi %[[ROW]], %[[C3]]
  // CHECK-DAG: %[[COLUMN:.*]] = arith.subi %[[Q]], %[[C3]]
  // CHECK: tensor.extract %arg0[%[[N]], %[[Y]], %[[COLUMN]], %[[C]]] : tensor<2x224x224x3xbf16>
  // CHECK: %[[W:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<64x7x24xbf16>)
  // CHECK: tensor.extract %arg1{{.*}} : tensor<64x7x7x3xbf16>
  // CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[WINDOW]], {{.*}} ins(%[[X]], %[[W]] : tensor<2x112x229x24xbf16>, tensor<64x7x24xbf16>)
  // CHECK: arith.mulf {{.*}} {inferno.convolution}
  func.func @main(%x: tensor<2x224x224x3xbf16>, %w: tensor<64x7x7x3xbf16>) -> tensor<2x112x112x64xf32> {
    %none = arith.constant 0.0 : bf16
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 3, 3, 0] high[0, 3, 3, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %none : bf16
    } : tensor<2x224x224x3xbf16> to tensor<2x230x230x3xbf16>
    %e = tensor.empty() : tensor<2x112x112x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x112x112x64xf32>) -> tensor<2x112x112x64xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %w : tensor<2x230x230x3xbf16>, tensor<64x7x7x3xbf16>) outs(%f : tensor<2x112x112x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %m = arith.mulf %l, %r {inferno.convolution} : f32
      %s = arith.addf %t, %m : f32
      linalg.yield %s : f32
    } -> tensor<2x112x112x64xf32>
    return %0 : tensor<2x112x112x64xf32>
  }
}
