// RUN: inferno-opt -p 'split-terms{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'split-terms{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#rows = affine_map<(r) -> (r)>
#all = affine_map<(r) -> ()>

// The losses of rows and their sum: a map that reads at computed places, what it reads by the row alone as any other operand, and a sum.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = call @[[TERMS:losses_terms]](%arg0, %arg1, %arg2, %{{.*}}) {inferno.source = ["loss"]}
// CHECK: call @[[SUM:losses_[0-9]+]](%[[T]], %{{.*}}) {inferno.source = ["loss"]}
// CHECK: func.func private @[[TERMS]]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%{{.*}}, %{{.*}} : tensor<64xi64>, tensor<64xf32>)
// CHECK-COUNT-1: tensor.extract
// CHECK-NOT: tensor.extract
// CHECK: func.func private @[[SUM]]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]}
// CHECK: arith.addf
// CPU-LABEL: func.func @main
// CPU: call @losses(
func.func @main(%x: tensor<64x1000xf32>, %m: tensor<64xf32>, %t: tensor<64xi64>) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %s = call @losses(%x, %m, %t, %e) {inferno.source = ["loss"]} : (tensor<64x1000xf32>, tensor<64xf32>, tensor<64xi64>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}
func.func private @losses(%x: tensor<64x1000xf32>, %m: tensor<64xf32>, %t: tensor<64xi64>, %o: tensor<f32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["reduction"]} ins(%t : tensor<64xi64>) outs(%f : tensor<f32>) {
  ^bb0(%c: i64, %s: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %c : i64 to index
    %a = tensor.extract %x[%i, %j] : tensor<64x1000xf32>
    %b = tensor.extract %m[%i] : tensor<64xf32>
    %d = arith.subf %a, %b : f32
    %y = arith.addf %s, %d : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// Terms that nothing is looked up for, and those that are too many to be written: one kernel each, as before.
// CHECK-LABEL: func.func @main
// CHECK: call @sum(
// CHECK: call @many(
func.func @main(%x: tensor<64x1000xf32>, %i: tensor<8192x64xi64>, %t: tensor<100xf32>) -> (tensor<64xf32>, tensor<8192xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%x, %e) : (tensor<64x1000xf32>, tensor<64xf32>) -> tensor<64xf32>
  %f = tensor.empty() : tensor<8192xf32>
  %m = call @many(%i, %t, %f) : (tensor<8192x64xi64>, tensor<100xf32>, tensor<8192xf32>) -> tensor<8192xf32>
  return %s, %m : tensor<64xf32>, tensor<8192xf32>
}
func.func private @sum(%x: tensor<64x1000xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x1000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @many(%i: tensor<8192x64xi64>, %t: tensor<100xf32>, %o: tensor<8192xf32>) -> tensor<8192xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<8192xf32>) -> tensor<8192xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%i : tensor<8192x64xi64>) outs(%f : tensor<8192xf32>) {
  ^bb0(%c: i64, %s: f32):
    %j = arith.index_cast %c : i64 to index
    %a = tensor.extract %t[%j] : tensor<100xf32>
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<8192xf32>
  return %r : tensor<8192xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// The diagonal of a matrix that is longer than the loop of its places is looked up as before: it would be no operand of these loops.
// CHECK-LABEL: func.func @main
// CHECK: call @margins_terms(
// CHECK: func.func private @margins_terms
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<6x7xf32>)
// CHECK: tensor.extract %{{.*}}[%[[R:.*]], %[[R]]] : tensor<6x7xf32>
func.func @main(%x: tensor<6x7xf32>) -> tensor<6xf32> {
  %e = tensor.empty() : tensor<6xf32>
  %s = call @margins(%x, %e) : (tensor<6x7xf32>, tensor<6xf32>) -> tensor<6xf32>
  return %s : tensor<6xf32>
}
func.func private @margins(%x: tensor<6x7xf32>, %o: tensor<6xf32>) -> tensor<6xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x7xf32>) outs(%f : tensor<6xf32>) {
  ^bb0(%a: f32, %s: f32):
    %i = linalg.index 0 : index
    %b = tensor.extract %x[%i, %i] : tensor<6x7xf32>
    %d = arith.subf %a, %b : f32
    %y = arith.addf %s, %d : f32
    linalg.yield %y : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// What lies one behind the other along loops of its own, from the end, is read by whole vectors: one kernel.
// CHECK-LABEL: func.func @main
// CHECK: call @flipped(
// CHECK-NOT: call
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<34x48xf32>, %y: tensor<34x48xf32>) -> tensor<48xf32> {
  %e = tensor.empty() : tensor<48xf32>
  %s = call @flipped(%x, %y, %e) : (tensor<34x48xf32>, tensor<34x48xf32>, tensor<48xf32>) -> tensor<48xf32>
  return %s : tensor<48xf32>
}
func.func private @flipped(%x: tensor<34x48xf32>, %y: tensor<34x48xf32>, %o: tensor<48xf32>) -> tensor<48xf32> {
  %zero = arith.constant 0.0 : f32
  %end = arith.constant 47 : index
  %z = linalg.fill ins(%zero : f32) outs(%o : tensor<48xf32>) -> tensor<48xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%y : tensor<34x48xf32>) outs(%z : tensor<48xf32>) {
  ^bb0(%b: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %end, %j : index
    %a = tensor.extract %x[%i, %k] : tensor<34x48xf32>
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %m, %old : f32
    linalg.yield %s : f32
  } -> tensor<48xf32>
  return %r : tensor<48xf32>
}
