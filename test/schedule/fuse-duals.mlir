// RUN: inferno-opt %s -p 'fuse-duals{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-duals{target=cpu always=1}' --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: inferno-opt %s -p 'fuse-duals{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=NONE

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>

// The second product's epilogue reads the first one's sums: both are one kernel, in which one operation reads the sums of both.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<16x40xbf16>
// CHECK-NEXT: %[[R:.*]] = call @dual_up(%arg0, %arg1, %arg2, %[[E]]) {inferno.source = ["a", "b"]}
// CHECK-NEXT: return %[[R]] : tensor<16x40xbf16>
// CHECK: func.func private @dual_up(%[[X:.*]]: tensor<16x64xbf16>, %[[G:.*]]: tensor<40x64xbf16>, %[[U:.*]]: tensor<40x64xbf16>, %[[OUT:.*]]: tensor<16x40xbf16>)
// CHECK: %[[A:.*]] = linalg.generic {{.*}}["parallel", "parallel", "reduction"]} ins(%[[X]], %[[G]]
// CHECK: %[[B:.*]] = linalg.generic {{.*}}["parallel", "parallel", "reduction"]} ins(%[[X]], %[[U]]
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]} ins(%[[A]], %[[B]] {{.*}} outs(%[[OUT]]
// NONE-LABEL: func.func @main
// NONE-COUNT-2: call @
func.func @main(%x: tensor<16x64xbf16>, %g: tensor<40x64xbf16>, %u: tensor<40x64xbf16>) -> tensor<16x40xbf16> {
  %e0 = tensor.empty() : tensor<16x40xf32>
  %0 = call @gate(%x, %g, %e0) {inferno.source = ["a"]} : (tensor<16x64xbf16>, tensor<40x64xbf16>, tensor<16x40xf32>) -> tensor<16x40xf32>
  %e1 = tensor.empty() : tensor<16x40xbf16>
  %1 = call @up(%x, %u, %0, %e1) {inferno.source = ["b"]} : (tensor<16x64xbf16>, tensor<40x64xbf16>, tensor<16x40xf32>, tensor<16x40xbf16>) -> tensor<16x40xbf16>
  return %1 : tensor<16x40xbf16>
}
func.func private @gate(%x: tensor<16x64xbf16>, %w: tensor<40x64xbf16>, %out: tensor<16x40xf32>) -> tensor<16x40xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<16x40xf32>) -> tensor<16x40xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<16x64xbf16>, tensor<40x64xbf16>) outs(%start : tensor<16x40xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<16x40xf32>
  return %0 : tensor<16x40xf32>
}
func.func private @up(%x: tensor<16x64xbf16>, %w: tensor<40x64xbf16>, %g: tensor<16x40xf32>, %out: tensor<16x40xbf16>) -> tensor<16x40xbf16> {
  %zero = arith.constant 0.0 : f32
  %c63 = arith.constant 63 : index
  %e = tensor.empty() : tensor<16x40xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<16x40xf32>) -> tensor<16x40xf32>
  %0:2 = linalg.generic {indexing_maps = [#x, #w, #y, #y, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w, %g : tensor<16x64xbf16>, tensor<40x64xbf16>, tensor<16x40xf32>) outs(%start, %out : tensor<16x40xf32>, tensor<16x40xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %c: f32, %s: f32, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 2 : index
    %6 = arith.cmpi eq, %5, %c63 : index
    %7 = math.tanh %c : f32
    %8 = arith.mulf %7, %4 : f32
    %9 = arith.truncf %8 : f32 to bf16
    %10 = arith.select %6, %9, %old : bf16
    linalg.yield %4, %10 : f32, bf16
  } -> (tensor<16x40xf32>, tensor<16x40xbf16>)
  return %0#1 : tensor<16x40xbf16>
}

// -----

#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>

// An elementwise kernel reads both; the first product is a result, too.  Two that are read across each other stay apart.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @dual_add(%arg0, %arg1, %arg2,
// CHECK: call @product(%arg3,
// CHECK: call @product(%arg3,
// CHECK: call @across(
// CHECK: return %[[R]]#1, %[[R]]#0,
// CHECK: func.func private @dual_add(
// CHECK: %[[A:.*]] = linalg.generic {{.*}}["parallel", "parallel", "reduction"]}
// CHECK: %[[B:.*]] = linalg.generic {{.*}}["parallel", "parallel", "reduction"]}
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]} ins(%[[A]], %[[B]] {{.*}} outs(%{{.*}}, %{{.*}} : tensor<16x16xf32>, tensor<16x16xf32>)
// CHECK: linalg.yield %[[IN:.*]], %{{.*}} : f32, f32
// NONE-LABEL: func.func @main
// NONE-COUNT-6: call @
func.func @main(%x: tensor<16x64xbf16>, %g: tensor<16x64xbf16>, %u: tensor<16x64xbf16>, %v: tensor<16x64xbf16>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
  %e = tensor.empty() : tensor<16x16xf32>
  %0 = call @product(%x, %g, %e) : (tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = call @product(%x, %u, %e) : (tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = call @add(%0, %1, %e) : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = call @product(%v, %g, %e) : (tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %4 = call @product(%v, %u, %e) : (tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = call @across(%3, %4, %e) : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %2, %0, %5 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
}
func.func private @product(%x: tensor<16x64xbf16>, %w: tensor<16x64xbf16>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<16x16xf32>) -> tensor<16x16xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<16x64xbf16>, tensor<16x64xbf16>) outs(%start : tensor<16x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}
func.func private @add(%x: tensor<16x16xf32>, %y: tensor<16x16xf32>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = linalg.generic {indexing_maps = [#p, #p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<16x16xf32>, tensor<16x16xf32>) outs(%out : tensor<16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}
func.func private @across(%x: tensor<16x16xf32>, %y: tensor<16x16xf32>, %out: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = linalg.generic {indexing_maps = [#p, #t, #p], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<16x16xf32>, tensor<16x16xf32>) outs(%out : tensor<16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.addf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}
