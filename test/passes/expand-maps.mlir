// RUN: inferno-opt %s -p expand-maps,fuse-elementwise | FileCheck %s

module attributes {inferno.expand_pieces} {
/// Two halves of bytes are flattened, and cut into groups that are scaled: one operation, of the loops of both.
// CHECK-LABEL: func.func @unpack
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]
// CHECK: tensor.collapse_shape
// CHECK-NOT: linalg.generic
func.func @unpack(%q: tensor<8x16xi8>, %s: tensor<8x4xf32>) -> tensor<8x4x8xf32> {
  %e = tensor.empty() : tensor<8x16x2xi8>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q : tensor<8x16xi8>) outs(%e : tensor<8x16x2xi8>) {
  ^bb0(%a: i8, %o: i8):
    %c = arith.constant 4 : i8
    %k = linalg.index 2 : index
    %n = arith.index_cast %k : index to i8
    %m = arith.muli %n, %c : i8
    %h = arith.shrui %a, %m : i8
    linalg.yield %h : i8
  } -> tensor<8x16x2xi8>
  %f = tensor.collapse_shape %p [[0], [1, 2]] : tensor<8x16x2xi8> into tensor<8x32xi8>
  %g = tensor.expand_shape %f [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xi8> into tensor<8x4x8xi8>
  %r = tensor.empty() : tensor<8x4x8xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %s : tensor<8x4x8xi8>, tensor<8x4xf32>) outs(%r : tensor<8x4x8xf32>) {
  ^bb0(%a: i8, %b: f32, %o: f32):
    %w = arith.sitofp %a : i8 to f32
    %y = arith.mulf %w, %b : f32
    linalg.yield %y : f32
  } -> tensor<8x4x8xf32>
  return %x : tensor<8x4x8xf32>
}

/// What is scaled and split into heads, of which there are sums, has the heads' loops, and is split once.
// CHECK-LABEL: func.func @heads
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: arith.mulf
// CHECK-NOT: tensor.expand_shape
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: arith.divf
// CHECK-NOT: linalg.generic
func.func @heads(%x: tensor<8x32xf32>, %s: tensor<32xf32>) -> tensor<8x4x8xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<8x32xf32>
  %g = tensor.expand_shape %y [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xf32> into tensor<8x4x8xf32>
  %h = tensor.expand_shape %y [[0], [1, 2]] output_shape [8, 4, 8] : tensor<8x32xf32> into tensor<8x4x8xf32>
  %z = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<8x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%t : tensor<8x4xf32>) -> tensor<8x4xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%g : tensor<8x4x8xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %a, %o : f32
    linalg.yield %p : f32
  } -> tensor<8x4xf32>
  %r = tensor.empty() : tensor<8x4x8xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h, %u : tensor<8x4x8xf32>, tensor<8x4xf32>) outs(%r : tensor<8x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<8x4x8xf32>
  return %q : tensor<8x4x8xf32>
}

/// What is flattened and split again as it was has no reshape that could go from reader to reader.
// CHECK-LABEL: func.func @back
// CHECK-NOT: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1], [2]]
// CHECK: return
func.func @back(%x: tensor<2x17x20xf32>, %y: tensor<34x20xf32>) -> tensor<2x20x17xf32> {
  %0 = tensor.empty() : tensor<2x17x20xf32>
  %made = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>],
    iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x17x20xf32>) outs(%0 : tensor<2x17x20xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<2x17x20xf32>
  %flat = tensor.collapse_shape %made [[0, 1], [2]] : tensor<2x17x20xf32> into tensor<34x20xf32>
  %1 = tensor.empty() : tensor<34x20xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, k)>],
    iterator_types = ["parallel", "parallel"]} ins(%flat, %y : tensor<34x20xf32>, tensor<34x20xf32>) outs(%1 : tensor<34x20xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<34x20xf32>
  %split = tensor.expand_shape %sum [[0, 1], [2]] output_shape [2, 17, 20] : tensor<34x20xf32> into tensor<2x17x20xf32>
  %2 = tensor.empty() : tensor<2x20x17xf32>
  %transposed = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k, j)>, affine_map<(i, j, k) -> (i, j, k)>],
    iterator_types = ["parallel", "parallel", "parallel"]} ins(%split : tensor<2x17x20xf32>) outs(%2 : tensor<2x20x17xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x20x17xf32>
  return %transposed : tensor<2x20x17xf32>
}

/// What is split for slices, which have each element once, is split where it is made: hoist-slices computes the parts of what it reads.
// CHECK-LABEL: func.func @pairs
// CHECK: tensor.expand_shape %arg0
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
// CHECK: arith.extf
// CHECK-NOT: tensor.expand_shape
// CHECK: return
// CHECK-LABEL: func.func @whole_twice
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: arith.extf
// CHECK: tensor.expand_shape
func.func @pairs(%x: tensor<32x64xbf16>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %e = tensor.empty() : tensor<32x64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<32x64xbf16>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %w = arith.extf %in : bf16 to f32
    linalg.yield %w : f32
  } -> tensor<32x64xf32>
  %split = tensor.expand_shape %0 [[0], [1, 2]] output_shape [32, 32, 2] : tensor<32x64xf32> into tensor<32x32x2xf32>
  %a = tensor.extract_slice %split[0, 0, 0] [32, 32, 1] [1, 1, 1] : tensor<32x32x2xf32> to tensor<32x32xf32>
  %b = tensor.extract_slice %split[0, 0, 1] [32, 32, 1] [1, 1, 1] : tensor<32x32x2xf32> to tensor<32x32xf32>
  return %a, %b : tensor<32x32xf32>, tensor<32x32xf32>
}

func.func @whole_twice(%x: tensor<32x64xbf16>) -> (tensor<32x31x2xf32>, tensor<32x31x2xf32>) {
  %e = tensor.empty() : tensor<32x64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<32x64xbf16>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %w = arith.extf %in : bf16 to f32
    linalg.yield %w : f32
  } -> tensor<32x64xf32>
  %split = tensor.expand_shape %0 [[0], [1, 2]] output_shape [32, 32, 2] : tensor<32x64xf32> into tensor<32x32x2xf32>
  %a = tensor.extract_slice %split[0, 0, 0] [32, 31, 2] [1, 1, 1] : tensor<32x32x2xf32> to tensor<32x31x2xf32>
  %b = tensor.extract_slice %split[0, 1, 0] [32, 31, 2] [1, 1, 1] : tensor<32x32x2xf32> to tensor<32x31x2xf32>
  return %a, %b : tensor<32x31x2xf32>, tensor<32x31x2xf32>
}

/// What is flattened twice, repeated numbers, is flattened once: who reads it gets the loops that they had.
// CHECK-LABEL: func.func @repeated_twice
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "parallel"]
// CHECK: arith.mulf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @repeated_twice(%s: tensor<2x2xf32>, %x: tensor<6x32xf32>) -> tensor<6x32xf32> {
  %0 = tensor.empty() : tensor<2x3x2xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%s : tensor<2x2xf32>) outs(%0 : tensor<2x3x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x3x2xf32>
  %rows = tensor.collapse_shape %a [[0, 1], [2]] : tensor<2x3x2xf32> into tensor<6x2xf32>
  %1 = tensor.empty() : tensor<6x2x16xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%rows : tensor<6x2xf32>) outs(%1 : tensor<6x2x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<6x2x16xf32>
  %all = tensor.collapse_shape %b [[0], [1, 2]] : tensor<6x2x16xf32> into tensor<6x32xf32>
  %2 = tensor.empty() : tensor<6x32xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x, %all : tensor<6x32xf32>, tensor<6x32xf32>) outs(%2 : tensor<6x32xf32>) {
  ^bb0(%u: f32, %v: f32, %out: f32):
    %m = arith.mulf %u, %v : f32
    linalg.yield %m : f32
  } -> tensor<6x32xf32>
  return %c : tensor<6x32xf32>
}

/// What is made of totals keeps its loops, so that their kernel makes it, and is split for who reads it then.
// CHECK-LABEL: func.func @of_totals
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]
// CHECK: math.sqrt
// CHECK: tensor.expand_shape
func.func @of_totals(%x: tensor<64x32xf32>, %y: tensor<32x2xf32>) -> tensor<32x2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<64x32xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.addf %in, %out : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = math.sqrt %in : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  %v = tensor.expand_shape %s [[0, 1]] output_shape [32, 2] : tensor<64xf32> into tensor<32x2xf32>
  %o = tensor.empty() : tensor<32x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%y, %v : tensor<32x2xf32>, tensor<32x2xf32>) outs(%o : tensor<32x2xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<32x2xf32>
  return %r : tensor<32x2xf32>
}
}
