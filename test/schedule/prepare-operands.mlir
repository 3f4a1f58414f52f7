// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a},prepare-operands{target=sm_90a}' --split-input-file | FileCheck %s

// A float32 weight comes split into three bf16, 32 terms in the order of the registers; two calls share it, the second weight is none.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<512x480xf32>, %[[W:[a-z0-9]+]]: tensor<512x480xf32> {inferno.frozen}, %[[V:[a-z0-9]+]]: tensor<512x480xf32>
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<3x512x480xbf16> {inferno.kind = "prepared", inferno.name = "prepared 0", inferno.prepared = 0 : i64}
// CHECK: call @mm_frozen(%[[X]], %[[W]], %[[P]], %{{[0-9]+}})
// CHECK: call @mm_frozen(%{{.*}}, %[[W]], %[[P]], %{{[0-9]+}})
// CHECK: call @mm(%[[X]], %[[V]], %{{[0-9]+}})
// CHECK: func.func @prepare(%[[A:[a-z0-9]+]]: tensor<512x480xf32> {inferno.argument = 1 : i64})
// CHECK: call @subf_mulf_addf(
// CHECK: tensor.collapse_shape %{{.*}} : tensor<3x512x15x2x2x4x2xbf16> into
// CHECK: func.func private @mm_frozen(
// CHECK-SAME: tensor<3x512x480xbf16> {inferno.parts = 1 : i64}, %{{[a-z0-9]+}}: tensor<512x512xf32>)
// CHECK-SAME: generator = "presplit"
// CHECK: func.func private @mm(
// CHECK-SAME: generator = "bf16x6"
// CHECK: func.func private @subf_mulf_addf(
// CHECK: arith.truncf
// CHECK: arith.extf
// CHECK: arith.subf
// CHECK: %[[LOW:.*]] = arith.subf
// CHECK: %[[HAS:.*]] = arith.cmpf oeq, %[[LOW]]
// CHECK: arith.select %[[HAS]]
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<512x480xf32>, %w: tensor<512x480xf32> {inferno.frozen}, %v: tensor<512x480xf32>)
    -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) attributes {inferno.freeze = 2000000 : i64} {
  %e = tensor.empty() : tensor<512x512xf32>
  %0 = call @mm(%x, %w, %e) : (tensor<512x480xf32>, tensor<512x480xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %f = tensor.empty() : tensor<512x512xf32>
  %1 = call @mm(%v, %w, %f) : (tensor<512x480xf32>, tensor<512x480xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %g = tensor.empty() : tensor<512x512xf32>
  %2 = call @mm(%x, %v, %g) : (tensor<512x480xf32>, tensor<512x480xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0, %1, %2 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>
}
func.func private @mm(%x: tensor<512x480xf32>, %w: tensor<512x480xf32>, %o: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%o : tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<512x480xf32>, tensor<512x480xf32>) outs(%0 : tensor<512x512xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %2 = arith.mulf %a, %b : f32
    %3 = arith.addf %c, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<512x512xf32>
  return %1 : tensor<512x512xf32>
}

// -----

// Lines of 2002 bytes are longer in the copy; a weight that @prepare makes is made longer there. What does not fit stays as it is.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<1001x512xbf16> {inferno.prepared = 0 : i64}
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<512x1024xbf16> {inferno.kind = "prepared", inferno.name = "prepared 1", inferno.prepared = 1 : i64}
// CHECK: call @mm_frozen(%{{.*}}, %{{.*}}, %[[Q]], %{{[0-9]+}})
// CHECK: call @mm(
// CHECK: func.func @prepare
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[S:[a-z0-9]+]]
// CHECK: call @insert_slice(
// CHECK: return %[[S]], %{{.*}} : tensor<1001x512xbf16>, tensor<512x1024xbf16>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<512x512xbf16>, %w: tensor<1001x512xbf16> {inferno.frozen}, %v: tensor<512x1001xbf16> {inferno.frozen},
                %p: tensor<1001x512xbf16> {inferno.prepared = 0}) -> (tensor<512x1001xf32>, tensor<512x1001xf32>) attributes {inferno.freeze = 1050000 : i64} {
  %flat = tensor.collapse_shape %p [[0, 1]] : tensor<1001x512xbf16> into tensor<512512xbf16>
  %u = tensor.expand_shape %flat [[0, 1]] output_shape [512, 1001] : tensor<512512xbf16> into tensor<512x1001xbf16>
  %e = tensor.empty() : tensor<512x1001xf32>
  %0 = call @mm(%x, %u, %e) : (tensor<512x512xbf16>, tensor<512x1001xbf16>, tensor<512x1001xf32>) -> tensor<512x1001xf32>
  %f = tensor.empty() : tensor<512x1001xf32>
  %1 = call @mm(%x, %v, %f) : (tensor<512x512xbf16>, tensor<512x1001xbf16>, tensor<512x1001xf32>) -> tensor<512x1001xf32>
  return %0, %1 : tensor<512x1001xf32>, tensor<512x1001xf32>
}
func.func @prepare(%w: tensor<1001x512xbf16> {inferno.argument = 1 : i64}) -> tensor<1001x512xbf16> {
  %e = tensor.empty() : tensor<1001x512xbf16>
  %0 = call @double(%w, %e) : (tensor<1001x512xbf16>, tensor<1001x512xbf16>) -> tensor<1001x512xbf16>
  return %0 : tensor<1001x512xbf16>
}
func.func private @double(%w: tensor<1001x512xbf16>, %o: tensor<1001x512xbf16>) -> tensor<1001x512xbf16> {
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<1001x512xbf16>) outs(%o : tensor<1001x512xbf16>) {
  ^bb0(%a: bf16, %c: bf16):
    %2 = arith.addf %a, %a : bf16
    linalg.yield %2 : bf16
  } -> tensor<1001x512xbf16>
  return %1 : tensor<1001x512xbf16>
}
func.func private @mm(%x: tensor<512x512xbf16>, %w: tensor<512x1001xbf16>, %o: tensor<512x1001xf32>) -> tensor<512x1001xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%o : tensor<512x1001xf32>) -> tensor<512x1001xf32>
  %1 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<512x512xbf16>, tensor<512x1001xbf16>) outs(%0 : tensor<512x1001xf32>) {
  ^bb0(%a: bf16, %b: bf16, %c: f32):
    %l = arith.extf %a : bf16 to f32
    %r = arith.extf %b : bf16 to f32
    %2 = arith.mulf %l, %r : f32
    %3 = arith.addf %c, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<512x1001xf32>
  return %1 : tensor<512x1001xf32>
}

// -----

// Where the copy engine cannot read a weight mma.sync may be faster than a copy at every call; the copy of a frozen one costs nothing.
// CHECK-LABEL: func.func @main
// CHECK: call @mm_frozen(
// CHECK: call @mm(
// CHECK: func.func private @mm_frozen(
// CHECK-SAME: tensor<2048x4032xbf16> {inferno.copy = 1 : i64}
// CHECK-SAME: generator = "wgmma"
// CHECK: func.func private @mm(
// CHECK-SAME: generator = "mma"
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<64x4001xbf16>, %w: tensor<2048x4001xbf16> {inferno.frozen}, %v: tensor<2048x4001xbf16>)
    -> (tensor<64x2048xf32>, tensor<64x2048xf32>) attributes {inferno.freeze = 20000000 : i64} {
  %e = tensor.empty() : tensor<64x2048xf32>
  %0 = call @mm(%x, %w, %e) : (tensor<64x4001xbf16>, tensor<2048x4001xbf16>, tensor<64x2048xf32>) -> tensor<64x2048xf32>
  %f = tensor.empty() : tensor<64x2048xf32>
  %1 = call @mm(%x, %v, %f) : (tensor<64x4001xbf16>, tensor<2048x4001xbf16>, tensor<64x2048xf32>) -> tensor<64x2048xf32>
  return %0, %1 : tensor<64x2048xf32>, tensor<64x2048xf32>
}
func.func private @mm(%x: tensor<64x4001xbf16>, %w: tensor<2048x4001xbf16>, %o: tensor<64x2048xf32>) -> tensor<64x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%o : tensor<64x2048xf32>) -> tensor<64x2048xf32>
  %1 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x4001xbf16>, tensor<2048x4001xbf16>) outs(%0 : tensor<64x2048xf32>) {
  ^bb0(%a: bf16, %b: bf16, %c: f32):
    %l = arith.extf %a : bf16 to f32
    %r = arith.extf %b : bf16 to f32
    %2 = arith.mulf %l, %r : f32
    %3 = arith.addf %c, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<64x2048xf32>
  return %1 : tensor<64x2048xf32>
}
