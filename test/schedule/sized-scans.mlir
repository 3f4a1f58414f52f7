// RUN: inferno-opt -p 'fuse-scans{target=sm_90a},assign-schedules{target=sm_90a}' %s --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>

// Running sums along rows whose length varies, of what is doubled: one kernel function, in which blocks walk rows of a few tiles, and look back in longer ones,
// for there are few. No vector divides all lengths.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:double_scan]](%arg1, %arg0, %{{.*}}) {inferno.source = ["mul", "cumsum"]}
// CHECK-NOT: call
// CHECK: func.func private @[[K]](
// CHECK-SAME: generator = "by_size", large = {generator = "scans", group = {{[1-9].*}}vector = 1 : i64}, limit = {{[0-9]+}} : i64
// CHECK-SAME: small = {generator = "scans", group = 0 : i64{{.*}}vector = 1 : i64}
// CHECK: linalg.generic
// CHECK: tm_tensor.scan dimension(1)
func.func @main(%x: tensor<64x?xf32> {inferno.kind = "input", inferno.name = "x", inferno.sizes = affine_map<()[s0] -> (64, s0)>},
    %n: index {inferno.hint = 10000 : i64, inferno.range = [0, 1000000], inferno.symbol = "s0"}) -> tensor<64x?xf32> {
  %e = tensor.empty(%n) : tensor<64x?xf32>
  %a = call @double(%n, %x, %e) {inferno.source = ["mul"]} : (index, tensor<64x?xf32>, tensor<64x?xf32>) -> tensor<64x?xf32>
  %f = tensor.empty(%n) : tensor<64x?xf32>
  %s = call @scan(%n, %a, %f) {inferno.source = ["cumsum"]} : (index, tensor<64x?xf32>, tensor<64x?xf32>) -> tensor<64x?xf32>
  return %s : tensor<64x?xf32>
}
func.func private @double(%n: index {inferno.hint = 10000 : i64, inferno.range = [0, 1000000], inferno.symbol = "n0"},
    %x: tensor<64x?xf32> {inferno.sizes = affine_map<()[s0] -> (64, s0)>}, %o: tensor<64x?xf32> {inferno.sizes = affine_map<()[s0] -> (64, s0)>}) -> tensor<64x?xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x?xf32>) outs(%o : tensor<64x?xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<64x?xf32>
  return %r : tensor<64x?xf32>
}
func.func private @scan(%n: index {inferno.hint = 10000 : i64, inferno.range = [0, 1000000], inferno.symbol = "n0"},
    %x: tensor<64x?xf32> {inferno.sizes = affine_map<()[s0] -> (64, s0)>}, %o: tensor<64x?xf32> {inferno.sizes = affine_map<()[s0] -> (64, s0)>}) -> tensor<64x?xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x?xf32>) outs(%o, %e : tensor<64x?xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x?xf32>, tensor<64xf32>
  return %r#0 : tensor<64x?xf32>
}

// -----

// Across memory columns are neighbours whose number is known, and vectors divide it: blocks walk, for there are enough of them.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @scan(
// CHECK-SAME: inferno.schedule = {generator = "scans", group = 0 : i64, items = {{[0-9]+}} : i64, lanes = {{[0-9]+}} : i64{{.*}}vector = 4 : i64}
func.func @main(%x: tensor<16x?x256xf32> {inferno.kind = "input", inferno.name = "x", inferno.sizes = affine_map<()[s0] -> (16, s0, 256)>},
    %n: index {inferno.hint = 1000 : i64, inferno.range = [0, 1000000], inferno.symbol = "s0"}) -> tensor<16x?x256xf32> {
  %e = tensor.empty(%n) : tensor<16x?x256xf32>
  %s = call @scan(%n, %x, %e) {inferno.source = ["cumsum"]} : (index, tensor<16x?x256xf32>, tensor<16x?x256xf32>) -> tensor<16x?x256xf32>
  return %s : tensor<16x?x256xf32>
}
func.func private @scan(%n: index {inferno.hint = 1000 : i64, inferno.range = [0, 1000000], inferno.symbol = "n0"},
    %x: tensor<16x?x256xf32> {inferno.sizes = affine_map<()[s0] -> (16, s0, 256)>}, %o: tensor<16x?x256xf32> {inferno.sizes = affine_map<()[s0] -> (16, s0, 256)>}) -> tensor<16x?x256xf32> {
  %e = tensor.empty() : tensor<16x256xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<16x?x256xf32>) outs(%o, %e : tensor<16x?x256xf32>, tensor<16x256xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<16x?x256xf32>, tensor<16x256xf32>
  return %r#0 : tensor<16x?x256xf32>
}
