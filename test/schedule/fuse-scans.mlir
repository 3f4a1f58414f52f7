// RUN: inferno-opt -p 'fuse-scans{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'fuse-scans{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>

// A double before, and the same behind, of which the scan itself is read too: one kernel of two results.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[K:double_scan_double]](%arg0, %{{.*}}, %{{.*}}) {inferno.source = ["mul", "cumsum"]}
// CHECK-NOT: call
// CHECK: return %[[R]]#0, %[[R]]#1
// CHECK: func.func private @[[K]](
// CHECK: linalg.generic
// CHECK: tm_tensor.scan
// CHECK: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call
func.func @main(%x: tensor<64x100xf32>) -> (tensor<64x100xf32>, tensor<64x100xf32>) {
  %e = tensor.empty() : tensor<64x100xf32>
  %a = call @double(%x, %e) {inferno.source = ["mul"]} : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  %s = call @scan(%a, %e) {inferno.source = ["cumsum"]} : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  %b = call @double(%s, %e) {inferno.source = ["mul"]} : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  return %s, %b : tensor<64x100xf32>, tensor<64x100xf32>
}
func.func private @double(%x: tensor<64x100xf32>, %o: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x100xf32>) outs(%o : tensor<64x100xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<64x100xf32>
  return %r : tensor<64x100xf32>
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

// -----

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>

// A reader that transposes the scan waits for what the scan gives: it stays, as does a map of which something else reads the result.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: call
func.func @main(%x: tensor<64x100xf32>) -> (tensor<64x100xf32>, tensor<100x64xf32>) {
  %e = tensor.empty() : tensor<64x100xf32>
  %f = tensor.empty() : tensor<100x64xf32>
  %a = call @double(%x, %e) : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  %s = call @scan(%a, %e) : (tensor<64x100xf32>, tensor<64x100xf32>) -> tensor<64x100xf32>
  %b = call @transpose(%s, %f) : (tensor<64x100xf32>, tensor<100x64xf32>) -> tensor<100x64xf32>
  return %a, %b : tensor<64x100xf32>, tensor<100x64xf32>
}
func.func private @double(%x: tensor<64x100xf32>, %o: tensor<64x100xf32>) -> tensor<64x100xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x100xf32>) outs(%o : tensor<64x100xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<64x100xf32>
  return %r : tensor<64x100xf32>
}
func.func private @transpose(%x: tensor<64x100xf32>, %o: tensor<100x64xf32>) -> tensor<100x64xf32> {
  %r = linalg.generic {indexing_maps = [#transposed, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x100xf32>) outs(%o : tensor<100x64xf32>) {
  ^bb0(%a: f32, %old: f32):
    linalg.yield %a : f32
  } -> tensor<100x64xf32>
  return %r : tensor<100x64xf32>
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

// -----

#points = affine_map<(i, j) -> (i, j)>

// Flips in front of it and behind go into a scan, which reads and writes from the end.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: call @
// CHECK-NOT: call @
// CHECK: return
func.func @main(%x: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %e = tensor.empty() : tensor<64x96xf32>
  %a = call @flip(%x, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %b = call @sums(%a, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %c = call @flip(%b, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  return %c : tensor<64x96xf32>
}
func.func private @flip(%x: tensor<64x96xf32>, %o: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %last = arith.constant 95 : index
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<64x96xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<64x96xf32>
    linalg.yield %v : f32
  } -> tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}
func.func private @sums(%x: tensor<64x96xf32>, %o: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %g = linalg.fill ins(%zero : f32) outs(%o : tensor<64x96xf32>) -> tensor<64x96xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x96xf32>) outs(%g, %f : tensor<64x96xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x96xf32>, tensor<64xf32>
  return %r#0 : tensor<64x96xf32>
}

// -----

#points = affine_map<(i, j) -> (i, j)>

// So does one behind it alone; where something else reads what is flipped at the same point, the flip stays apart.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]]:2 = call @sums_flip(
// CHECK: %[[T:.*]] = call @sums(
// CHECK: call @beside(%[[T]],
// CHECK: return
func.func @main(%x: tensor<64x96xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) {
  %e = tensor.empty() : tensor<64x96xf32>
  %a = call @sums(%x, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %b = call @flip(%a, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %c = call @sums(%b, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  %d = call @beside(%c, %e) : (tensor<64x96xf32>, tensor<64x96xf32>) -> tensor<64x96xf32>
  return %a, %b, %d : tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>
}
func.func private @beside(%x: tensor<64x96xf32>, %o: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %last = arith.constant 95 : index
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x96xf32>) outs(%o : tensor<64x96xf32>) {
  ^bb0(%own: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<64x96xf32>
    %s = arith.addf %v, %own : f32
    linalg.yield %s : f32
  } -> tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}
func.func private @flip(%x: tensor<64x96xf32>, %o: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %last = arith.constant 95 : index
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<64x96xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<64x96xf32>
    linalg.yield %v : f32
  } -> tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}
func.func private @sums(%x: tensor<64x96xf32>, %o: tensor<64x96xf32>) -> tensor<64x96xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %g = linalg.fill ins(%zero : f32) outs(%o : tensor<64x96xf32>) -> tensor<64x96xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x96xf32>) outs(%g, %f : tensor<64x96xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x96xf32>, tensor<64xf32>
  return %r#0 : tensor<64x96xf32>
}
