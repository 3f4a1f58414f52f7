// RUN: inferno-opt %s -p 'fuse-row-epilogues{target=sm_90a always=1}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-row-epilogues{target=sm_90a always=1},assign-schedules{target=sm_90a}' --split-input-file | FileCheck %s --check-prefix=SCHEDULE
// RUN: inferno-opt %s -p 'fuse-row-epilogues{target=sm_80 always=1}' --split-input-file | FileCheck %s --check-prefix=APART
// RUN: inferno-opt %s -p 'fuse-row-epilogues{target=cpu always=1}' --split-input-file | FileCheck %s --check-prefix=APART

#lhs = affine_map<(d0, d1, d2) -> (d0, d2)>
#rhs = affine_map<(d0, d1, d2) -> (d1, d2)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A contraction, the maximum of each row and what subtracts it are one kernel, for tensor cores with tiles of all columns.  The maximum is
// read by the program too: it is a second result.  What reads it before the last of them is called comes behind.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @matmul_largest_below(%arg0, %arg1, {{.*}}) {inferno.source = ["a", "b", "c"]}
// CHECK-NEXT: %[[V:.*]] = tensor.expand_shape %[[R]]#0
// CHECK-NEXT: return %[[V]], %[[R]]#1
// CHECK: func.func private @matmul_largest_below(%[[X:.*]]: tensor<1024x256xbf16>, %[[W:.*]]: tensor<64x256xbf16>, %[[O0:.*]]: tensor<1024xf32>, %[[O1:.*]]: tensor<1024x64xbf16>)
// CHECK: %[[H:.*]]:2 = linalg.generic
// CHECK: linalg.fill {{.*}} outs(%[[O0]]
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[H]]#1
// CHECK: linalg.generic {{.*}} ins(%[[H]]#1, %[[M]] {{.*}} outs(%[[O1]]
// SCHEDULE-LABEL: func.func @main
// SCHEDULE: generator = "wgmma_rows"
// SCHEDULE-SAME: tile_n = 64
// APART-LABEL: func.func @main
// APART-COUNT-3: call @
func.func @main(%x: tensor<1024x256xbf16>, %w: tensor<64x256xbf16>) -> (tensor<1x1024xf32>, tensor<1024x64xbf16>) {
  %e0 = tensor.empty() : tensor<1024x64xbf16>
  %0 = call @matmul(%x, %w, %e0) {inferno.source = ["a"]} : (tensor<1024x256xbf16>, tensor<64x256xbf16>, tensor<1024x64xbf16>) -> tensor<1024x64xbf16>
  %e1 = tensor.empty() : tensor<1024xf32>
  %1 = call @largest(%0, %e1) {inferno.source = ["b"]} : (tensor<1024x64xbf16>, tensor<1024xf32>) -> tensor<1024xf32>
  %v = tensor.expand_shape %1 [[0, 1]] output_shape [1, 1024] : tensor<1024xf32> into tensor<1x1024xf32>
  %e2 = tensor.empty() : tensor<1024x64xbf16>
  %2 = call @below(%0, %1, %e2) {inferno.source = ["c"]} : (tensor<1024x64xbf16>, tensor<1024xf32>, tensor<1024x64xbf16>) -> tensor<1024x64xbf16>
  return %v, %2 : tensor<1x1024xf32>, tensor<1024x64xbf16>
}
func.func private @matmul(%x: tensor<1024x256xbf16>, %w: tensor<64x256xbf16>, %out: tensor<1024x64xbf16>) -> tensor<1024x64xbf16> {
  %zero = arith.constant 0.0 : f32
  %last = arith.constant 255 : index
  %e = tensor.empty() : tensor<1024x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<1024x64xf32>) -> tensor<1024x64xf32>
  %0:2 = linalg.generic {indexing_maps = [#lhs, #rhs, #out, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1024x256xbf16>, tensor<64x256xbf16>) outs(%start, %out : tensor<1024x64xf32>, tensor<1024x64xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32, %old: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    %5 = linalg.index 2 : index
    %6 = arith.cmpi eq, %5, %last : index
    %7 = arith.truncf %4 : f32 to bf16
    %8 = arith.select %6, %7, %old : bf16
    linalg.yield %4, %8 : f32, bf16
  } -> (tensor<1024x64xf32>, tensor<1024x64xbf16>)
  return %0#1 : tensor<1024x64xbf16>
}
func.func private @largest(%x: tensor<1024x64xbf16>, %out: tensor<1024xf32>) -> tensor<1024xf32> {
  %least = arith.constant 0xFF800000 : f32
  %start = linalg.fill ins(%least : f32) outs(%out : tensor<1024xf32>) -> tensor<1024xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x64xbf16>) outs(%start : tensor<1024xf32>) {
  ^bb0(%a: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.maximumf %1, %s : f32
    linalg.yield %2 : f32
  } -> tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
func.func private @below(%x: tensor<1024x64xbf16>, %m: tensor<1024xf32>, %out: tensor<1024x64xbf16>) -> tensor<1024x64xbf16> {
  %0 = linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<1024x64xbf16>, tensor<1024xf32>) outs(%out : tensor<1024x64xbf16>) {
  ^bb0(%a: bf16, %b: f32, %o: bf16):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.subf %1, %b : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<1024x64xbf16>
  return %0 : tensor<1024x64xbf16>
}

// -----

#lhs = affine_map<(d0, d1, d2) -> (d0, d2)>
#rhs = affine_map<(d0, d1, d2) -> (d1, d2)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>
#columns = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d0)>

// The sums of columns need all blocks.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
// SCHEDULE-LABEL: func.func @main
// SCHEDULE-NOT: wgmma_rows
// APART-LABEL: func.func @main
// APART-COUNT-2: call @
func.func @main(%x: tensor<64x256xbf16>, %w: tensor<64x256xbf16>) -> tensor<64xf32> {
  %e0 = tensor.empty() : tensor<64x64xf32>
  %0 = call @matmul(%x, %w, %e0) : (tensor<64x256xbf16>, tensor<64x256xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e1 = tensor.empty() : tensor<64xf32>
  %1 = call @sum(%0, %e1) : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}
func.func private @matmul(%x: tensor<64x256xbf16>, %w: tensor<64x256xbf16>, %out: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<64x256xbf16>, tensor<64x256xbf16>) outs(%start : tensor<64x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
func.func private @sum(%x: tensor<64x64xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %start = linalg.fill ins(%zero : f32) outs(%out : tensor<64xf32>) -> tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#columns, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x64xf32>) outs(%start : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %1 = arith.addf %a, %s : f32
    linalg.yield %1 : f32
  } -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
