// RUN: inferno-opt %s -p 'fuse-sorts{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-sorts{target=cpu}' --split-input-file | FileCheck %s --check-prefix=CPU

#same = affine_map<(d0, d1) -> (d0, d1)>

// The places are made in the sort's kernel, and of the sorted rows three elements are written.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @sort_1(%arg0, %{{.*}}, %{{.*}}) {inferno.source = ["p", "s", "a", "b"]}
// CHECK-SAME: (tensor<4x90xf32>, tensor<4x3xf32>, tensor<4x3xi64>)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
// CHECK: func.func private @sort_1(%[[X:.*]]: tensor<4x90xf32>, %[[V:.*]]: tensor<4x3xf32>, %[[P:.*]]: tensor<4x3xi64>)
// CHECK: linalg.index 1
// CHECK: %[[S:.*]]:2 = tm_tensor.sort
// CHECK: tensor.extract_slice %[[S]]#0
// CHECK: linalg.copy {{.*}} outs(%[[V]]
// CHECK: linalg.copy {{.*}} outs(%[[P]]
// CHECK-NOT: func.func
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call @
func.func @main(%x: tensor<4x90xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>) {
  %e0 = tensor.empty() : tensor<4x90xi64>
  %p = call @places(%e0) {inferno.source = ["p"]} : (tensor<4x90xi64>) -> tensor<4x90xi64>
  %e1 = tensor.empty() : tensor<4x90xf32>
  %e2 = tensor.empty() : tensor<4x90xi64>
  %s:2 = call @sort(%x, %p, %e1, %e2) {inferno.source = ["s"]}
      : (tensor<4x90xf32>, tensor<4x90xi64>, tensor<4x90xf32>, tensor<4x90xi64>) -> (tensor<4x90xf32>, tensor<4x90xi64>)
  %e3 = tensor.empty() : tensor<4x3xf32>
  %a = call @values(%s#0, %e3) {inferno.source = ["a"]} : (tensor<4x90xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %e4 = tensor.empty() : tensor<4x3xi64>
  %b = call @indices(%s#1, %e4) {inferno.source = ["b"]} : (tensor<4x90xi64>, tensor<4x3xi64>) -> tensor<4x3xi64>
  return %a, %b : tensor<4x3xf32>, tensor<4x3xi64>
}
func.func private @places(%out: tensor<4x90xi64>) -> tensor<4x90xi64> {
  %0 = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%out : tensor<4x90xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<4x90xi64>
  return %0 : tensor<4x90xi64>
}
func.func private @sort(%x: tensor<4x90xf32>, %p: tensor<4x90xi64>, %v: tensor<4x90xf32>, %i: tensor<4x90xi64>) -> (tensor<4x90xf32>, tensor<4x90xi64>) {
  %0 = linalg.copy ins(%x : tensor<4x90xf32>) outs(%v : tensor<4x90xf32>) -> tensor<4x90xf32>
  %1 = linalg.copy ins(%p : tensor<4x90xi64>) outs(%i : tensor<4x90xi64>) -> tensor<4x90xi64>
  %2:2 = tm_tensor.sort dimension(1) outs(%0, %1 : tensor<4x90xf32>, tensor<4x90xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %3 = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %3 : i1
  } -> tensor<4x90xf32>, tensor<4x90xi64>
  return %2#0, %2#1 : tensor<4x90xf32>, tensor<4x90xi64>
}
func.func private @values(%x: tensor<4x90xf32>, %out: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = tensor.extract_slice %x[0, 0] [4, 3] [1, 1] : tensor<4x90xf32> to tensor<4x3xf32>
  %1 = linalg.copy ins(%0 : tensor<4x3xf32>) outs(%out : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
func.func private @indices(%x: tensor<4x90xi64>, %out: tensor<4x3xi64>) -> tensor<4x3xi64> {
  %0 = tensor.extract_slice %x[0, 0] [4, 3] [1, 1] : tensor<4x90xi64> to tensor<4x3xi64>
  %1 = linalg.copy ins(%0 : tensor<4x3xi64>) outs(%out : tensor<4x3xi64>) -> tensor<4x3xi64>
  return %1 : tensor<4x3xi64>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// What goes with the elements is not their places, and all of them are read: nothing changes.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi64>) {
  %e0 = tensor.empty() : tensor<4x4xi64>
  %p = call @rows(%e0) {inferno.source = ["p"]} : (tensor<4x4xi64>) -> tensor<4x4xi64>
  %e1 = tensor.empty() : tensor<4x4xf32>
  %e2 = tensor.empty() : tensor<4x4xi64>
  %s:2 = call @sort(%x, %p, %e1, %e2) {inferno.source = ["s"]}
      : (tensor<4x4xf32>, tensor<4x4xi64>, tensor<4x4xf32>, tensor<4x4xi64>) -> (tensor<4x4xf32>, tensor<4x4xi64>)
  return %s#0, %s#1 : tensor<4x4xf32>, tensor<4x4xi64>
}
func.func private @rows(%out: tensor<4x4xi64>) -> tensor<4x4xi64> {
  %0 = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%out : tensor<4x4xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<4x4xi64>
  return %0 : tensor<4x4xi64>
}
func.func private @sort(%x: tensor<4x4xf32>, %p: tensor<4x4xi64>, %v: tensor<4x4xf32>, %i: tensor<4x4xi64>) -> (tensor<4x4xf32>, tensor<4x4xi64>) {
  %0 = linalg.copy ins(%x : tensor<4x4xf32>) outs(%v : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.copy ins(%p : tensor<4x4xi64>) outs(%i : tensor<4x4xi64>) -> tensor<4x4xi64>
  %2:2 = tm_tensor.sort dimension(1) outs(%0, %1 : tensor<4x4xf32>, tensor<4x4xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %3 = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %3 : i1
  } -> tensor<4x4xf32>, tensor<4x4xi64>
  return %2#0, %2#1 : tensor<4x4xf32>, tensor<4x4xi64>
}

// -----

// Of any number of rows.

#same = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: call @
// CHECK-NOT: call @
// CHECK: func.func private @sort_1(%{{.*}}: index {{.*}}, %{{.*}}: tensor<?x9xf32>{{.*}}, %{{.*}}: tensor<?x2xf32>
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<?x9xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}, %n: index {inferno.symbol = "s0", inferno.range = [2, 4096], inferno.divisor = 1 : i64, inferno.hint = 7 : i64}) -> tensor<?x2xf32> {
  %e0 = tensor.empty(%n) : tensor<?x9xi64>
  %p = call @places(%n, %e0) {inferno.source = ["p"]} : (index, tensor<?x9xi64>) -> tensor<?x9xi64>
  %e1 = tensor.empty(%n) : tensor<?x9xf32>
  %e2 = tensor.empty(%n) : tensor<?x9xi64>
  %s:2 = call @sort(%n, %x, %p, %e1, %e2) {inferno.source = ["s"]}
      : (index, tensor<?x9xf32>, tensor<?x9xi64>, tensor<?x9xf32>, tensor<?x9xi64>) -> (tensor<?x9xf32>, tensor<?x9xi64>)
  %e3 = tensor.empty(%n) : tensor<?x2xf32>
  %r = call @part(%n, %s#0, %e3) {inferno.source = ["r"]} : (index, tensor<?x9xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  return %r : tensor<?x2xf32>
}
func.func private @places(%n: index {inferno.symbol = "n0", inferno.range = [2, 4096], inferno.divisor = 1 : i64, inferno.hint = 7 : i64}, %out: tensor<?x9xi64> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}) -> tensor<?x9xi64> {
  %0 = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%out : tensor<?x9xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<?x9xi64>
  return %0 : tensor<?x9xi64>
}
func.func private @sort(%n: index {inferno.symbol = "n0", inferno.range = [2, 4096], inferno.divisor = 1 : i64, inferno.hint = 7 : i64}, %x: tensor<?x9xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}, %p: tensor<?x9xi64> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}, %v: tensor<?x9xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}, %i: tensor<?x9xi64> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}) -> (tensor<?x9xf32>, tensor<?x9xi64>) {
  %0 = linalg.copy ins(%x : tensor<?x9xf32>) outs(%v : tensor<?x9xf32>) -> tensor<?x9xf32>
  %1 = linalg.copy ins(%p : tensor<?x9xi64>) outs(%i : tensor<?x9xi64>) -> tensor<?x9xi64>
  %2:2 = tm_tensor.sort dimension(1) outs(%0, %1 : tensor<?x9xf32>, tensor<?x9xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %3 = arith.cmpf ole, %a, %b : f32
    tm_tensor.yield %3 : i1
  } -> tensor<?x9xf32>, tensor<?x9xi64>
  return %2#0, %2#1 : tensor<?x9xf32>, tensor<?x9xi64>
}
func.func private @part(%n: index {inferno.symbol = "n0", inferno.range = [2, 4096], inferno.divisor = 1 : i64, inferno.hint = 7 : i64}, %s: tensor<?x9xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 9)>}, %out: tensor<?x2xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 2)>}) -> tensor<?x2xf32> {
  %0 = tensor.extract_slice %s[0, 0] [%n, 2] [1, 1] : tensor<?x9xf32> to tensor<?x2xf32>
  %1 = linalg.copy ins(%0 : tensor<?x2xf32>) outs(%out : tensor<?x2xf32>) -> tensor<?x2xf32>
  return %1 : tensor<?x2xf32>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// A map in front of a sort by merging and one behind it are in its kernel; what sorts rows of up to 32 elements by threads, or selects, reads vectors: there
// maps stay apart.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @double_sort_double(%arg0, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[R]]
// CHECK: func.func private @double_sort_double(
// CHECK: arith.addf
// CHECK: tm_tensor.sort
// CHECK: arith.addf
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call @
func.func @main(%x: tensor<4x90xf32>) -> tensor<4x90xf32> {
  %e = tensor.empty() : tensor<4x90xf32>
  %a = call @double(%x, %e) : (tensor<4x90xf32>, tensor<4x90xf32>) -> tensor<4x90xf32>
  %e0 = tensor.empty() : tensor<4x90xi64>
  %p = call @places(%e0) : (tensor<4x90xi64>) -> tensor<4x90xi64>
  %s:2 = call @sort(%a, %p, %e, %e0) : (tensor<4x90xf32>, tensor<4x90xi64>, tensor<4x90xf32>, tensor<4x90xi64>) -> (tensor<4x90xf32>, tensor<4x90xi64>)
  %b = call @double(%s#0, %e) : (tensor<4x90xf32>, tensor<4x90xf32>) -> tensor<4x90xf32>
  return %b : tensor<4x90xf32>
}
func.func private @double(%x: tensor<4x90xf32>, %out: tensor<4x90xf32>) -> tensor<4x90xf32> {
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x90xf32>) outs(%out : tensor<4x90xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<4x90xf32>
  return %0 : tensor<4x90xf32>
}
func.func private @places(%out: tensor<4x90xi64>) -> tensor<4x90xi64> {
  %0 = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%out : tensor<4x90xi64>) {
  ^bb0(%o: i64):
    %1 = linalg.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    linalg.yield %2 : i64
  } -> tensor<4x90xi64>
  return %0 : tensor<4x90xi64>
}
func.func private @sort(%x: tensor<4x90xf32>, %p: tensor<4x90xi64>, %v: tensor<4x90xf32>, %i: tensor<4x90xi64>) -> (tensor<4x90xf32>, tensor<4x90xi64>) {
  %0 = linalg.copy ins(%x : tensor<4x90xf32>) outs(%v : tensor<4x90xf32>) -> tensor<4x90xf32>
  %1 = linalg.copy ins(%p : tensor<4x90xi64>) outs(%i : tensor<4x90xi64>) -> tensor<4x90xi64>
  %2:2 = tm_tensor.sort dimension(1) outs(%0, %1 : tensor<4x90xf32>, tensor<4x90xi64>) {
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %3 = arith.cmpf oge, %a, %b : f32
    tm_tensor.yield %3 : i1
  } -> tensor<4x90xf32>, tensor<4x90xi64>
  return %2#0, %2#1 : tensor<4x90xf32>, tensor<4x90xi64>
}
