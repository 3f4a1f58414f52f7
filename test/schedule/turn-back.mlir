// RUN: inferno-opt -p 'turn-back{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'turn-back{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// Sums in chunks of 40 MB are taken in turns, a map of what they have read goes backwards, and what reads its result forwards.
// CHECK-LABEL: func.func private @sums
// CHECK-SAME: interleaved = true
// CHECK-LABEL: func.func private @less
// CHECK-SAME: backwards = true
// CHECK-LABEL: func.func private @root
// CHECK-NOT: backwards = true
// CPU-NOT: backwards = true
func.func @main(%x: tensor<100000x100xf32>) -> tensor<100000x100xf32> {
  %e = tensor.empty() : tensor<100xf32>
  %s = call @sums(%x, %e) : (tensor<100000x100xf32>, tensor<100xf32>) -> tensor<100xf32>
  %o = tensor.empty() : tensor<100000x100xf32>
  %d = call @less(%x, %s, %o) : (tensor<100000x100xf32>, tensor<100xf32>, tensor<100000x100xf32>) -> tensor<100000x100xf32>
  %p = tensor.empty() : tensor<100000x100xf32>
  %q = call @root(%d, %p) : (tensor<100000x100xf32>, tensor<100000x100xf32>) -> tensor<100000x100xf32>
  return %q : tensor<100000x100xf32>
}
func.func private @sums(%x: tensor<100000x100xf32>, %o: tensor<100xf32>) -> tensor<100xf32>
    attributes {inferno.schedule = {generator = "reductions", across = 32 : i64, along = 8 : i64, vector = 4 : i64, unroll = 8 : i64, chunks = 500 : i64}} {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<100xf32>) -> tensor<100xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100000x100xf32>) outs(%f : tensor<100xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<100xf32>
  return %r : tensor<100xf32>
}
func.func private @less(%x: tensor<100000x100xf32>, %s: tensor<100xf32>, %o: tensor<100000x100xf32>) -> tensor<100000x100xf32>
    attributes {inferno.schedule = {generator = "elementwise", vector = 4 : i64}} {
  %r = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<100000x100xf32>, tensor<100xf32>) outs(%o : tensor<100000x100xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<100000x100xf32>
  return %r : tensor<100000x100xf32>
}
func.func private @root(%x: tensor<100000x100xf32>, %o: tensor<100000x100xf32>) -> tensor<100000x100xf32>
    attributes {inferno.schedule = {generator = "elementwise", vector = 4 : i64}} {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<100000x100xf32>) outs(%o : tensor<100000x100xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = math.sqrt %a : f32
    linalg.yield %y : f32
  } -> tensor<100000x100xf32>
  return %r : tensor<100000x100xf32>
}
