// RUN: inferno-opt %s -p 'order-operands{target=sm_90a},assign-schedules{target=sm_90a},prepare-operands{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s -p 'order-operands{target=sm_90a}' | FileCheck %s --check-prefix=ORDER

// TF32 factors need their terms innermost: %v is transposed by a kernel, the frozen %w once, and %s, of bf16, not at all. Of smaller products, and larger ones,
// numbers come by registers; a frozen weight is transposed there, too.
// ORDER-LABEL: func.func @main
// ORDER: call @mm(%arg0, %arg1,
// ORDER: %[[T:.*]] = call @transpose(%arg2,
// ORDER: call @mm_ordered(%arg0, %[[T]],
// ORDER: call @small(%arg3, %arg4,
// ORDER: call @half(%arg5, %arg6,
// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg7: tensor<576x576xf32> {inferno.kind = "prepared",
// CHECK: call @mm_frozen(%arg0, %arg1, %arg7,
// CHECK: call @mm_ordered(
// CHECK: call @small_frozen(%arg3, %arg4, %arg8,
// CHECK: func.func @prepare
// CHECK: call @transpose(
// CHECK: func.func private @mm_ordered(
// CHECK-SAME: generator = "wgmma"
// CHECK: func.func private @mm_frozen(
// CHECK-SAME: rewrite = false
// CHECK: func.func private @transpose(
// CHECK-SAME: generator = "elementwise"
// CHECK-SAME: tile = 32
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>
module {
  func.func @main(%x: tensor<576x576xf32>, %w: tensor<576x576xf32> {inferno.frozen}, %v: tensor<576x576xf32>, %a: tensor<256x256xf32>, %b: tensor<256x256xf32> {inferno.frozen},
                  %r: tensor<576x576xbf16>, %s: tensor<576x576xbf16>)
      -> (tensor<576x576xf32>, tensor<576x576xf32>, tensor<256x256xf32>, tensor<576x576xf32>) attributes {inferno.freeze = 20000000 : i64} {
    %e = tensor.empty() : tensor<576x576xf32>
    %f = tensor.empty() : tensor<256x256xf32>
    %0 = call @mm(%x, %w, %e) : (tensor<576x576xf32>, tensor<576x576xf32>, tensor<576x576xf32>) -> tensor<576x576xf32>
    %1 = call @mm(%x, %v, %e) : (tensor<576x576xf32>, tensor<576x576xf32>, tensor<576x576xf32>) -> tensor<576x576xf32>
    %2 = call @small(%a, %b, %f) : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %3 = call @half(%r, %s, %e) : (tensor<576x576xbf16>, tensor<576x576xbf16>, tensor<576x576xf32>) -> tensor<576x576xf32>
    return %0, %1, %2, %3 : tensor<576x576xf32>, tensor<576x576xf32>, tensor<256x256xf32>, tensor<576x576xf32>
  }
  func.func private @mm(%x: tensor<576x576xf32>, %w: tensor<576x576xf32>, %o: tensor<576x576xf32>) -> tensor<576x576xf32> attributes {inferno.precision = "tf32"} {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<576x576xf32>) -> tensor<576x576xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<576x576xf32>, tensor<576x576xf32>) outs(%s : tensor<576x576xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<576x576xf32>
    return %0 : tensor<576x576xf32>
  }
  func.func private @small(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>, %o: tensor<256x256xf32>) -> tensor<256x256xf32> attributes {inferno.precision = "tf32"} {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<256x256xf32>) -> tensor<256x256xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<256x256xf32>, tensor<256x256xf32>) outs(%s : tensor<256x256xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<256x256xf32>
    return %0 : tensor<256x256xf32>
  }
  func.func private @half(%x: tensor<576x576xbf16>, %w: tensor<576x576xbf16>, %o: tensor<576x576xf32>) -> tensor<576x576xf32> attributes {inferno.precision = "tf32"} {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<576x576xf32>) -> tensor<576x576xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<576x576xbf16>, tensor<576x576xbf16>) outs(%s : tensor<576x576xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %m = arith.mulf %d, %e : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<576x576xf32>
    return %0 : tensor<576x576xf32>
  }
}
