// RUN: inferno-opt %s --pass-pipeline='inferno-fuse,fuse-reductions{target=sm_90a},recompute-maps{target=sm_90a}' --split-input-file | FileCheck %s

#points = affine_map<(d0, d1) -> (d0, d1)>
#columns = affine_map<(d0, d1) -> (d1)>

/// A softmax along rows of 129 columns: exponentials are computed where they are added up and where they are divided, and are never in memory.
// CHECK-LABEL: func.func @main
// CHECK: call @reduce_maximumf
// CHECK-NEXT: tensor.empty() : tensor<129xf32>
// CHECK-NEXT: call @subf_exp_reduce_addf
// CHECK-NEXT: tensor.empty() : tensor<65536x129xf16>
// CHECK-NEXT: call @subf_exp_divf
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @subf_exp_divf
// CHECK: math.exp
// CHECK-NEXT: arith.divf
// CHECK-NEXT: arith.truncf
// CHECK-LABEL: func.func private @subf_exp_reduce_addf
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK-NEXT: arith.addf
// CHECK-NOT: linalg.generic
func.func @main(%x: tensor<65536x129xf16>) -> tensor<65536x129xf16> {
  %least = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<129xf32>
  %p = tensor.empty() : tensor<65536x129xf32>
  %r = tensor.empty() : tensor<65536x129xf16>
  %m0 = linalg.fill ins(%least : f32) outs(%e : tensor<129xf32>) -> tensor<129xf32>
  %m = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<65536x129xf16>) outs(%m0 : tensor<129xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    %y = arith.maximumf %w, %o : f32
    linalg.yield %y : f32
  } -> tensor<129xf32>
  %exp = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<65536x129xf16>, tensor<129xf32>) outs(%p : tensor<65536x129xf32>) {
  ^bb0(%a: f16, %b: f32, %o: f32):
    %w = arith.extf %a : f16 to f32
    %d = arith.subf %w, %b : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<65536x129xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<129xf32>) -> tensor<129xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%exp : tensor<65536x129xf32>) outs(%s0 : tensor<129xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<129xf32>
  %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%exp, %s : tensor<65536x129xf32>, tensor<129xf32>) outs(%r : tensor<65536x129xf16>) {
  ^bb0(%a: f32, %b: f32, %o: f16):
    %d = arith.divf %a, %b : f32
    %y = arith.truncf %d : f32 to f16
    linalg.yield %y : f16
  } -> tensor<65536x129xf16>
  return %q : tensor<65536x129xf16>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#columns = affine_map<(d0, d1) -> (d1)>

/// What is made of three wider tensors is read: they take longer to read than it does.
// CHECK-LABEL: func.func @main
// CHECK: call @mulf_exp(
// CHECK: call @reduce_addf(
// CHECK: call @divf(
func.func @main(%x: tensor<65536x129xf32>, %y: tensor<65536x129xf32>, %z: tensor<65536x129xf32>) -> tensor<65536x129xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<129xf32>
  %r = tensor.empty() : tensor<65536x129xf16>
  %exp = linalg.generic {indexing_maps = [#points, #points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y, %z : tensor<65536x129xf32>, tensor<65536x129xf32>, tensor<65536x129xf32>) outs(%r : tensor<65536x129xf16>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f16):
    %d = arith.mulf %a, %b : f32
    %f = arith.mulf %d, %c : f32
    %g = math.exp %f : f32
    %h = arith.truncf %g : f32 to f16
    linalg.yield %h : f16
  } -> tensor<65536x129xf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<129xf32>) -> tensor<129xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%exp : tensor<65536x129xf16>) outs(%s0 : tensor<129xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    %y0 = arith.addf %w, %o : f32
    linalg.yield %y0 : f32
  } -> tensor<129xf32>
  %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%exp, %s : tensor<65536x129xf16>, tensor<129xf32>) outs(%r : tensor<65536x129xf16>) {
  ^bb0(%a: f16, %b: f32, %o: f16):
    %w = arith.extf %a : f16 to f32
    %d = arith.divf %w, %b : f32
    %y0 = arith.truncf %d : f32 to f16
    linalg.yield %y0 : f16
  } -> tensor<65536x129xf16>
  return %q : tensor<65536x129xf16>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#columns = affine_map<(d0, d1) -> (d1)>

/// Each reader reads from the end what is flipped: that is no more than the flip.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = call @[[FIRST:.*]](%arg0, %{{[0-9]+}}) {
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: %[[MADE:.*]] = call @[[SECOND:.*]](%arg0, %[[SUM]], %{{.*}})
// CHECK-NEXT: return %[[MADE]]
// CHECK: func.func private @[[FIRST]](
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]
// CHECK: tensor.extract
func.func @main(%x: tensor<65536x136xf32>) -> tensor<65536x136xf32> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 135 : index
  %e = tensor.empty() : tensor<136xf32>
  %r = tensor.empty() : tensor<65536x136xf32>
  %flip = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%r : tensor<65536x136xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<65536x136xf32>
    linalg.yield %v : f32
  } -> tensor<65536x136xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<136xf32>) -> tensor<136xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%flip : tensor<65536x136xf32>) outs(%s0 : tensor<136xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<136xf32>
  %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%flip, %s : tensor<65536x136xf32>, tensor<136xf32>) outs(%r : tensor<65536x136xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<65536x136xf32>
  return %q : tensor<65536x136xf32>
}

// -----

#points = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#rows = affine_map<(d0, d1, d2) -> (d1)>
#columns = affine_map<(d0, d1, d2) -> (d0, d2)>

/// Rows that are looked up, for a sum over them and for a map, are looked up by both.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @gather(
// CHECK: call @gather_reduce_addf(%arg0, %arg1
// CHECK: call @gather_mulf(%arg0, %arg1
// CHECK-NOT: call
// CHECK: return
func.func @main(%x: tensor<57x256x512xf32>, %at: tensor<128xi64>) -> (tensor<57x512xf32>, tensor<57x128x512xf32>) {
  %two = arith.constant 2.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<57x128x512xf32>
  %taken = linalg.generic {indexing_maps = [#rows, #points], iterator_types = ["parallel", "parallel", "parallel"]} ins(%at : tensor<128xi64>) outs(%e : tensor<57x128x512xf32>) {
  ^bb0(%a: i64, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %a : i64 to index
    %k = linalg.index 2 : index
    %y = tensor.extract %x[%i, %j, %k] : tensor<57x256x512xf32>
    linalg.yield %y : f32
  } -> tensor<57x128x512xf32>
  %t = tensor.empty() : tensor<57x512xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%t : tensor<57x512xf32>) -> tensor<57x512xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["parallel", "reduction", "parallel"]} ins(%taken : tensor<57x128x512xf32>) outs(%s0 : tensor<57x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.addf %a, %o : f32
    linalg.yield %y : f32
  } -> tensor<57x512xf32>
  %m = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel", "parallel"]} ins(%taken : tensor<57x128x512xf32>) outs(%e : tensor<57x128x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.mulf %a, %two : f32
    linalg.yield %y : f32
  } -> tensor<57x128x512xf32>
  return %s, %m : tensor<57x512xf32>, tensor<57x128x512xf32>
}
