// RUN: inferno-opt -p 'merge-variances{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'merge-variances{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>

// A mean and a sum of squared distances from it: one kernel reads the tensor, and a small one makes both.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[SUMS:reduce_squares[_0-9]*]](%arg0, %{{.*}}, %{{.*}}) {inferno.source = ["mean", "distances"]}
// CHECK: %[[D:.*]]:2 = call @[[REST:squared_distances[_0-9]*]](%[[R]]#0, %[[R]]#1,
// CHECK: %[[M:.*]] = call @mean(%[[D]]#0,
// CHECK: return %[[M]], %[[D]]#1
// CHECK-NOT: func.func private @distances
// CHECK: func.func private @[[SUMS]](%{{.*}}: tensor<500x64xbf16>, %{{.*}}: tensor<64xf64>, %{{.*}}: tensor<64xf64>)
// CHECK: linalg.generic
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f64
// CHECK: %[[Q:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK: arith.addf %[[X]], %{{.*}} : f64
// CHECK: arith.addf %[[Q]], %{{.*}} : f64
// CHECK: func.func private @[[REST]](
// CHECK: arith.divf %{{.*}}, %{{.*}} : f64
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call
func.func @main(%x: tensor<500x64xbf16>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%x, %e) {inferno.source = ["mean"]} : (tensor<500x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  %m = call @mean(%s, %e) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @distances(%m, %x, %e) {inferno.source = ["distances"]} : (tensor<64xf32>, tensor<500x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  return %m, %d : tensor<64xf32>, tensor<64xf32>
}
func.func private @sum(%x: tensor<500x64xbf16>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<500x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: bf16, %s: f32):
    %w = arith.extf %a : bf16 to f32
    %y = arith.addf %w, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @mean(%s: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %n = arith.constant 500.0 : f32
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.divf %a, %n : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @distances(%m: tensor<64xf32>, %x: tensor<500x64xbf16>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<500x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%b: f32, %a: bf16, %s: f32):
    %w = arith.extf %a : bf16 to f32
    %d = arith.subf %w, %b : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>

// Distances from something else than the mean, a sum by another number: both kernels stay.
// CHECK-LABEL: func.func @main
// CHECK: call @sum
// CHECK: call @half
// CHECK: call @distances
func.func @main(%x: tensor<500x64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%x, %e) : (tensor<500x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %m = call @half(%s, %e) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @distances(%m, %x, %e) : (tensor<64xf32>, tensor<500x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %d : tensor<64xf32>
}
func.func private @sum(%x: tensor<500x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<500x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @half(%s: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %n = arith.constant 250.0 : f32
  %r = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%s : tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.divf %a, %n : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @distances(%m: tensor<64xf32>, %x: tensor<500x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<500x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %d = arith.subf %a, %b : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#one = affine_map<(c) -> (c)>

// A standard deviation: the sum by itself is not needed, and the root is part of the kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @reduce_squares{{[_0-9]*}}(%arg0,
// CHECK: %[[D:.*]] = call @[[REST:squared_distances[_0-9]*]](%[[R]]#0, %[[R]]#1, %{{[^,]*}}) {
// CHECK-NEXT: return %[[D]]
// CHECK: func.func private @[[REST]](%{{.*}}: tensor<64xf64>, %{{.*}}: tensor<64xf64>, %{{.*}}: tensor<64xf32>) -> tensor<64xf32>
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.divf
// CHECK: math.sqrt
func.func @main(%x: tensor<500x64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%x, %e) : (tensor<500x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @deviation(%s, %x, %e) : (tensor<64xf32>, tensor<500x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %d : tensor<64xf32>
}
func.func private @sum(%x: tensor<500x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<500x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @deviation(%m: tensor<64xf32>, %x: tensor<500x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %n = arith.constant 500.0 : f32
  %less = arith.constant 499.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<500x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %mean = arith.divf %b, %n : f32
    %d = arith.subf %a, %mean : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  %v = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%r : tensor<64xf32>) outs(%o : tensor<64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %q = arith.divf %a, %less : f32
    %y = math.sqrt %q : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %v : tensor<64xf32>
}

// -----

#points = affine_map<(c) -> (c)>
#all = affine_map<(c) -> ()>
#one = affine_map<() -> ()>

// A whole tensor, or one row.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[SUMS:reduce_squares[_0-9]*]](%arg0
// CHECK: call @squared_distances{{[_0-9]*}}(%[[R]]#0, %[[R]]#1,
// CHECK: func.func private @[[SUMS]](%{{.*}}: tensor<90000xf32>, %{{.*}}: tensor<f64>, %{{.*}}: tensor<f64>)
func.func @main(%x: tensor<90000xf32>) -> (tensor<f32>, tensor<f32>) {
  %e = tensor.empty() : tensor<f32>
  %m = call @mean(%x, %e) : (tensor<90000xf32>, tensor<f32>) -> tensor<f32>
  %d = call @distances(%m, %x, %e) : (tensor<f32>, tensor<90000xf32>, tensor<f32>) -> tensor<f32>
  return %m, %d : tensor<f32>, tensor<f32>
}
func.func private @mean(%x: tensor<90000xf32>, %o: tensor<f32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %n = arith.constant 90000.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#points, #all], iterator_types = ["reduction"]} ins(%x : tensor<90000xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  %m = linalg.generic {indexing_maps = [#one, #one], iterator_types = []} ins(%r : tensor<f32>) outs(%o : tensor<f32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.divf %a, %n : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %m : tensor<f32>
}
func.func private @distances(%m: tensor<f32>, %x: tensor<90000xf32>, %o: tensor<f32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#all, #points, #all], iterator_types = ["reduction"]} ins(%m, %x : tensor<f32>, tensor<90000xf32>) outs(%f : tensor<f32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %d = arith.subf %a, %b : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// As many elements as the call says, which may be none: the mean is divided by the same size that is summed over.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[SUMS:reduce_squares[_0-9]*]](%arg1, %arg0, %{{.*}}, %{{.*}})
// CHECK: call @[[REST:squared_distances[_0-9]*]](%arg1, %[[R]]#0, %[[R]]#1,
// CHECK-NOT: call
// CHECK: func.func private @[[SUMS]](%{{.*}}: index {{.*}}, %{{.*}}: tensor<?x64xbf16> {inferno.sizes = {{.*}}}, %{{.*}}: tensor<64xf64>, %{{.*}}: tensor<64xf64>)
// CHECK: func.func private @[[REST]](%[[N:.*]]: index {{.*}}, %{{.*}}: tensor<64xf64>, %{{.*}}: tensor<64xf64>, %{{.*}}: tensor<64xf32>
// CHECK: %[[M:.*]] = arith.maxsi %{{.*}}, %[[N]] : index
// CHECK: %[[I:.*]] = arith.index_cast %[[M]] : index to i64
// CHECK: %[[F:.*]] = arith.sitofp %[[I]] : i64 to f64
// CHECK: arith.divf %{{.*}}, %[[F]] : f64
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call
func.func @main(%x: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "s0"}) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%n, %x, %e) : (index, tensor<?x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @distances(%n, %s, %x, %e) : (index, tensor<64xf32>, tensor<?x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  return %d : tensor<64xf32>
}
func.func private @sum(%n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n0"},
                       %x: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<?x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: bf16, %s: f32):
    %w = arith.extf %a : bf16 to f32
    %y = arith.addf %w, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @distances(%n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n0"},
                             %m: tensor<64xf32>, %x: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %o: tensor<64xf32>) -> tensor<64xf32> {
  %i = arith.index_cast %n : index to i64
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<?x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%t: f32, %a: bf16, %s: f32):
    %c = arith.sitofp %i : i64 to f32
    %b = arith.divf %t, %c : f32
    %w = arith.extf %a : bf16 to f32
    %d = arith.subf %w, %b : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>

// A sum divided by another size, that is the same in the example, is no mean.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @reduce_squares
// CHECK: return
// CPU-LABEL: func.func @main
func.func @main(%x: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 64)>},
                %n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "s0"},
                %k: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "s1"}) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %s = call @sum(%n, %x, %e) : (index, tensor<?x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  %d = call @distances(%n, %k, %s, %x, %e) : (index, index, tensor<64xf32>, tensor<?x64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  return %d : tensor<64xf32>
}
func.func private @sum(%n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n0"},
                       %x: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<?x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: bf16, %s: f32):
    %w = arith.extf %a : bf16 to f32
    %y = arith.addf %w, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @distances(%n: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n0"},
                             %k: index {inferno.divisor = 1 : i64, inferno.hint = 500 : i64, inferno.range = [0, 4611686018427387904], inferno.symbol = "n1"},
                             %m: tensor<64xf32>, %x: tensor<?x64xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 64)>}, %o: tensor<64xf32>) -> tensor<64xf32> {
  %i = arith.index_cast %k : index to i64
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<?x64xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%t: f32, %a: bf16, %s: f32):
    %c = arith.sitofp %i : i64 to f32
    %b = arith.divf %t, %c : f32
    %w = arith.extf %a : bf16 to f32
    %d = arith.subf %w, %b : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

// Sums, and sums of these, each with distances: by the time that the second ones are computed together, what they read is another kernel's result.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]]:2 = call @[[SUMS:reduce_squares[_0-9]*]](%arg0,
// CHECK: %[[D:.*]]:2 = call @[[REST:squared_distances[_0-9]*]](%[[R]]#0, %[[R]]#1,
// CHECK: %[[S:.*]]:2 = call @[[MORE:reduce_squares[_0-9]*]](%[[D]]#0,
// CHECK: %[[E:.*]]:2 = call @[[LESS:squared_distances[_0-9]*]](%[[S]]#0, %[[S]]#1,
// CHECK: return %[[D]]#0, %[[D]]#1, %[[E]]#0, %[[E]]#1
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call
#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#all3 = affine_map<(t, r, c) -> (t, r, c)>
#rows3 = affine_map<(t, r, c) -> (r, c)>
func.func @main(%x: tensor<8x50x64xf32>) -> (tensor<50x64xf32>, tensor<50x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<50x64xf32>
  %s = call @sum(%x, %e) : (tensor<8x50x64xf32>, tensor<50x64xf32>) -> tensor<50x64xf32>
  %d = call @distances(%s, %x, %e) : (tensor<50x64xf32>, tensor<8x50x64xf32>, tensor<50x64xf32>) -> tensor<50x64xf32>
  %f = tensor.empty() : tensor<64xf32>
  %t = call @sum2(%s, %f) : (tensor<50x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %g = call @distances2(%t, %s, %f) : (tensor<64xf32>, tensor<50x64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %s, %d, %t, %g : tensor<50x64xf32>, tensor<50x64xf32>, tensor<64xf32>, tensor<64xf32>
}
func.func private @sum(%x: tensor<8x50x64xf32>, %o: tensor<50x64xf32>) -> tensor<50x64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<50x64xf32>) -> tensor<50x64xf32>
  %r = linalg.generic {indexing_maps = [#all3, #rows3], iterator_types = ["reduction", "parallel", "parallel"]} ins(%x : tensor<8x50x64xf32>) outs(%f : tensor<50x64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<50x64xf32>
  return %r : tensor<50x64xf32>
}
func.func private @distances(%m: tensor<50x64xf32>, %x: tensor<8x50x64xf32>, %o: tensor<50x64xf32>) -> tensor<50x64xf32> {
  %z = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<50x64xf32>) -> tensor<50x64xf32>
  %r = linalg.generic {indexing_maps = [#rows3, #all3, #rows3], iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%m, %x : tensor<50x64xf32>, tensor<8x50x64xf32>) outs(%f : tensor<50x64xf32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %v = arith.divf %b, %n : f32
    %d = arith.subf %a, %v : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<50x64xf32>
  return %r : tensor<50x64xf32>
}
func.func private @sum2(%x: tensor<50x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #columns], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<50x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @distances2(%m: tensor<64xf32>, %x: tensor<50x64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.constant 0.0 : f32
  %n = arith.constant 50.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#columns, #points, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%m, %x : tensor<64xf32>, tensor<50x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%b: f32, %a: f32, %s: f32):
    %v = arith.divf %b, %n : f32
    %d = arith.subf %a, %v : f32
    %q = arith.mulf %d, %d : f32
    %y = arith.addf %q, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
