// RUN: inferno-opt %s --pass-pipeline='fold-transposes,fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s

/// Places tell what is left of a triangle: kernels that multiply matrices of float32 read it from memory, and only those that read each element once compute it.
// CHECK-LABEL: func.func @triangle
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: arith.select
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK-NOT: arith.select
// CHECK: return
// CHECK-LABEL: func.func @triangle_times_vector
// CHECK-NOT: iterator_types = ["parallel", "parallel"]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: arith.select
// CHECK: return
#square = affine_map<(d0, d1) -> (d0, d1)>
func.func @triangle(%x: tensor<128x64xf32>, %y: tensor<64x16xf32>) -> tensor<128x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x64xf32>
  %0 = linalg.generic {indexing_maps = [#square, #square], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<128x64xf32>) outs(%e : tensor<128x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %below = arith.cmpi sle, %j, %i : index
    %v = arith.select %below, %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<128x64xf32>
  %made = tensor.empty() : tensor<128x16xf32>
  %start = linalg.fill ins(%zero : f32) outs(%made : tensor<128x16xf32>) -> tensor<128x16xf32>
  %1 = linalg.matmul ins(%0, %y : tensor<128x64xf32>, tensor<64x16xf32>) outs(%start : tensor<128x16xf32>) -> tensor<128x16xf32>
  return %1 : tensor<128x16xf32>
}

func.func @triangle_times_vector(%x: tensor<32x64xf32>, %y: tensor<64xf32>) -> tensor<32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x64xf32>
  %0 = linalg.generic {indexing_maps = [#square, #square], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x64xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %below = arith.cmpi sle, %j, %i : index
    %v = arith.select %below, %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  %made = tensor.empty() : tensor<32xf32>
  %start = linalg.fill ins(%zero : f32) outs(%made : tensor<32xf32>) -> tensor<32xf32>
  %1 = linalg.generic {indexing_maps = [#square, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%0, %y : tensor<32x64xf32>, tensor<64xf32>) outs(%start : tensor<32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  return %1 : tensor<32xf32>
}
