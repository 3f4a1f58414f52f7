// RUN: inferno-opt %s -p widen-vectors --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#vector = affine_map<(c) -> (c)>

// The mean of columns is taken off as it was computed.
// CHECK-LABEL: @less_mean
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<64xf32>) {
// CHECK: %[[MEAN:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<64xf32>) {
// CHECK: arith.divf
// CHECK-NEXT: linalg.yield %{{.*}} : f32
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[MEAN]] : tensor<32x64xbf16>, tensor<64xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: bf16, %[[M:.*]]: f32,
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[X]]
// CHECK-NEXT: arith.subf %[[W]], %[[M]]
func.func @less_mean(%x: tensor<32x64xbf16>) -> tensor<32x64xbf16> {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 32.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %v = tensor.empty() : tensor<64xbf16>
  %p = tensor.empty() : tensor<32x64xbf16>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<32x64xbf16>) outs(%s0 : tensor<64xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %y = arith.addf %w, %o : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  %m = linalg.generic {indexing_maps = [#vector, #vector], iterator_types = ["parallel"]} ins(%s : tensor<64xf32>) outs(%v : tensor<64xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %d = arith.divf %a, %count : f32
    %y = arith.truncf %d : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<64xbf16>
  %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<32x64xbf16>, tensor<64xbf16>) outs(%p : tensor<32x64xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %w = arith.extf %a : bf16 to f32
    %c = arith.extf %b : bf16 to f32
    %d = arith.subf %w, %c : f32
    %y = arith.truncf %d : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<32x64xbf16>
  return %q : tensor<32x64xbf16>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#vector = affine_map<(c) -> (c)>

// What is returned, too, and what the program rounds itself has the type that was asked for.
// CHECK-LABEL: @returned
// CHECK: arith.truncf
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x64xbf16>, tensor<64xbf16>)
// CHECK-LABEL: @asked_for
// CHECK: arith.truncf {{.*}} {inferno.rounds}
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<32x64xbf16>, tensor<64xbf16>)
module {
  func.func @returned(%x: tensor<32x64xbf16>, %s: tensor<64xf32>) -> (tensor<32x64xbf16>, tensor<64xbf16>) {
    %v = tensor.empty() : tensor<64xbf16>
    %p = tensor.empty() : tensor<32x64xbf16>
    %t = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<32x64xbf16>) outs(%s : tensor<64xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %w = arith.extf %a : bf16 to f32
      %y = arith.addf %w, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %m = linalg.generic {indexing_maps = [#vector, #vector], iterator_types = ["parallel"]} ins(%t : tensor<64xf32>) outs(%v : tensor<64xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %d = arith.mulf %a, %a : f32
      %y = arith.truncf %d : f32 to bf16
      linalg.yield %y : bf16
    } -> tensor<64xbf16>
    %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<32x64xbf16>, tensor<64xbf16>) outs(%p : tensor<32x64xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %w = arith.extf %a : bf16 to f32
      %c = arith.extf %b : bf16 to f32
      %d = arith.subf %w, %c : f32
      %y = arith.truncf %d : f32 to bf16
      linalg.yield %y : bf16
    } -> tensor<32x64xbf16>
    return %q, %m : tensor<32x64xbf16>, tensor<64xbf16>
  }
  func.func @asked_for(%x: tensor<32x64xbf16>, %s: tensor<64xf32>) -> tensor<32x64xbf16> {
    %v = tensor.empty() : tensor<64xbf16>
    %p = tensor.empty() : tensor<32x64xbf16>
    %t = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<32x64xbf16>) outs(%s : tensor<64xf32>) {
    ^bb0(%a: bf16, %o: f32):
      %w = arith.extf %a : bf16 to f32
      %y = arith.addf %w, %o : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    %m = linalg.generic {indexing_maps = [#vector, #vector], iterator_types = ["parallel"]} ins(%t : tensor<64xf32>) outs(%v : tensor<64xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %d = arith.mulf %a, %a : f32
      %y = arith.truncf %d {inferno.rounds} : f32 to bf16
      linalg.yield %y : bf16
    } -> tensor<64xbf16>
    %q = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<32x64xbf16>, tensor<64xbf16>) outs(%p : tensor<32x64xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: bf16):
      %w = arith.extf %a : bf16 to f32
      %c = arith.extf %b : bf16 to f32
      %d = arith.subf %w, %c : f32
      %y = arith.truncf %d : f32 to bf16
      linalg.yield %y : bf16
    } -> tensor<32x64xbf16>
    return %q : tensor<32x64xbf16>
  }
}
