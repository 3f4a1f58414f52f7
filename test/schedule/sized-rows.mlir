// RUN: inferno-opt -p 'fuse-reductions{target=sm_90a always=1},assign-schedules{target=sm_90a}' %s --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// What is more than the mean of rows whose length varies, which is divided by a size: one kernel function of kernels for rows up to 128 points, up to four
// times as many, and of any length.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](%arg1, %arg0, %{{.*}}) {inferno.source = ["mean", "sub"]}
// CHECK-NOT: call
// CHECK: func.func private @[[K]](
// CHECK-SAME: generator = "by_size", large = {generator = "by_size"
// CHECK-SAME: held = false{{.*}}ragged = true{{.*}}limit = 512 : i64{{.*}}held = true{{.*}}longest = 512{{.*}}limit = 128 : i64{{.*}}held = true{{.*}}longest = 128
// CHECK: arith.divf
func.func @main(%x: tensor<640x?xf32> {inferno.kind = "input", inferno.name = "x", inferno.sizes = affine_map<()[s0] -> (640, s0)>},
    %n: index {inferno.hint = 100 : i64, inferno.range = [1, 4096], inferno.symbol = "s0"}) -> tensor<640x?xf32> {
  %e = tensor.empty() : tensor<640xf32>
  %m = call @mean(%n, %x, %e) {inferno.source = ["mean"]} : (index, tensor<640x?xf32>, tensor<640xf32>) -> tensor<640xf32>
  %f = tensor.empty(%n) : tensor<640x?xf32>
  %r = call @sub(%n, %x, %m, %f) {inferno.source = ["sub"]} : (index, tensor<640x?xf32>, tensor<640xf32>, tensor<640x?xf32>) -> tensor<640x?xf32>
  return %r : tensor<640x?xf32>
}
func.func private @mean(%n: index {inferno.hint = 100 : i64, inferno.range = [1, 4096], inferno.symbol = "n0"},
    %x: tensor<640x?xf32> {inferno.sizes = affine_map<()[s0] -> (640, s0)>}, %o: tensor<640xf32>) -> tensor<640xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<640xf32>) -> tensor<640xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<640x?xf32>) outs(%f : tensor<640xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<640xf32>
  return %r : tensor<640xf32>
}
func.func private @sub(%n: index {inferno.hint = 100 : i64, inferno.range = [1, 4096], inferno.symbol = "n0"},
    %x: tensor<640x?xf32> {inferno.sizes = affine_map<()[s0] -> (640, s0)>}, %m: tensor<640xf32>,
    %o: tensor<640x?xf32> {inferno.sizes = affine_map<()[s0] -> (640, s0)>}) -> tensor<640x?xf32> {
  %count = arith.index_cast %n : index to i64
  %r = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<640x?xf32>, tensor<640xf32>) outs(%o : tensor<640x?xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %c = arith.sitofp %count : i64 to f32
    %d = arith.divf %b, %c : f32
    %y = arith.subf %a, %d : f32
    linalg.yield %y : f32
  } -> tensor<640x?xf32>
  return %r : tensor<640x?xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(c, r) -> (r, c)>
#each = affine_map<(c, r) -> (c)>
#sums = affine_map<(r, c) -> (c)>

// Rows that are columns of memory, whose length varies: likewise, side by side.
// CHECK-LABEL: func.func @main
// CHECK: call @[[K:rows[a-z_0-9]*]](%arg1, %arg0, %{{.*}}) {inferno.source = ["sum", "sub"]}
// CHECK-NOT: call
// CHECK: func.func private @[[K]](
// CHECK-SAME: generator = "by_size", large = {generator = "by_size"
// CHECK-SAME: generator = "columns", held = false{{.*}}longest = 0{{.*}}limit = 2048 : i64{{.*}}held = true{{.*}}longest = 2048{{.*}}limit = 512 : i64{{.*}}held = true{{.*}}longest = 512
func.func @main(%x: tensor<?x640xf32> {inferno.kind = "input", inferno.name = "x", inferno.sizes = affine_map<()[s0] -> (s0, 640)>},
    %n: index {inferno.hint = 2000 : i64, inferno.range = [1, 40960], inferno.symbol = "s0"}) -> tensor<?x640xf32> {
  %e = tensor.empty() : tensor<640xf32>
  %m = call @sum(%n, %x, %e) {inferno.source = ["sum"]} : (index, tensor<?x640xf32>, tensor<640xf32>) -> tensor<640xf32>
  %f = tensor.empty(%n) : tensor<?x640xf32>
  %r = call @sub(%n, %x, %m, %f) {inferno.source = ["sub"]} : (index, tensor<?x640xf32>, tensor<640xf32>, tensor<?x640xf32>) -> tensor<?x640xf32>
  return %r : tensor<?x640xf32>
}
func.func private @sum(%n: index {inferno.hint = 2000 : i64, inferno.range = [1, 40960], inferno.symbol = "n0"},
    %x: tensor<?x640xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 640)>}, %o: tensor<640xf32>) -> tensor<640xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<640xf32>) -> tensor<640xf32>
  %r = linalg.generic {indexing_maps = [#columns, #each], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x640xf32>) outs(%f : tensor<640xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<640xf32>
  return %r : tensor<640xf32>
}
func.func private @sub(%n: index {inferno.hint = 2000 : i64, inferno.range = [1, 40960], inferno.symbol = "n0"},
    %x: tensor<?x640xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 640)>}, %m: tensor<640xf32>,
    %o: tensor<?x640xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 640)>}) -> tensor<?x640xf32> {
  %r = linalg.generic {indexing_maps = [#points, #sums, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<?x640xf32>, tensor<640xf32>) outs(%o : tensor<?x640xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<?x640xf32>
  return %r : tensor<?x640xf32>
}
