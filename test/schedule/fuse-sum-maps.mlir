// RUN: inferno-opt -p 'fuse-sum-maps{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'fuse-sum-maps{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>

// Two maps of two sums are behind them; a sum that another kernel reads is given back, too.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]]:3 = call @[[SUMS:sums_[a-z_0-9]*]](%arg0, {{.*}}) {inferno.source = ["sums", "mean", "largest"]}
// CHECK: return %[[S]]#0, %[[S]]#1, %[[S]]#2
// CHECK: func.func private @[[SUMS]](%{{.*}}: tensor<50000x64xf32>, %{{.*}}: tensor<64xf32>, %{{.*}}: tensor<64xf32>, %{{.*}}: tensor<64xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK: arith.divf
// CHECK: math.exp
// CHECK-NOT: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call
func.func @main(%x: tensor<50000x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %s:2 = call @sums(%x, %e, %e) {inferno.source = ["sums"]} : (tensor<50000x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %m = call @mean(%s#0, %e) {inferno.source = ["mean"]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %l = call @largest(%s#1, %s#0, %e) {inferno.source = ["largest"]} : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %s#0, %m, %l : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
func.func private @sums(%x: tensor<50000x64xf32>, %o: tensor<64xf32>, %p: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %z = arith.constant 0.0 : f32
  %i = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %g = linalg.fill ins(%i : f32) outs(%p : tensor<64xf32>) -> tensor<64xf32>
  %r:2 = linalg.generic {indexing_maps = [#points, #columns, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<50000x64xf32>) outs(%f, %g : tensor<64xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32, %l: f32):
    %y = arith.addf %a, %s : f32
    %m = arith.maximumf %a, %l : f32
    linalg.yield %y, %m : f32, f32
  } -> (tensor<64xf32>, tensor<64xf32>)
  return %r#0, %r#1 : tensor<64xf32>, tensor<64xf32>
}
func.func private @mean(%s: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %n = arith.constant 50000.0 : f32
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.divf %a, %n : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @largest(%l: tensor<64xf32>, %s: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %r = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]} ins(%l, %s : tensor<64xf32>, tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %d = arith.subf %a, %b : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>

// A map that reads something else, too, stays.
// CHECK-LABEL: func.func @main
// CHECK: call @sums
// CHECK: call @scaled
func.func @main(%x: tensor<50000x64xf32>, %w: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sums(%x, %e) : (tensor<50000x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %m = call @scaled(%s, %w, %e) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %m : tensor<64xf32>
}
func.func private @sums(%x: tensor<50000x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<50000x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @scaled(%s: tensor<64xf32>, %w: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %r = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]} ins(%s, %w : tensor<64xf32>, tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.mulf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

// A mean of as many elements as the call says is divided where they are summed.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = call @[[MEAN:sum_mean]](%arg1, %arg0, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[M]]
// CHECK: func.func private @[[MEAN]]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: linalg.generic {{.*}} iterator_types = []
// CHECK: arith.divf
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
#scalar = affine_map<() -> ()>
func.func @main(%x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 5000 : i64, inferno.range = [2, 100000], inferno.symbol = "s0"}) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %s = call @sum(%n, %x, %e) : (index, tensor<?xf32>, tensor<f32>) -> tensor<f32>
  %m = call @mean(%n, %s, %e) : (index, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %m : tensor<f32>
}
func.func private @sum(%n: index {inferno.divisor = 1 : i64, inferno.hint = 5000 : i64, inferno.range = [2, 100000], inferno.symbol = "n0"},
                       %x: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}, %o: tensor<f32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%x : tensor<?xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
func.func private @mean(%n: index {inferno.divisor = 1 : i64, inferno.hint = 5000 : i64, inferno.range = [2, 100000], inferno.symbol = "n0"},
                        %s: tensor<f32>, %o: tensor<f32>) -> tensor<f32> {
  %i = arith.index_cast %n : index to i64
  %r = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []} ins(%s : tensor<f32>) outs(%o : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %c = arith.sitofp %i : i64 to f32
    %y = arith.divf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// A mean, and the sum that it is of: the program gives back both.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[BOTH:sum_mean]](%arg1, %arg0, %{{.*}}, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[R]]#1, %[[R]]#0
// CHECK: func.func private @[[BOTH]]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK: %[[Q:.*]] = arith.divf %[[S:.*]], %
// CHECK: linalg.yield %[[S]], %[[Q]]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
#points = affine_map<(d0, d1) -> (d1, d0)>
#row = affine_map<(d0, d1) -> (d0)>
#one = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?x64xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 5000 : i64, inferno.range = [2, 100000], inferno.symbol = "s0"}) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%n, %x, %e) : (index, tensor<?x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %m = call @mean(%n, %s, %e) : (index, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %m, %s : tensor<64xf32>, tensor<64xf32>
}
func.func private @sum(%n: index {inferno.divisor = 1 : i64, inferno.hint = 5000 : i64, inferno.range = [2, 100000], inferno.symbol = "n0"},
                       %x: tensor<?x64xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @mean(%n: index {inferno.divisor = 1 : i64, inferno.hint = 5000 : i64, inferno.range = [2, 100000], inferno.symbol = "n0"},
                        %s: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %i = arith.index_cast %n : index to i64
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %c = arith.sitofp %i : i64 to f32
    %y = arith.divf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
