// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a always=1}' | FileCheck %s
// RUN: inferno-opt %s -p 'fuse-attention{target=sm_90a}' | FileCheck %s --check-prefix=APART

#point = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#lhs = affine_map<(b, i, j, d) -> (b, i, d)>
#rhs = affine_map<(b, i, j, d) -> (b, j, d)>
#out = affine_map<(b, i, j, d) -> (b, i, j)>

// Attention of any number of sequences, of any length.  Some kernels have sequences and heads as one dimension, whose size is their symbol, another
// one has both.  The kernel of all has the program's symbols, of which it computes what the others were given, and in which it reshapes scores.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[B:[^ :]*]]: index {{.*}}"s0"}, %[[S:[^ :]*]]: index {{.*}}"s1"}
// CHECK: call @attention(%[[B]], %[[S]], {{.*}} : (index, index, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>)
// CHECK-NOT: call
// CHECK: func.func private @attention(%[[N0:[^ :]*]]: index {{.*}}range = [1, 64], {{.*}}"n0"}, %[[N1:[^ :]*]]: index {{.*}}range = [1, 8192], {{.*}}"n1"}
// CHECK-SAME: inferno.sizes = affine_map<()[s0, s1] -> (s0 * 2, s1, 8)>
// CHECK: arith.muli %[[N0]], %{{.*}}
// CHECK: tensor.expand_shape %{{.*}} output_shape [%[[N0]], 2, %[[N1]], %[[N1]]]
// CHECK: math.exp
// CHECK-NOT: func.func
// APART-COUNT-6: call @
func.func @main(
    %q: tensor<?x2x?x8xbf16> {inferno.kind = "input", inferno.sizes = affine_map<()[s0, s1] -> (s0, 2, s1, 8)>},
    %k: tensor<?x2x?x8xbf16> {inferno.kind = "input", inferno.sizes = affine_map<()[s0, s1] -> (s0, 2, s1, 8)>},
    %v: tensor<?x2x?x8xbf16> {inferno.kind = "input", inferno.sizes = affine_map<()[s0, s1] -> (s0, 2, s1, 8)>},
    %b: index {inferno.symbol = "s0", inferno.range = [1, 64]}, %s: index {inferno.symbol = "s1", inferno.range = [1, 8192]}) -> tensor<?x?x8xbf16> {
  %two = arith.constant 2 : index
  %h = arith.muli %b, %two : index
  %q0 = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<?x2x?x8xbf16> into tensor<?x?x8xbf16>
  %k0 = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<?x2x?x8xbf16> into tensor<?x?x8xbf16>
  %v0 = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<?x2x?x8xbf16> into tensor<?x?x8xbf16>
  %e0 = tensor.empty(%h, %s, %s) : tensor<?x?x?xf32>
  %0 = call @scores(%h, %s, %q0, %k0, %e0) : (index, index, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2], [3]] output_shape [%b, 2, %s, %s] : tensor<?x?x?xf32> into tensor<?x2x?x?xf32>
  %e1 = tensor.empty(%b, %s) : tensor<?x2x?xf32>
  %2 = call @most(%b, %s, %1, %e1) : (index, index, tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %3 = tensor.collapse_shape %2 [[0, 1], [2]] : tensor<?x2x?xf32> into tensor<?x?xf32>
  %e2 = tensor.empty(%h, %s, %s) : tensor<?x?x?xf32>
  %4 = call @power(%h, %s, %3, %0, %e2) : (index, index, tensor<?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %e3 = tensor.empty(%h, %s) : tensor<?x?xf32>
  %5 = call @sum(%h, %s, %4, %e3) : (index, index, tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %e4 = tensor.empty(%h, %s, %s) : tensor<?x?x?xbf16>
  %6 = call @weights(%h, %s, %4, %5, %e4) : (index, index, tensor<?x?x?xf32>, tensor<?x?xf32>, tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16>
  %e5 = tensor.empty(%h, %s) : tensor<?x?x8xbf16>
  %7 = call @values(%h, %s, %6, %v0, %e5) : (index, index, tensor<?x?x?xbf16>, tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) -> tensor<?x?x8xbf16>
  return %7 : tensor<?x?x8xbf16>
}
func.func private @scores(%n0: index {inferno.symbol = "n0", inferno.range = [2, 128], inferno.divisor = 2}, %n1: index {inferno.symbol = "n1", inferno.range = [1, 8192]},
    %q: tensor<?x?x8xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 8)>}, %k: tensor<?x?x8xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 8)>},
    %out: tensor<?x?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>}) -> tensor<?x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %1 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x?x8xbf16>, tensor<?x?x8xbf16>) outs(%0 : tensor<?x?x?xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %2 = arith.extf %a : bf16 to f32
    %3 = arith.extf %b : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.addf %s, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<?x?x?xf32>
  return %1 : tensor<?x?x?xf32>
}
func.func private @most(%n0: index {inferno.symbol = "n0", inferno.range = [1, 64]}, %n1: index {inferno.symbol = "n1", inferno.range = [1, 8192]},
    %s: tensor<?x2x?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 2, s1, s1)>},
    %out: tensor<?x2x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, 2, s1)>}) -> tensor<?x2x?xf32> {
  %least = arith.constant 0xFF800000 : f32
  %0 = linalg.fill ins(%least : f32) outs(%out : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>, affine_map<(b, h, i, j) -> (b, h, i)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s : tensor<?x2x?x?xf32>) outs(%0 : tensor<?x2x?xf32>) {
  ^bb0(%a: f32, %m: f32):
    %2 = arith.maximumf %a, %m : f32
    linalg.yield %2 : f32
  } -> tensor<?x2x?xf32>
  return %1 : tensor<?x2x?xf32>
}
func.func private @power(%n0: index {inferno.symbol = "n0", inferno.range = [2, 128], inferno.divisor = 2}, %n1: index {inferno.symbol = "n1", inferno.range = [1, 8192]},
    %m: tensor<?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1)>}, %s: tensor<?x?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>},
    %out: tensor<?x?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>}) -> tensor<?x?x?xf32> {
  %0 = linalg.generic {indexing_maps = [#row, #point, #point], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%m, %s : tensor<?x?xf32>, tensor<?x?x?xf32>) outs(%out : tensor<?x?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.subf %b, %a : f32
    %2 = math.exp %1 : f32
    linalg.yield %2 : f32
  } -> tensor<?x?x?xf32>
  return %0 : tensor<?x?x?xf32>
}
func.func private @sum(%n0: index {inferno.symbol = "n0", inferno.range = [2, 128], inferno.divisor = 2}, %n1: index {inferno.symbol = "n1", inferno.range = [1, 8192]},
    %p: tensor<?x?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>}, %out: tensor<?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1)>}) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%zero : f32) outs(%out : tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = linalg.generic {indexing_maps = [#point, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p : tensor<?x?x?xf32>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%a: f32, %t: f32):
    %2 = arith.addf %a, %t : f32
    linalg.yield %2 : f32
  } -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
func.func private @weights(%n0: index {inferno.symbol = "n0", inferno.range = [2, 128], inferno.divisor = 2}, %n1: index {inferno.symbol = "n1", inferno.range = [1, 8192]},
    %p: tensor<?x?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>}, %t: tensor<?x?xf32> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1)>},
    %out: tensor<?x?x?xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>}) -> tensor<?x?x?xbf16> {
  %0 = linalg.generic {indexing_maps = [#point, #row, #point], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %t : tensor<?x?x?xf32>, tensor<?x?xf32>) outs(%out : tensor<?x?x?xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %1 = arith.divf %a, %b : f32
    %2 = arith.truncf %1 : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<?x?x?xbf16>
  return %0 : tensor<?x?x?xbf16>
}
func.func private @values(%n0: index {inferno.symbol = "n0", inferno.range = [2, 128], inferno.divisor = 2}, %n1: index {inferno.symbol = "n1", inferno.range = [1, 8192]},
    %p: tensor<?x?x?xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, s1)>}, %v: tensor<?x?x8xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 8)>},
    %out: tensor<?x?x8xbf16> {inferno.sizes = affine_map<()[s0, s1] -> (s0, s1, 8)>}) -> tensor<?x?x8xbf16> {
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n0, %n1) : tensor<?x?x8xf32>
  %0 = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %1:2 = linalg.generic {indexing_maps = [#lhs, affine_map<(b, i, j, d) -> (b, d, j)>, #out, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<?x?x?xbf16>, tensor<?x?x8xbf16>) outs(%0, %out : tensor<?x?x8xf32>, tensor<?x?x8xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32, %o: bf16):
    %2 = arith.extf %a : bf16 to f32
    %3 = arith.extf %b : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.addf %s, %4 : f32
    %6 = linalg.index 3 : index
    %7 = arith.addi %6, %one : index
    %8 = arith.cmpi eq, %7, %n1 : index
    %9 = arith.truncf %5 : f32 to bf16
    %10 = arith.select %8, %9, %o : bf16
    linalg.yield %5, %10 : f32, bf16
  } -> (tensor<?x?x8xf32>, tensor<?x?x8xbf16>)
  return %1#1 : tensor<?x?x8xbf16>
}
