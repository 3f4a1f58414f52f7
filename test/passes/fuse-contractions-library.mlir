// RUN: inferno-opt %s -p 'fold-transposes,fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s
// RUN: sed 's/"library"/"generated"/' %s | inferno-opt - -p 'fold-transposes,fuse-contractions,func.func(canonicalize,cse)' | FileCheck %s --check-prefix=OURS

#id = affine_map<(d0, d1) -> (d0, d1)>

module attributes {inferno.matmul = "library"} {
  /// A library reads its operands from memory: what makes one stays outside.  So does what comes
  /// behind, unless it is sums of scaled tensors, or GELU by tanh in 16 bits.
  // CHECK-LABEL: func.func @scaled
  // CHECK: %[[S:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[S]], %{{.*}} : tensor<4x16xf32>, tensor<16x8xf32>)
  // CHECK-NOT: arith.cmpi
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: arith.maximumf
  // CHECK: return
  // OURS-LABEL: func.func @scaled
  // OURS: linalg.generic {{.*}}"reduction"
  // OURS-NOT: linalg.generic
  // OURS: return
  func.func @scaled(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>) -> tensor<4x8xf32> {
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2.0 : f32
    %e0 = tensor.empty() : tensor<4x16xf32>
    %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x16xf32>) outs(%e0 : tensor<4x16xf32>) {
    ^bb0(%v: f32, %o: f32):
      %y = arith.mulf %v, %two : f32
      linalg.yield %y : f32
    } -> tensor<4x16xf32>
    %e = tensor.empty() : tensor<4x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = linalg.matmul ins(%s, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%v: f32, %o: f32):
      %y = arith.maximumf %v, %zero : f32
      linalg.yield %y : f32
    } -> tensor<4x8xf32>
    return %r : tensor<4x8xf32>
  }

  // CHECK-LABEL: func.func @added
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK: arith.cmpi eq
  // CHECK-NOT: linalg.generic
  // CHECK: return
  func.func @added(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %zero = arith.constant 0.0 : f32
    %two = arith.constant 2.0 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
    %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %r : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%v: f32, %u: f32, %o: f32):
      %s = arith.mulf %u, %two : f32
      %a = arith.addf %v, %s : f32
      linalg.yield %a : f32
    } -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }

  // CHECK-LABEL: func.func @gated
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK-NOT: arith.cmpi
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: return
  func.func @gated(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
    %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %r : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%v: f32, %u: f32, %o: f32):
      %a = arith.mulf %v, %u : f32
      linalg.yield %a : f32
    } -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }

  /// Widening is what the library does itself.
  // CHECK-LABEL: func.func @widened
  // CHECK: linalg.generic {{.*}}ins(%{{.*}}, %{{.*}} : tensor<4x16xbf16>, tensor<16x8xbf16>)
  // CHECK-NOT: linalg.generic
  // CHECK: return
  func.func @widened(%x: tensor<4x16xbf16>, %w: tensor<16x8xbf16>) -> tensor<4x8xf32> {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<4x16xf32>
    %xw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x16xbf16>) outs(%e0 : tensor<4x16xf32>) {
    ^bb0(%v: bf16, %o: f32):
      %y = arith.extf %v : bf16 to f32
      linalg.yield %y : f32
    } -> tensor<4x16xf32>
    %e1 = tensor.empty() : tensor<16x8xf32>
    %ww = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<16x8xbf16>) outs(%e1 : tensor<16x8xf32>) {
    ^bb0(%v: bf16, %o: f32):
      %y = arith.extf %v : bf16 to f32
      linalg.yield %y : f32
    } -> tensor<16x8xf32>
    %e = tensor.empty() : tensor<4x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    %m = linalg.matmul ins(%xw, %ww : tensor<4x16xf32>, tensor<16x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
    return %m : tensor<4x8xf32>
  }
}
