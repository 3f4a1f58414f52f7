// RUN: inferno-opt %s -p hoist-frozen --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p hoist-frozen,hoist-frozen --split-input-file | FileCheck %s

// The cast of a weight halves what is read: it is done by @prepare, which takes argument 1 of @main, and is argument 2 from now on.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xbf16>, %{{[a-z0-9]+}}: tensor<8xf32> {inferno.frozen, inferno.name = "w"}
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<8xbf16> {inferno.kind = "prepared", inferno.name = "prepared 0", inferno.prepared = 0 : i64}
// CHECK-SAME: attributes {inferno.freeze = 1008 : i64}
// CHECK-NOT: arith.truncf
// CHECK: ins(%[[X]], %[[P]] : tensor<4x8xbf16>, tensor<8xbf16>)
// CHECK: func.func @prepare(%[[A:.*]]: tensor<8xf32> {inferno.argument = 1 : i64, inferno.name = "w"}) -> tensor<8xbf16>
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<8xf32>)
// CHECK: arith.truncf
// CHECK: return %[[C]]
#id = affine_map<(d0) -> (d0)>
#both = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<8xf32> {inferno.frozen, inferno.name = "w"}) -> tensor<4x8xbf16> attributes {inferno.freeze = 1024 : i64} {
  %e = tensor.empty() : tensor<8xbf16>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<8xf32>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %1 = arith.truncf %a : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<8xbf16>
  %e2 = tensor.empty() : tensor<4x8xbf16>
  %2 = linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<4x8xbf16>, tensor<8xbf16>) outs(%e2 : tensor<4x8xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %o: bf16):
    %3 = arith.mulf %a, %b : bf16
    linalg.yield %3 : bf16
  } -> tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// -----

// Dequantising makes four bytes of one: reading that costs more than the cast. But its row sums, which cost time, are hoisted with it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<4xf32> {inferno.kind = "prepared"
// CHECK: arith.sitofp
// CHECK-NOT: "reduction"
// CHECK: return %{{.*}}, %[[S]]
// CHECK: func.func @prepare
// CHECK: "reduction"
// CHECK: return %{{.*}} : tensor<4xf32>
#both = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<4x8xi8> {inferno.frozen}) -> (tensor<4x8xf32>, tensor<4xf32>) attributes {inferno.freeze = 1024 : i64} {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#both, #both], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x8xi8>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: i8, %o: f32):
    %1 = arith.sitofp %a : i8 to f32
    linalg.yield %1 : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %3 = arith.mulf %a, %b : f32
    linalg.yield %3 : f32
  } -> tensor<4x8xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %4 = arith.addf %o, %a : f32
    linalg.yield %4 : f32
  } -> tensor<4xf32>
  return %2, %s : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// Nothing is frozen without a limit, and no more than the limit holds: of two roots, one.
// CHECK-LABEL: func.func @main
// CHECK-SAME: inferno.freeze = 0 : i64
// CHECK-COUNT-1: math.sqrt
// CHECK: func.func @prepare({{.*}}) -> tensor<4xf32>
// CHECK-COUNT-1: math.sqrt
// CHECK-NOT: math.sqrt
#id = affine_map<(d0) -> (d0)>
func.func @main(%v: tensor<4xf32> {inferno.frozen}, %w: tensor<4xf32> {inferno.frozen}) -> (tensor<4xf32>, tensor<4xf32>) attributes {inferno.freeze = 16 : i64} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%v : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = math.sqrt %a : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %3 = math.sqrt %a : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A constant that the compiler made is as good as a weight, but alone it freezes nothing.
// CHECK-LABEL: func.func @main
// CHECK-NOT: inferno.prepared
// CHECK: math.sqrt
// CHECK-NOT: @prepare
#id = affine_map<(d0) -> (d0)>
func.func @main(%c: tensor<2xf32> {inferno.constant = dense<[1.0, 2.0]> : tensor<2xf32>}) -> tensor<2xf32> attributes {inferno.freeze = 1024 : i64} {
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%c : tensor<2xf32>) outs(%e : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = math.sqrt %a : f32
    linalg.yield %1 : f32
  } -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A reshape is free, and so is a fill; a slice is not. What depends on a size that varies stays.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<3xf32> {inferno.kind = "prepared"
// CHECK: tensor.expand_shape %{{.*}} : tensor<8xf32> into
// CHECK-NOT: tensor.extract_slice
// CHECK: return %{{.*}}, %[[S]]
// CHECK: func.func @prepare
// CHECK: tensor.extract_slice
func.func @main(%n: index {inferno.symbol = "s0", inferno.range = [1, 9], inferno.divisor = 1, inferno.hint = 4}, %w: tensor<8xf32> {inferno.frozen})
    -> (tensor<2x4xf32>, tensor<3xf32>) attributes {inferno.freeze = 1024 : i64} {
  %0 = tensor.expand_shape %w [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %1 = tensor.extract_slice %w[2] [3] [1] : tensor<8xf32> to tensor<3xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<3xf32>
}

// -----

// On a GPU, where nothing is frozen, what is put together of constants is kept: a mask that is written part by part.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8xf32>, %[[P:[a-z0-9]+]]: tensor<8xf32> {inferno.kind = "prepared"
// CHECK-NOT: tensor.insert_slice
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[P]] : tensor<8xf32>, tensor<8xf32>)
// CHECK: func.func @prepare() -> tensor<8xf32>
// CHECK: tensor.insert_slice
#id = affine_map<(d0) -> (d0)>
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %e4 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%two : f32) outs(%e4 : tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.insert_slice %1 into %0[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %2 : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %4 = arith.addf %a, %b : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
}

// -----

// What is computed of places alone is cheaper where it is read.
// CHECK-LABEL: func.func @main(%{{[a-z0-9]+}}: tensor<8xf32>) -> tensor<8xf32>
// CHECK: linalg.index
// CHECK-NOT: @prepare
#id = affine_map<(d0) -> (d0)>
module attributes {inferno.expand_pieces} {
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    linalg.yield %f : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %0 : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %4 = arith.addf %a, %b : f32
    linalg.yield %4 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
}
