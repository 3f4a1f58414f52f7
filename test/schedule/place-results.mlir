// RUN: inferno-opt -p 'place-results{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'place-results{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(d0, d1) -> (d0, d1)>
#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

/// Both pieces are what kernels have made: they are inserted, and there is no kernel that puts them side by side.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @scan(%arg0,
// CHECK: %[[B:.*]] = call @scan(%arg1,
// CHECK: %[[NEW:.*]] = tensor.empty() : tensor<2x64x32xf32>
// CHECK: %[[ONE:.*]] = tensor.insert_slice %[[A]] into %[[NEW]][0, 0, 0] [1, 64, 32] [1, 1, 1]
// CHECK: %[[BOTH:.*]] = tensor.insert_slice %[[B]] into %[[ONE]][1, 0, 0] [1, 64, 32] [1, 1, 1]
// CHECK: return %[[BOTH]]
// CHECK-NOT: @pieces
// CPU: call @pieces
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<2x64x32xf32> {
  %e0 = tensor.empty() : tensor<64x32xf32>
  %a = call @scan(%x, %e0) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<64x32xf32>
  %b = call @scan(%y, %e1) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %e2 = tensor.empty() : tensor<2x64x32xf32>
  %s = call @pieces(%a, %b, %e2) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  return %s : tensor<2x64x32xf32>
}
func.func private @scan(%x: tensor<64x32xf32>, %o: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {inferno.schedule = {generator = "universal"}} {
  %0 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x32xf32>) outs(%o : tensor<64x32xf32>) {
  ^bb0(%p: f32, %q: f32):
    %v = math.exp %p : f32
    linalg.yield %v : f32
  } -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}
func.func private @pieces(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>, %o: tensor<2x64x32xf32>) -> tensor<2x64x32xf32> attributes {inferno.schedule = {across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64, windows = false}} {
  %c1 = arith.constant 1 : index
  %0 = linalg.generic {indexing_maps = [#cube], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<2x64x32xf32>) {
  ^bb0(%q: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %first = arith.cmpi ult, %i, %c1 : index
    %v = scf.if %first -> (f32) {
      %e = tensor.extract %a[%j, %k] : tensor<64x32xf32>
      scf.yield %e : f32
    } else {
      %e = tensor.extract %b[%j, %k] : tensor<64x32xf32>
      scf.yield %e : f32
    }
    linalg.yield %v : f32
  } -> tensor<2x64x32xf32>
  return %0 : tensor<2x64x32xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

/// What the kernel computes is a map of its own; here it is inserted, too.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @scan(%arg0,
// CHECK: %[[B:.*]] = call @scan(%arg1,
// CHECK: %[[NEW:.*]] = tensor.empty() : tensor<2x64x32xf32>
// CHECK: %[[ONE:.*]] = tensor.insert_slice %[[A]] into %[[NEW]][0, 0, 0]
// CHECK: %[[SQUARE:.*]] = call @pieces_1(%[[B]],
// CHECK: tensor.insert_slice %[[SQUARE]] into %[[ONE]][1, 0, 0]
// CHECK: func.func private @pieces_1(%arg0: tensor<64x32xf32>, %arg1: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {inferno.schedule =
// CHECK: arith.mulf
// CPU: call @pieces
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> tensor<2x64x32xf32> {
  %e0 = tensor.empty() : tensor<64x32xf32>
  %a = call @scan(%x, %e0) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<64x32xf32>
  %b = call @scan(%y, %e1) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %e2 = tensor.empty() : tensor<2x64x32xf32>
  %s = call @pieces(%a, %b, %e2) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  return %s : tensor<2x64x32xf32>
}
func.func private @scan(%x: tensor<64x32xf32>, %o: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {inferno.schedule = {generator = "universal"}} {
  %0 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x32xf32>) outs(%o : tensor<64x32xf32>) {
  ^bb0(%p: f32, %q: f32):
    %v = math.exp %p : f32
    linalg.yield %v : f32
  } -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}
func.func private @pieces(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>, %o: tensor<2x64x32xf32>) -> tensor<2x64x32xf32> attributes {inferno.schedule = {across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64, windows = false}} {
  %c1 = arith.constant 1 : index
  %0 = linalg.generic {indexing_maps = [#cube], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<2x64x32xf32>) {
  ^bb0(%q: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %first = arith.cmpi ult, %i, %c1 : index
    %v = scf.if %first -> (f32) {
      %e = tensor.extract %a[%j, %k] : tensor<64x32xf32>
      scf.yield %e : f32
    } else {
      %e = tensor.extract %b[%j, %k] : tensor<64x32xf32>
      %w = arith.mulf %e, %e : f32
      scf.yield %w : f32
    }
    linalg.yield %v : f32
  } -> tensor<2x64x32xf32>
  return %0 : tensor<2x64x32xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

/// A piece that is a result of the program besides is copied, and that is the launch that the concatenation was: it is a map now, of one piece.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @scan(%arg0,
// CHECK: %[[COPY:.*]] = call @pieces_1(%[[A]],
// CHECK: tensor.insert_slice %[[COPY]] into
// CHECK: return %{{.*}}, %[[A]]
// CPU: call @pieces
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>) -> (tensor<2x64x32xf32>, tensor<64x32xf32>) {
  %e0 = tensor.empty() : tensor<64x32xf32>
  %a = call @scan(%x, %e0) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<64x32xf32>
  %b = call @scan(%y, %e1) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %e2 = tensor.empty() : tensor<2x64x32xf32>
  %s = call @pieces(%a, %b, %e2) : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  return %s, %a : tensor<2x64x32xf32>, tensor<64x32xf32>
}
func.func private @scan(%x: tensor<64x32xf32>, %o: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {inferno.schedule = {generator = "universal"}} {
  %0 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x32xf32>) outs(%o : tensor<64x32xf32>) {
  ^bb0(%p: f32, %q: f32):
    %v = math.exp %p : f32
    linalg.yield %v : f32
  } -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}
func.func private @pieces(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>, %o: tensor<2x64x32xf32>) -> tensor<2x64x32xf32> attributes {inferno.schedule = {across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64, windows = false}} {
  %c1 = arith.constant 1 : index
  %0 = linalg.generic {indexing_maps = [#cube], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<2x64x32xf32>) {
  ^bb0(%q: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %first = arith.cmpi ult, %i, %c1 : index
    %v = scf.if %first -> (f32) {
      %e = tensor.extract %a[%j, %k] : tensor<64x32xf32>
      scf.yield %e : f32
    } else {
      %e = tensor.extract %b[%j, %k] : tensor<64x32xf32>
      scf.yield %e : f32
    }
    linalg.yield %v : f32
  } -> tensor<2x64x32xf32>
  return %0 : tensor<2x64x32xf32>
}
