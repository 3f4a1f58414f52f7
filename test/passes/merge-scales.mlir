// RUN: inferno-opt %s -p 'merge-scales,func.func(canonicalize,cse)' | FileCheck %s

#i = affine_map<(n, y, x, f) -> (n, y, x, f)>
#v = affine_map<(n, y, x, f) -> (f)>
#u = affine_map<(n, y, x, f) -> (x)>
module attributes {inferno.convolutions} {
  // CHECK-LABEL: @scales
  // CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%arg1, %arg2 : tensor<16xf32>, tensor<16xf32>)
  // CHECK: arith.mulf
  // CHECK: linalg.generic {{.*}} ins(%arg0, %[[S]] : tensor<2x4x4x16xf32>, tensor<16xf32>)
  // CHECK: arith.mulf
  // CHECK-NOT: arith.mulf
  // CHECK: return
  func.func @scales(%x: tensor<2x4x4x16xf32>, %a: tensor<16xf32>, %b: tensor<16xf32>) -> tensor<2x4x4x16xf32> {
    %e = tensor.empty() : tensor<2x4x4x16xf32>
    %0 = linalg.generic {indexing_maps = [#i, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %a : tensor<2x4x4x16xf32>, tensor<16xf32>) outs(%e : tensor<2x4x4x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %m = arith.mulf %p, %q : f32
      linalg.yield %m : f32
    } -> tensor<2x4x4x16xf32>
    %1 = linalg.generic {indexing_maps = [#v, #i, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%b, %0 : tensor<16xf32>, tensor<2x4x4x16xf32>) outs(%e : tensor<2x4x4x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %m = arith.mulf %p, %q : f32
      linalg.yield %m : f32
    } -> tensor<2x4x4x16xf32>
    return %1 : tensor<2x4x4x16xf32>
  }

  // The second scale is in 16 bits, and is widened where the scales are multiplied.
  // CHECK-LABEL: @narrow
  // CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%arg1, %arg2 : tensor<16xf32>, tensor<16xbf16>)
  // CHECK: arith.extf
  // CHECK: arith.mulf
  // CHECK: linalg.generic {{.*}} ins(%arg0, %[[S]] : tensor<2x4x4x16xf32>, tensor<16xf32>)
  // CHECK: arith.mulf
  // CHECK-NOT: arith.mulf
  // CHECK: return
  func.func @narrow(%x: tensor<2x4x4x16xf32>, %a: tensor<16xf32>, %b: tensor<16xbf16>) -> tensor<2x4x4x16xf32> {
    %e = tensor.empty() : tensor<2x4x4x16xf32>
    %0 = linalg.generic {indexing_maps = [#i, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %a : tensor<2x4x4x16xf32>, tensor<16xf32>) outs(%e : tensor<2x4x4x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %m = arith.mulf %p, %q : f32
      linalg.yield %m : f32
    } -> tensor<2x4x4x16xf32>
    %1 = linalg.generic {indexing_maps = [#i, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0, %b : tensor<2x4x4x16xf32>, tensor<16xbf16>) outs(%e : tensor<2x4x4x16xf32>) {
    ^bb0(%p: f32, %q: bf16, %o: f32):
      %w = arith.extf %q : bf16 to f32
      %m = arith.mulf %p, %w : f32
      linalg.yield %m : f32
    } -> tensor<2x4x4x16xf32>
    return %1 : tensor<2x4x4x16xf32>
  }

  // The first product has another reader; and a scale along another dimension.
  // CHECK-LABEL: @others
  // CHECK-COUNT-3: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
  // CHECK-NOT: linalg.generic
  func.func @others(%x: tensor<2x4x16x16xf32>, %a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) {
    %e = tensor.empty() : tensor<2x4x16x16xf32>
    %0 = linalg.generic {indexing_maps = [#i, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %a : tensor<2x4x16x16xf32>, tensor<16xf32>) outs(%e : tensor<2x4x16x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %m = arith.mulf %p, %q : f32
      linalg.yield %m : f32
    } -> tensor<2x4x16x16xf32>
    %1 = linalg.generic {indexing_maps = [#i, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0, %b : tensor<2x4x16x16xf32>, tensor<16xf32>) outs(%e : tensor<2x4x16x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %m = arith.mulf %p, %q : f32
      linalg.yield %m : f32
    } -> tensor<2x4x16x16xf32>
    %2 = linalg.generic {indexing_maps = [#i, #u, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%1, %b : tensor<2x4x16x16xf32>, tensor<16xf32>) outs(%e : tensor<2x4x16x16xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %m = arith.mulf %p, %q : f32
      linalg.yield %m : f32
    } -> tensor<2x4x16x16xf32>
    return %0, %2 : tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>
  }
}
