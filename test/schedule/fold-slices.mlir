// RUN: inferno-opt %s -p 'fold-slices{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fold-slices{target=cpu}' --split-input-file | FileCheck %s --check-prefix=CPU

#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>

// The copy engine takes columns of a matrix as it takes a matrix.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @part
// CHECK: call @matmul_1(%arg0, %arg1, %{{.*}}) {inferno.source = ["p", "s"]}
// CHECK: func.func private @matmul_1(%[[X:.*]]: tensor<256x1024xbf16>
// CHECK-SAME: attributes {inferno.precision = "tf32"}
// CHECK: %[[P:.*]] = tensor.extract_slice %[[X]][0, 512]
// CHECK-NOT: linalg.copy
// CHECK: linalg.generic {{.*}} ins(%[[P]]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call @
func.func @main(%x: tensor<256x1024xbf16>, %w: tensor<768x512xbf16>) -> tensor<256x768xf32> {
  %e = tensor.empty() : tensor<256x512xbf16>
  %p = call @part(%x, %e) {inferno.source = ["p"]} : (tensor<256x1024xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  %f = tensor.empty() : tensor<256x768xf32>
  %s = call @matmul(%p, %w, %f) {inferno.source = ["s"]} : (tensor<256x512xbf16>, tensor<768x512xbf16>, tensor<256x768xf32>) -> tensor<256x768xf32>
  return %s : tensor<256x768xf32>
}
func.func private @part(%x: tensor<256x1024xbf16>, %out: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %0 = tensor.extract_slice %x[0, 512] [256, 512] [1, 1] : tensor<256x1024xbf16> to tensor<256x512xbf16>
  %1 = linalg.copy ins(%0 : tensor<256x512xbf16>) outs(%out : tensor<256x512xbf16>) -> tensor<256x512xbf16>
  return %1 : tensor<256x512xbf16>
}
func.func private @matmul(%x: tensor<256x512xbf16>, %w: tensor<768x512xbf16>, %out: tensor<256x768xf32>) -> tensor<256x768xf32> attributes {inferno.precision = "tf32"} {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<256x768xf32>) -> tensor<256x768xf32>
  %1 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<256x512xbf16>, tensor<768x512xbf16>) outs(%0 : tensor<256x768xf32>) {
  ^bb0(%a: bf16, %b: bf16, %t: f32):
    %l = arith.extf %a : bf16 to f32
    %r = arith.extf %b : bf16 to f32
    %2 = arith.mulf %l, %r : f32
    %3 = arith.addf %t, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<256x768xf32>
  return %1 : tensor<256x768xf32>
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>

// It cannot begin between 16 bytes; and what two products read is copied once.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @part
// CHECK-COUNT-3: call @matmul(
func.func @main(%x: tensor<256x1024xbf16>, %y: tensor<256x1024xbf16>, %w: tensor<768x512xbf16>) -> (tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>) {
  %e = tensor.empty() : tensor<256x512xbf16>
  %p = call @part(%x, %e) : (tensor<256x1024xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  %q = call @part1(%y, %e) : (tensor<256x1024xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16>
  %f = tensor.empty() : tensor<256x768xf32>
  %s = call @matmul(%p, %w, %f) : (tensor<256x512xbf16>, tensor<768x512xbf16>, tensor<256x768xf32>) -> tensor<256x768xf32>
  %t = call @matmul(%q, %w, %f) : (tensor<256x512xbf16>, tensor<768x512xbf16>, tensor<256x768xf32>) -> tensor<256x768xf32>
  %u = call @matmul(%q, %w, %f) : (tensor<256x512xbf16>, tensor<768x512xbf16>, tensor<256x768xf32>) -> tensor<256x768xf32>
  return %s, %t, %u : tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>
}
func.func private @part(%x: tensor<256x1024xbf16>, %out: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %0 = tensor.extract_slice %x[0, 3] [256, 512] [1, 1] : tensor<256x1024xbf16> to tensor<256x512xbf16>
  %1 = linalg.copy ins(%0 : tensor<256x512xbf16>) outs(%out : tensor<256x512xbf16>) -> tensor<256x512xbf16>
  return %1 : tensor<256x512xbf16>
}
func.func private @part1(%x: tensor<256x1024xbf16>, %out: tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  %0 = tensor.extract_slice %x[0, 512] [256, 512] [1, 1] : tensor<256x1024xbf16> to tensor<256x512xbf16>
  %1 = linalg.copy ins(%0 : tensor<256x512xbf16>) outs(%out : tensor<256x512xbf16>) -> tensor<256x512xbf16>
  return %1 : tensor<256x512xbf16>
}
func.func private @matmul(%x: tensor<256x512xbf16>, %w: tensor<768x512xbf16>, %out: tensor<256x768xf32>) -> tensor<256x768xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<256x768xf32>) -> tensor<256x768xf32>
  %1 = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<256x512xbf16>, tensor<768x512xbf16>) outs(%0 : tensor<256x768xf32>) {
  ^bb0(%a: bf16, %b: bf16, %t: f32):
    %l = arith.extf %a : bf16 to f32
    %r = arith.extf %b : bf16 to f32
    %2 = arith.mulf %l, %r : f32
    %3 = arith.addf %t, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<256x768xf32>
  return %1 : tensor<256x768xf32>
}

// -----

// A scan reads a part that begins anywhere: rows that threads hold do.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @part
// CHECK: call @scan_1(%arg0
// CHECK: func.func private @scan_1(%[[X:.*]]: tensor<64x100xf32>
// CHECK: %[[P:.*]] = tensor.extract_slice %[[X]][0, 3]
// CHECK-NOT: linalg.copy
// CHECK: tm_tensor.scan {{.*}} ins(%[[P]]
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call @
func.func @main(%x: tensor<64x100xf32>) -> tensor<64x50xf32> {
  %e = tensor.empty() : tensor<64x50xf32>
  %p = call @part(%x, %e) : (tensor<64x100xf32>, tensor<64x50xf32>) -> tensor<64x50xf32>
  %s = call @scan(%p, %e) : (tensor<64x50xf32>, tensor<64x50xf32>) -> tensor<64x50xf32>
  return %s : tensor<64x50xf32>
}
func.func private @part(%x: tensor<64x100xf32>, %out: tensor<64x50xf32>) -> tensor<64x50xf32> {
  %0 = tensor.extract_slice %x[0, 3] [64, 50] [1, 1] : tensor<64x100xf32> to tensor<64x50xf32>
  %1 = linalg.copy ins(%0 : tensor<64x50xf32>) outs(%out : tensor<64x50xf32>) -> tensor<64x50xf32>
  return %1 : tensor<64x50xf32>
}
func.func private @scan(%x: tensor<64x50xf32>, %out: tensor<64x50xf32>) -> tensor<64x50xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.fill ins(%cst : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%out : tensor<64x50xf32>) -> tensor<64x50xf32>
  %2:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x50xf32>) outs(%1, %0 : tensor<64x50xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %3 = arith.addf %a, %b : f32
    tm_tensor.yield %3 : f32
  } -> tensor<64x50xf32>, tensor<64xf32>
  return %2#0 : tensor<64x50xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d1)>

// A column of few numbers is read by both products where it lies.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @part
// CHECK-COUNT-2: call @matmul_1(%arg2, 
// CHECK-NOT: call @
// CHECK: func.func private @matmul_1(%[[Y:.*]]: tensor<4x512xbf16>
// CHECK: tensor.extract_slice %[[Y]][0, 0] [4, 1] [1, 1]
module {
  func.func @main(%x: tensor<4x1856xbf16>, %z: tensor<4x1856xbf16>, %y: tensor<4x512xbf16>) -> (tensor<1856xf32>, tensor<1856xf32>) {
    %p = tensor.empty() : tensor<4xbf16>
    %c = call @part(%y, %p) : (tensor<4x512xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
    %e = tensor.empty() : tensor<1856xf32>
    %a = call @matmul(%x, %c, %e) : (tensor<4x1856xbf16>, tensor<4xbf16>, tensor<1856xf32>) -> tensor<1856xf32>
    %f = tensor.empty() : tensor<1856xf32>
    %b = call @matmul(%z, %c, %f) : (tensor<4x1856xbf16>, tensor<4xbf16>, tensor<1856xf32>) -> tensor<1856xf32>
    return %a, %b : tensor<1856xf32>, tensor<1856xf32>
  }
  func.func private @part(%y: tensor<4x512xbf16>, %o: tensor<4xbf16>) -> tensor<4xbf16> {
    %s = tensor.extract_slice %y[0, 0] [4, 1] [1, 1] : tensor<4x512xbf16> to tensor<4xbf16>
    %c = linalg.copy ins(%s : tensor<4xbf16>) outs(%o : tensor<4xbf16>) -> tensor<4xbf16>
    return %c : tensor<4xbf16>
  }
  func.func private @matmul(%x: tensor<4x1856xbf16>, %c: tensor<4xbf16>, %o: tensor<1856xf32>) -> tensor<1856xf32> {
    %zero = arith.constant 0.0 : f32
    %z = linalg.fill ins(%zero : f32) outs(%o : tensor<1856xf32>) -> tensor<1856xf32>
    %r = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["reduction", "parallel"]} ins(%x, %c : tensor<4x1856xbf16>, tensor<4xbf16>) outs(%z : tensor<1856xf32>) {
    ^bb0(%a: bf16, %b: bf16, %t: f32):
      %v = arith.extf %a : bf16 to f32
      %w = arith.extf %b : bf16 to f32
      %m = arith.mulf %v, %w : f32
      %y = arith.addf %m, %t : f32
      linalg.yield %y : f32
    } -> tensor<1856xf32>
    return %r : tensor<1856xf32>
  }
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#columns = affine_map<(r, c) -> (c)>
#rows = affine_map<(r, c) -> (r)>

// A row of a matrix lies as a tensor of its own: all who read it read it there, however long it is.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @part
// CHECK: call @weighed_1(%arg2, %arg0
// CHECK: call @weighed_1(%arg2, %arg1
// CHECK: call @added_1(%arg2, %arg1
// CHECK-NOT: call @
// CHECK: func.func private @added_1(
// CHECK: tensor.extract_slice %{{.*}}[1, 0] [1, 9216] [1, 1]
// CHECK: func.func private @weighed_1(
// CHECK: tensor.extract_slice %{{.*}}[1, 0] [1, 9216] [1, 1]
// CPU-LABEL: func.func @main
// CPU: call @part
module {
  func.func @main(%x: tensor<64x9216xf32>, %z: tensor<64x9216xf32>, %y: tensor<4x9216xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x9216xf32>) {
    %p = tensor.empty() : tensor<9216xf32>
    %c = call @part(%y, %p) : (tensor<4x9216xf32>, tensor<9216xf32>) -> tensor<9216xf32>
    %e = tensor.empty() : tensor<64xf32>
    %a = call @weighed(%x, %c, %e) : (tensor<64x9216xf32>, tensor<9216xf32>, tensor<64xf32>) -> tensor<64xf32>
    %f = tensor.empty() : tensor<64xf32>
    %b = call @weighed(%z, %c, %f) : (tensor<64x9216xf32>, tensor<9216xf32>, tensor<64xf32>) -> tensor<64xf32>
    %g = tensor.empty() : tensor<64x9216xf32>
    %d = call @added(%z, %c, %g) : (tensor<64x9216xf32>, tensor<9216xf32>, tensor<64x9216xf32>) -> tensor<64x9216xf32>
    return %a, %b, %d : tensor<64xf32>, tensor<64xf32>, tensor<64x9216xf32>
  }
  func.func private @part(%y: tensor<4x9216xf32>, %o: tensor<9216xf32>) -> tensor<9216xf32> {
    %s = tensor.extract_slice %y[1, 0] [1, 9216] [1, 1] : tensor<4x9216xf32> to tensor<9216xf32>
    %c = linalg.copy ins(%s : tensor<9216xf32>) outs(%o : tensor<9216xf32>) -> tensor<9216xf32>
    return %c : tensor<9216xf32>
  }
  func.func private @weighed(%x: tensor<64x9216xf32>, %c: tensor<9216xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
    %zero = arith.constant 0.0 : f32
    %z = linalg.fill ins(%zero : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
    %r = linalg.generic {indexing_maps = [#points, #columns, #rows], iterator_types = ["parallel", "reduction"]} ins(%x, %c : tensor<64x9216xf32>, tensor<9216xf32>) outs(%z : tensor<64xf32>) {
    ^bb0(%a: f32, %b: f32, %t: f32):
      %d = arith.addf %a, %b : f32
      %m = math.absf %d : f32
      %y = arith.addf %m, %t : f32
      linalg.yield %y : f32
    } -> tensor<64xf32>
    return %r : tensor<64xf32>
  }
  func.func private @added(%x: tensor<64x9216xf32>, %c: tensor<9216xf32>, %o: tensor<64x9216xf32>) -> tensor<64x9216xf32> {
    %r = linalg.generic {indexing_maps = [#points, #columns, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %c : tensor<64x9216xf32>, tensor<9216xf32>) outs(%o : tensor<64x9216xf32>) {
    ^bb0(%a: f32, %b: f32, %t: f32):
      %d = arith.addf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<64x9216xf32>
    return %r : tensor<64x9216xf32>
  }
}
