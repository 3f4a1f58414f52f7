// RUN: inferno-opt -p 'shift-scans{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'shift-scans{target=sm_90a},fuse-scans{target=sm_90a}' %s --split-input-file | FileCheck %s --check-prefix=FUSED
// RUN: inferno-opt -p 'shift-scans{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>

// An exclusive sum: what is scanned is shifted, behind a 0, and that is part of the scan's kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = call @pieces(%arg0, %{{.*}}) {inferno.source = ["pad"]}
// CHECK: %[[S:.*]] = call @scan(%[[P]], %{{.*}}) {inferno.source = ["cumsum"]}
// CHECK: return %[[S]]
// FUSED-LABEL: func.func @main
// FUSED: %[[R:.*]] = call @[[K:pieces_scan]](%arg0, %{{.*}}) {inferno.source = ["pad", "cumsum"]}
// FUSED-NOT: call
// FUSED: return %[[R]]
// CPU-LABEL: func.func @main
// CPU: call @scan(%arg0
// CPU: call @pieces
func.func @main(%x: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %e = tensor.empty() : tensor<64x100xf32>
  %s = call @scan(%x, %e) {inferno.source = ["cumsum"]} : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  %p = call @pieces(%s, %e) {inferno.source = ["pad"]} : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  return %p : tensor<64x100xf32>
}
func.func private @scan(%x: tensor<64x100xf32>, %o: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x100xf32>) outs(%o, %e : tensor<64x100xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x100xf32>, tensor<64xf32>
  return %r#0 : tensor<64x100xf32>
}
func.func private @pieces(%x: tensor<64x100xf32>, %o: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<64x100xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %first = arith.cmpi ult, %j, %c1 : index
    %y = scf.if %first -> (f32) {
      scf.yield %zero : f32
    } else {
      %k = arith.subi %j, %c1 : index
      %e = tensor.extract %x[%i, %k] : tensor<64x100xf32>
      scf.yield %e : f32
    }
    linalg.yield %y : f32
  } -> tensor<64x100xf32>
  return %r : tensor<64x100xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>

// What begins with a 1 is no running sum.
// CHECK-LABEL: func.func @main
// CHECK: call @scan(%arg0
// CHECK: call @pieces
// FUSED-LABEL: func.func @main
// FUSED-COUNT-2: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %e = tensor.empty() : tensor<64x100xf32>
  %s = call @scan(%x, %e) : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  %p = call @pieces(%s, %e) : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  return %p : tensor<64x100xf32>
}
func.func private @scan(%x: tensor<64x100xf32>, %o: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x100xf32>) outs(%o, %e : tensor<64x100xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x100xf32>, tensor<64xf32>
  return %r#0 : tensor<64x100xf32>
}
func.func private @pieces(%x: tensor<64x100xf32>, %o: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<64x100xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %first = arith.cmpi ult, %j, %c1 : index
    %y = scf.if %first -> (f32) {
      scf.yield %one : f32
    } else {
      %k = arith.subi %j, %c1 : index
      %e = tensor.extract %x[%i, %k] : tensor<64x100xf32>
      scf.yield %e : f32
    }
    linalg.yield %y : f32
  } -> tensor<64x100xf32>
  return %r : tensor<64x100xf32>
}
