// RUN: inferno-opt -p 'merge-softmaxes{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'merge-softmaxes{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// A softmax along the first dimension: one kernel reads the tensor for the largest and the sum, which is no number where the largest is infinite, and the
// quotient computes the exponentials and multiplies by the sum's reciprocal.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]]:2 = call @[[SUMS:reduce_exponentials[_0-9]*]](%arg0, %{{.*}}, %{{.*}}) {inferno.source = ["largest", "total"]}
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: %[[Q:.*]] = call @[[QUOTIENT:powers_quotient[_0-9]*]](%[[S]]#0, %arg0, %[[S]]#1,
// CHECK-NEXT: return %[[Q]]
// CHECK: func.func private @[[SUMS]](%{{.*}}: tensor<100000x64xbf16>, %{{.*}}: tensor<64xf32>, %{{.*}}: tensor<64xf32>)
// CHECK: linalg.generic
// CHECK: ^bb0(%{{.*}}: bf16, %[[M:.*]]: f32, %[[T:.*]]: f32):
// CHECK: %[[X:.*]] = arith.extf
// CHECK: %[[N:.*]] = arith.maximumf %[[X]], %[[M]]
// CHECK: %[[B:.*]] = arith.select %{{.*}}, %{{.*}}, %[[N]]
// CHECK: arith.subf %[[M]], %[[B]]
// CHECK: arith.subf %[[X]], %[[B]]
// CHECK: arith.mulf %[[T]],
// CHECK: linalg.yield %[[N]],
// CHECK: linalg.generic
// CHECK: arith.select
// CHECK: arith.divf
// CHECK: func.func private @[[QUOTIENT]]
// CHECK: math.exp
// CHECK-NEXT: arith.mulf
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call
func.func @main(%x: tensor<100000x64xbf16>) -> tensor<100000x64xbf16> {
  %e = tensor.empty() : tensor<64xf32>
  %m = call @largest(%x, %e) {inferno.source = ["largest"]} : (tensor<100000x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  %w = tensor.empty() : tensor<100000x64xf32>
  %p = call @powers(%m, %x, %w) : (tensor<64xf32>, tensor<100000x64xbf16>, tensor<100000x64xf32>) -> tensor<100000x64xf32>
  %s = call @total(%p, %e) {inferno.source = ["total"]} : (tensor<100000x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %o = tensor.empty() : tensor<100000x64xbf16>
  %q = call @quotient(%p, %s, %o) : (tensor<100000x64xf32>, tensor<64xf32>, tensor<100000x64xbf16>) -> tensor<100000x64xbf16>
  return %q : tensor<100000x64xbf16>
}
func.func private @largest(%x: tensor<100000x64xbf16>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100000x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: bf16, %s: f32):
    %w = arith.extf %a : bf16 to f32
    %y = arith.maximumf %w, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @powers(%m: tensor<64xf32>, %x: tensor<100000x64xbf16>, %o: tensor<100000x64xf32>) -> tensor<100000x64xf32> {
  %r = linalg.generic {indexing_maps = [#columns, #points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<100000x64xbf16>) outs(%o : tensor<100000x64xf32>) {
  ^bb0(%b: f32, %a: bf16, %old: f32):
    %w = arith.extf %a : bf16 to f32
    %d = arith.subf %w, %b : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<100000x64xf32>
  return %r : tensor<100000x64xf32>
}
func.func private @total(%x: tensor<100000x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100000x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @quotient(%x: tensor<100000x64xf32>, %s: tensor<64xf32>, %o: tensor<100000x64xbf16>) -> tensor<100000x64xbf16> {
  %r = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<100000x64xf32>, tensor<64xf32>) outs(%o : tensor<100000x64xbf16>) {
  ^bb0(%a: f32, %b: f32, %old: bf16):
    %d = arith.divf %a, %b : f32
    %y = arith.truncf %d : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<100000x64xbf16>
  return %r : tensor<100000x64xbf16>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>

// A logarithm of a sum, whose base is 0 where the largest is infinite: the sum stays as it is.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]]:2 = call @[[SUMS:reduce_exponentials[_0-9]*]](%arg0,
// CHECK: %[[B:.*]] = call @base(%[[S]]#0,
// CHECK: return %[[B]], %[[S]]#1
// CHECK: func.func private @[[SUMS]]
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: func.func private @base
func.func @main(%x: tensor<100000x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %m = call @largest(%x, %e) : (tensor<100000x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b = call @base(%m, %e) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %s = call @total(%b, %x, %e) : (tensor<64xf32>, tensor<100000x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %b, %s : tensor<64xf32>, tensor<64xf32>
}
func.func private @largest(%x: tensor<100000x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100000x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.maximumf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @base(%m: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %i = arith.constant 0x7FF0000000000000 : f64
  %z = arith.constant 0.0 : f32
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%m : tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %p = math.absf %a : f32
    %w = arith.extf %p : f32 to f64
    %c = arith.cmpf oeq, %w, %i : f64
    %y = arith.select %c, %z, %a : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @total(%m: tensor<64xf32>, %x: tensor<100000x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<100000x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %d = arith.subf %a, %b : f32
    %q = math.exp %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// Exponentials of other numbers than those of which that is the largest: both stay.
// CHECK-LABEL: func.func @main
// CHECK: call @largest
// CHECK: call @total
func.func @main(%x: tensor<100000x64xf32>, %o: tensor<100000x64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %m = call @largest(%x, %e) : (tensor<100000x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %s = call @total(%m, %o, %e) : (tensor<64xf32>, tensor<100000x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %s : tensor<64xf32>
}
func.func private @largest(%x: tensor<100000x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100000x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.maximumf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @total(%m: tensor<64xf32>, %x: tensor<100000x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<100000x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %d = arith.subf %a, %b : f32
    %q = math.exp %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
