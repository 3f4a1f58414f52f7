// RUN: inferno-opt %s -p 'batches-first{target=sm_90a}' | FileCheck %s
// RUN: sed 's/^module {/module attributes {inferno.matmul = "library"} {/' %s | inferno-opt - -p 'batches-first{target=sm_90a}' | FileCheck %s --check-prefix=OTHER
// RUN: inferno-opt %s -p 'batches-first{target=cpu}' | FileCheck %s --check-prefix=OTHER

// Triangles: 128 products whose factors and result lie side by side, element by element. Each tensor is transposed once, for both products that read it, and the
// results back. The third product has its batch outside.
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-DAG: #[[BACK:.*]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = call @[[TRANSPOSE:[a-z_0-9]*]](%arg0, %{{.*}})
// CHECK: %[[Y:.*]] = call @[[TRANSPOSE]](%arg1, %{{.*}})
// CHECK: %[[Z:.*]] = call @[[PRODUCT:[a-z_0-9]*]](%[[X]], %[[Y]], %{{.*}}) {inferno.source = ["a"]}
// CHECK: call @[[BACK:[a-z_0-9]*]](%[[Z]], %{{.*}})
// CHECK: call @[[PRODUCT]](%[[Y]], %[[X]], %{{.*}}) {inferno.source = ["b"]}
// CHECK: call @[[BACK]](
// CHECK: call @outside(%arg0, %arg1, %{{.*}})
// CHECK: func.func private @outside
// OTHER: call @triangles(%arg0, %arg1,
// OTHER: call @triangles(%arg1, %arg0,
// OTHER-NOT: call @transpose
#x = affine_map<(i, j, c, k) -> (i, k, c)>
#y = affine_map<(i, j, c, k) -> (j, k, c)>
#z = affine_map<(i, j, c, k) -> (i, j, c)>
#l = affine_map<(b, i, j, k) -> (b, i, k)>
#r = affine_map<(b, i, j, k) -> (b, k, j)>
#o = affine_map<(b, i, j, k) -> (b, i, j)>
module {
  func.func @main(%x: tensor<128x128x128xbf16>, %y: tensor<128x128x128xbf16>)
      -> (tensor<128x128x128xf32>, tensor<128x128x128xf32>, tensor<128x128x128xf32>) {
    %e = tensor.empty() : tensor<128x128x128xf32>
    %0 = call @triangles(%x, %y, %e) {inferno.source = ["a"]} : (tensor<128x128x128xbf16>, tensor<128x128x128xbf16>, tensor<128x128x128xf32>) -> tensor<128x128x128xf32>
    %1 = call @triangles(%y, %x, %e) {inferno.source = ["b"]} : (tensor<128x128x128xbf16>, tensor<128x128x128xbf16>, tensor<128x128x128xf32>) -> tensor<128x128x128xf32>
    %2 = call @outside(%x, %y, %e) : (tensor<128x128x128xbf16>, tensor<128x128x128xbf16>, tensor<128x128x128xf32>) -> tensor<128x128x128xf32>
    return %0, %1, %2 : tensor<128x128x128xf32>, tensor<128x128x128xf32>, tensor<128x128x128xf32>
  }
  func.func private @triangles(%x: tensor<128x128x128xbf16>, %y: tensor<128x128x128xbf16>, %o: tensor<128x128x128xf32>) -> tensor<128x128x128xf32> {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<128x128x128xf32>) -> tensor<128x128x128xf32>
    %0 = linalg.generic {indexing_maps = [#x, #y, #z], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<128x128x128xbf16>, tensor<128x128x128xbf16>) outs(%s : tensor<128x128x128xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %m = arith.mulf %d, %e : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<128x128x128xf32>
    return %0 : tensor<128x128x128xf32>
  }
  func.func private @outside(%x: tensor<128x128x128xbf16>, %y: tensor<128x128x128xbf16>, %o: tensor<128x128x128xf32>) -> tensor<128x128x128xf32> {
    %zero = arith.constant 0.0 : f32
    %s = linalg.fill ins(%zero : f32) outs(%o : tensor<128x128x128xf32>) -> tensor<128x128x128xf32>
    %0 = linalg.generic {indexing_maps = [#l, #r, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<128x128x128xbf16>, tensor<128x128x128xbf16>) outs(%s : tensor<128x128x128xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %d = arith.extf %a : bf16 to f32
      %e = arith.extf %b : bf16 to f32
      %m = arith.mulf %d, %e : f32
      %t = arith.addf %c, %m : f32
      linalg.yield %t : f32
    } -> tensor<128x128x128xf32>
    return %0 : tensor<128x128x128xf32>
  }
}
