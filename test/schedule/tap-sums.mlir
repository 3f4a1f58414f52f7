// RUN: inferno-opt %s -p 'split-padding{target=sm_90a},assign-schedules{target=sm_90a}' | FileCheck %s --check-prefix=SCHEDULE
// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a},generate-kernels{target=sm_90a}' | FileCheck %s

// The gradient of a depthwise convolution's weight keeps its padding; each block leaves a part of its channels' sums, which a second kernel adds.
// SCHEDULE: func.func private @taps(%{{.*}}: tensor<8x56x56x96xbf16>, %{{.*}}: tensor<8x56x56x96xbf16>, {{.*}} generator = "tap_sums"
// SCHEDULE: tensor.pad
// CHECK-LABEL: gpu.module @taps_gpu
// CHECK: llvm.func @taps(
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.barrier
// CHECK: vector.fma
// CHECK: llvm.func @taps_sums(
// CHECK: func.func private @taps(
// CHECK: %[[PARTS:.*]] = memref.alloc()
// CHECK: inferno.launch
// CHECK-SAME: @taps_gpu::@taps
// CHECK: inferno.launch
// CHECK-SAME: @taps_gpu::@taps_sums
module {
func.func private @taps(%x: tensor<8x56x56x96xbf16>, %g: tensor<8x56x56x96xbf16>, %o: tensor<96x7x7xbf16>) -> tensor<96x7x7xbf16> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : bf16
  %p = tensor.pad %x low[0, 3, 3, 0] high[0, 3, 3, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %none : bf16 } : tensor<8x56x56x96xbf16> to tensor<8x62x62x96xbf16>
  %e = tensor.empty() : tensor<96x7x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<96x7x7xf32>) -> tensor<96x7x7xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(c, r, s, n, p, q) -> (n, p * 1 + r * 1, q * 1 + s * 1, c)>, affine_map<(c, r, s, n, p, q) -> (n, p, q, c)>, affine_map<(c, r, s, n, p, q) -> (c, r, s)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%p, %g : tensor<8x62x62x96xbf16>, tensor<8x56x56x96xbf16>) outs(%f : tensor<96x7x7xf32>) {
  ^bb0(%a: bf16, %b: bf16, %t: f32):
    %l = arith.extf %a : bf16 to f32
%w = arith.extf %b : bf16 to f32
    %q = arith.mulf %l, %w {inferno.convolution} : f32
    %u = arith.addf %t, %q : f32
    linalg.yield %u : f32 } -> tensor<96x7x7xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(c, r, s) -> (c, r, s)>, affine_map<(c, r, s) -> (c, r, s)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<96x7x7xf32>) outs(%o : tensor<96x7x7xbf16>) {
  ^bb0(%a: f32, %b: bf16):
    %y = arith.truncf %a : f32 to bf16
linalg.yield %y : bf16 } -> tensor<96x7x7xbf16>
  return %1 : tensor<96x7x7xbf16>
        }
}
