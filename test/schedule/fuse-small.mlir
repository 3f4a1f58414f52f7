// RUN: inferno-opt -p 'fuse-small{target=sm_90a always=1}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'fuse-small{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'fuse-small{target=cpu always=1}' %s --split-input-file | FileCheck %s --check-prefix=APART

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// A scan, the sums of its rows, which are returned too, and what follows them: one block.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[K:small_scan_sum_scale]](%arg0, %{{.*}}, %{{.*}}) {inferno.source = ["cumsum", "sum", "mul"]}
// CHECK-NOT: call
// CHECK: return %[[R]]#0, %[[R]]#1
// CHECK: func.func private @[[K]]({{.*}} attributes {inferno.schedule = {generator = "one_block", threads = 512 : i64}}
// CHECK: tm_tensor.scan
// CHECK: linalg.generic
// CHECK: linalg.generic
// APART-LABEL: func.func @main
// APART-COUNT-3: call
func.func @main(%x: tensor<6x100xf32>) -> (tensor<6xf32>, tensor<6x100xf32>) {
  %e = tensor.empty() : tensor<6x100xf32>
  %f = tensor.empty() : tensor<6xf32>
  %a = call @scan(%x, %e) {inferno.source = ["cumsum"]} : (tensor<6x100xf32>, tensor<6x100xf32>) -> tensor<6x100xf32>
  %s = call @sum(%a, %f) {inferno.source = ["sum"]} : (tensor<6x100xf32>, tensor<6xf32>) -> tensor<6xf32>
  %b = call @scale(%a, %s, %e) {inferno.source = ["mul"]} : (tensor<6x100xf32>, tensor<6xf32>, tensor<6x100xf32>) -> tensor<6x100xf32>
  return %s, %b : tensor<6xf32>, tensor<6x100xf32>
}
func.func private @scan(%x: tensor<6x100xf32>, %o: tensor<6x100xf32>) -> tensor<6x100xf32> {
  %e = tensor.empty() : tensor<6xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<6x100xf32>) outs(%o, %e : tensor<6x100xf32>, tensor<6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<6x100xf32>, tensor<6xf32>
  return %r#0 : tensor<6x100xf32>
}
func.func private @sum(%x: tensor<6x100xf32>, %o: tensor<6xf32>) -> tensor<6xf32> {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%o : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x100xf32>) outs(%z : tensor<6xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %old : f32
    linalg.yield %y : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}
func.func private @scale(%x: tensor<6x100xf32>, %s: tensor<6xf32>, %o: tensor<6x100xf32>) -> tensor<6x100xf32> {
  %r = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]}
    ins(%x, %s : tensor<6x100xf32>, tensor<6xf32>) outs(%o : tensor<6x100xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.mulf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<6x100xf32>
  return %r : tensor<6x100xf32>
}

// -----

#points = affine_map<(i) -> (i)>

// A large tensor is for more than one block.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call
// APART-LABEL: func.func @main
func.func @main(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %e = tensor.empty() : tensor<100000xf32>
  %a = call @double(%x, %e) {inferno.source = ["mul"]} : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32>
  %b = call @double(%a, %e) {inferno.source = ["mul"]} : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<100000xf32>
  return %b : tensor<100000xf32>
}
func.func private @double(%x: tensor<100000xf32>, %o: tensor<100000xf32>) -> tensor<100000xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel"]} ins(%x : tensor<100000xf32>) outs(%o : tensor<100000xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<100000xf32>
  return %r : tensor<100000xf32>
}
