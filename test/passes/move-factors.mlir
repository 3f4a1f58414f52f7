// RUN: inferno-opt %s -p 'move-factors,func.func(canonicalize,cse)' | FileCheck %s

#p = affine_map<(m, k) -> (m, k)>
#l = affine_map<(m, n, k) -> (m, k)>
#r = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
module {
  // CHECK-LABEL: @behind
  // CHECK: %[[C:.*]] = arith.constant 2.000000e+00 : f32
  // CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<8x64xbf16>, tensor<16x64xbf16>)
  // CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<8x16xf32>)
  // CHECK: arith.mulf %{{.*}}, %[[C]] : f32
  // CHECK: return %[[P]]
  func.func @behind(%x: tensor<8x64xbf16>, %y: tensor<16x64xbf16>) -> tensor<8x16xf32> {
    %c = arith.constant 2.0 : bf16
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x64xbf16>
    %0 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x64xbf16>) outs(%e : tensor<8x64xbf16>) {
    ^bb0(%a: bf16, %b: bf16):
      %m = arith.mulf %a, %c : bf16
      linalg.yield %m : bf16
    } -> tensor<8x64xbf16>
    %f = tensor.empty() : tensor<8x16xf32>
    %1 = linalg.fill ins(%z : f32) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = linalg.generic {indexing_maps = [#l, #r, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0, %y : tensor<8x64xbf16>, tensor<16x64xbf16>) outs(%1 : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %b: bf16, %s: f32):
      %g = arith.extf %a : bf16 to f32
      %h = arith.extf %b : bf16 to f32
      %m = arith.mulf %g, %h : f32
      %t = arith.addf %s, %m : f32
      linalg.yield %t : f32
    } -> tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }

  // What rounds stays in front.
  // CHECK-LABEL: @rounds
  // CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<8x64xbf16>)
  // CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK-NOT: linalg.generic
  // CHECK: return
  func.func @rounds(%x: tensor<8x64xbf16>, %y: tensor<16x64xbf16>) -> tensor<8x16xf32> {
    %c = arith.constant 3.0 : bf16
    %z = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<8x64xbf16>
    %0 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x64xbf16>) outs(%e : tensor<8x64xbf16>) {
    ^bb0(%a: bf16, %b: bf16):
      %m = arith.mulf %a, %c : bf16
      linalg.yield %m : bf16
    } -> tensor<8x64xbf16>
    %f = tensor.empty() : tensor<8x16xf32>
    %1 = linalg.fill ins(%z : f32) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = linalg.generic {indexing_maps = [#l, #r, #o], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0, %y : tensor<8x64xbf16>, tensor<16x64xbf16>) outs(%1 : tensor<8x16xf32>) {
    ^bb0(%a: bf16, %b: bf16, %s: f32):
      %g = arith.extf %a : bf16 to f32
      %h = arith.extf %b : bf16 to f32
      %m = arith.mulf %g, %h : f32
      %t = arith.addf %s, %m : f32
      linalg.yield %t : f32
    } -> tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }
}
