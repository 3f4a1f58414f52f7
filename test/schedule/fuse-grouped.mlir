// RUN: inferno-opt %s -p 'fuse-grouped{target=sm_90a always=1},assign-schedules{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-grouped{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: inferno-opt %s -p 'fuse-grouped{target=cpu always=1}' --split-input-file | FileCheck %s --check-prefix=NONE

#x = affine_map<(g, m, n, k) -> (m, k)>
#w = affine_map<(g, m, n, k) -> (g, n, k)>
#y = affine_map<(g, m, n, k) -> (g, m, n)>
#row = affine_map<(m, n) -> (m)>
#all = affine_map<(m, n) -> (m, n)>

// Each row's results are picked of the products with all matrices: one kernel for both.  What the operation looks up for a row is one in front of it.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = call @look_up(%arg3, %arg4, %{{.*}}) {{.*}} -> tensor<128xf32>
// CHECK: call @every_pick({{.*}}%[[S]], %{{[0-9]+}}) {{.*}} -> tensor<128x64xbf16>
// CHECK-NOT: call @
// CHECK: func.func private @every_pick{{.*}}generator = "grouped"
// NONE-LABEL: func.func @main
// NONE-COUNT-2: call @
module {
  func.func @main(%x: tensor<128x64xbf16>, %w: tensor<4x64x64xbf16>, %number: tensor<128xi64>, %place: tensor<128xi64>, %scales: tensor<128xf32>)
      -> tensor<128x64xbf16> {
    %e0 = tensor.empty() : tensor<4x128x64xf32>
    %0 = call @every(%x, %w, %e0) {inferno.source = ["a"]} : (tensor<128x64xbf16>, tensor<4x64x64xbf16>, tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
    %e1 = tensor.empty() : tensor<128x64xbf16>
    %1 = call @pick(%0, %number, %place, %scales, %e1) {inferno.source = ["b"]}
      : (tensor<4x128x64xf32>, tensor<128xi64>, tensor<128xi64>, tensor<128xf32>, tensor<128x64xbf16>) -> tensor<128x64xbf16>
    return %1 : tensor<128x64xbf16>
  }
  func.func private @every(%x: tensor<128x64xbf16>, %w: tensor<4x64x64xbf16>, %out: tensor<4x128x64xf32>) -> tensor<4x128x64xf32> {
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<128x64xbf16>, tensor<4x64x64xbf16>) outs(%start : tensor<4x128x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %old: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %p = arith.mulf %l, %r : f32
      %s = arith.addf %old, %p : f32
      linalg.yield %s : f32
    } -> tensor<4x128x64xf32>
    return %0 : tensor<4x128x64xf32>
  }
  func.func private @pick(%every: tensor<4x128x64xf32>, %number: tensor<128xi64>, %place: tensor<128xi64>, %scales: tensor<128xf32>, %out: tensor<128x64xbf16>)
      -> tensor<128x64xbf16> {
    %0 = linalg.generic {indexing_maps = [#row, #row, #all], iterator_types = ["parallel", "parallel"]}
        ins(%number, %place : tensor<128xi64>, tensor<128xi64>) outs(%out : tensor<128x64xbf16>) {
    ^bb0(%n: i64, %p: i64, %old: bf16):
      %g = arith.index_cast %n : i64 to index
      %at = arith.index_cast %p : i64 to index
      %row = linalg.index 0 : index
      %column = linalg.index 1 : index
      %v = tensor.extract %every[%g, %row, %column] : tensor<4x128x64xf32>
      %s = tensor.extract %scales[%at] : tensor<128xf32>
      %t = arith.mulf %v, %s : f32
      %r = arith.truncf %t : f32 to bf16
      linalg.yield %r : bf16
    } -> tensor<128x64xbf16>
    return %0 : tensor<128x64xbf16>
  }
}

// -----

#x = affine_map<(g, m, n, k) -> (m, k)>
#w = affine_map<(g, m, n, k) -> (g, n, k)>
#y = affine_map<(g, m, n, k) -> (g, m, n)>
#row = affine_map<(m, n) -> (m)>
#all = affine_map<(m, n) -> (m, n)>

// Another row's results are picked: two kernels.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
// NONE-LABEL: func.func @main
// NONE-COUNT-2: call @
module {
  func.func @main(%x: tensor<128x64xbf16>, %w: tensor<4x64x64xbf16>, %number: tensor<128xi64>) -> tensor<128x64xf32> {
    %e0 = tensor.empty() : tensor<4x128x64xf32>
    %0 = call @every(%x, %w, %e0) {inferno.source = ["a"]} : (tensor<128x64xbf16>, tensor<4x64x64xbf16>, tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
    %e1 = tensor.empty() : tensor<128x64xf32>
    %1 = call @pick(%0, %number, %e1) {inferno.source = ["b"]} : (tensor<4x128x64xf32>, tensor<128xi64>, tensor<128x64xf32>) -> tensor<128x64xf32>
    return %1 : tensor<128x64xf32>
  }
  func.func private @every(%x: tensor<128x64xbf16>, %w: tensor<4x64x64xbf16>, %out: tensor<4x128x64xf32>) -> tensor<4x128x64xf32> {
    %zero = arith.constant 0.0 : f32
    %start = linalg.fill ins(%zero : f32) outs(%out : tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%x, %w : tensor<128x64xbf16>, tensor<4x64x64xbf16>) outs(%start : tensor<4x128x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %old: f32):
      %l = arith.extf %a : bf16 to f32
      %r = arith.extf %b : bf16 to f32
      %p = arith.mulf %l, %r : f32
      %s = arith.addf %old, %p : f32
      linalg.yield %s : f32
    } -> tensor<4x128x64xf32>
    return %0 : tensor<4x128x64xf32>
  }
  func.func private @pick(%every: tensor<4x128x64xf32>, %number: tensor<128xi64>, %out: tensor<128x64xf32>) -> tensor<128x64xf32> {
    %0 = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]}
        ins(%number : tensor<128xi64>) outs(%out : tensor<128x64xf32>) {
    ^bb0(%n: i64, %old: f32):
      %g = arith.index_cast %n : i64 to index
      %column = linalg.index 1 : index
      %two = arith.constant 2 : index
      %v = tensor.extract %every[%two, %g, %column] : tensor<4x128x64xf32>
      linalg.yield %v : f32
    } -> tensor<128x64xf32>
    return %0 : tensor<128x64xf32>
  }
}
