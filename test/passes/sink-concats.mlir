// RUN: inferno-opt -p sink-concats %s --split-input-file | FileCheck %s

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#col = affine_map<(r, c) -> (c)>

// What is elementwise of two tensors side by side is computed of each, with its own half of the weights; a sum takes a term of each.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<8192x48xf32>, %[[Y:.*]]: tensor<8192x48xf32>, %[[W:.*]]: tensor<96xf32>
// CHECK-NOT: tensor.concat
// CHECK: %[[LOW:.*]] = tensor.extract_slice %[[W]][0] [48]
// CHECK: %[[HIGH:.*]] = tensor.extract_slice %[[W]][48] [48]
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[LOW]]
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[Y]], %[[HIGH]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] : tensor<8192x48xf32>, tensor<8192x48xf32>) outs(%{{.*}} : tensor<8192xf32>)
// CHECK: ^bb0(%[[P:.*]]: f32, %[[Q:.*]]: f32, %[[T:.*]]: f32):
// CHECK: %[[BOTH:.*]] = arith.addf %[[P]], %[[Q]]
// CHECK: arith.addf %[[BOTH]], %[[T]]
// CHECK: return %[[S]]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8192x48xf32>, %y: tensor<8192x48xf32>, %w: tensor<96xf32>) -> tensor<8192xf32> {
    %zero = arith.constant 0.0 : f32
    %c = tensor.concat dim(1) %x, %y : (tensor<8192x48xf32>, tensor<8192x48xf32>) -> tensor<8192x96xf32>
    %e = tensor.empty() : tensor<8192x96xf32>
    %m = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %w : tensor<8192x96xf32>, tensor<96xf32>)
        outs(%e : tensor<8192x96xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = arith.mulf %a, %b : f32
      linalg.yield %p : f32
    } -> tensor<8192x96xf32>
    %f = tensor.empty() : tensor<8192xf32>
    %i = linalg.fill ins(%zero : f32) outs(%f : tensor<8192xf32>) -> tensor<8192xf32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%m : tensor<8192x96xf32>) outs(%i : tensor<8192xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<8192xf32>
    return %s : tensor<8192xf32>
  }
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// In 16 bits the terms meet in float32, as a sum's do; the place of a maximum is not wanted, and goes.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor.concat
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<8192xbf16>)
// CHECK-COUNT-3: arith.extf
// CHECK-COUNT-2: arith.addf {{.*}} : f32
// CHECK: arith.truncf
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8192x48xbf16>, tensor<8192x48xbf16>) outs(%{{.*}} : tensor<8192xbf16>)
// CHECK-NOT: linalg.index
// CHECK-COUNT-2: arith.maximumf
// CHECK: return
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8192x48xbf16>, %y: tensor<8192x48xbf16>) -> (tensor<8192xbf16>, tensor<8192xbf16>) {
    %zero = arith.constant 0.0 : bf16
    %least = arith.constant 0xFF80 : bf16
    %none = arith.constant 0 : i64
    %c = tensor.concat dim(1) %x, %y : (tensor<8192x48xbf16>, tensor<8192x48xbf16>) -> tensor<8192x96xbf16>
    %f = tensor.empty() : tensor<8192xbf16>
    %g = tensor.empty() : tensor<8192xi64>
    %i = linalg.fill ins(%zero : bf16) outs(%f : tensor<8192xbf16>) -> tensor<8192xbf16>
    %j = linalg.fill ins(%least : bf16) outs(%f : tensor<8192xbf16>) -> tensor<8192xbf16>
    %k = linalg.fill ins(%none : i64) outs(%g : tensor<8192xi64>) -> tensor<8192xi64>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8192x96xbf16>) outs(%i : tensor<8192xbf16>) {
    ^bb0(%a: bf16, %t: bf16):
      %p = arith.addf %a, %t : bf16
      linalg.yield %p : bf16
    } -> tensor<8192xbf16>
    %m:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8192x96xbf16>)
        outs(%j, %k : tensor<8192xbf16>, tensor<8192xi64>) {
    ^bb0(%a: bf16, %t: bf16, %n: i64):
      %l = linalg.index 1 : index
      %here = arith.index_cast %l : index to i64
      %p = arith.maximumf %a, %t : bf16
      %more = arith.cmpf ogt, %a, %t : bf16
      %at = arith.select %more, %here, %n : i64
      linalg.yield %p, %at : bf16, i64
    } -> (tensor<8192xbf16>, tensor<8192xi64>)
    return %s, %m#0 : tensor<8192xbf16>, tensor<8192xbf16>
  }
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// It stays where its rows are few and its pieces are arguments, which kernels read side by side, too.
// CHECK-LABEL: func.func @main
// CHECK: tensor.concat
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x48xf32>, %y: tensor<4x48xf32>) -> tensor<4xf32> {
    %zero = arith.constant 0.0 : f32
    %c = tensor.concat dim(1) %x, %y : (tensor<4x48xf32>, tensor<4x48xf32>) -> tensor<4x96xf32>
    %f = tensor.empty() : tensor<4xf32>
    %i = linalg.fill ins(%zero : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<4x96xf32>) outs(%i : tensor<4xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<4xf32>
    return %s : tensor<4xf32>
  }
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#col = affine_map<(r, c) -> (c)>

// It stays where it is a result, where sums go over the other dimension and it is not large, where pieces differ in size, and where one is a part of what has longer rows.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: tensor.concat
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<8192x48xf32>, %y: tensor<8192x48xf32>, %z: tensor<8192x96xf32>)
      -> (tensor<8192xf32>, tensor<8192x96xf32>, tensor<96xf32>, tensor<8192xf32>, tensor<8192xf32>) {
    %zero = arith.constant 0.0 : f32
    %c = tensor.concat dim(1) %x, %y : (tensor<8192x48xf32>, tensor<8192x48xf32>) -> tensor<8192x96xf32>
    %d = tensor.concat dim(1) %y, %x : (tensor<8192x48xf32>, tensor<8192x48xf32>) -> tensor<8192x96xf32>
    %u = tensor.concat dim(1) %x, %z : (tensor<8192x48xf32>, tensor<8192x96xf32>) -> tensor<8192x144xf32>
    %part = tensor.extract_slice %z[0, 48] [8192, 48] [1, 1] : tensor<8192x96xf32> to tensor<8192x48xf32>
    %v = tensor.concat dim(1) %part, %x : (tensor<8192x48xf32>, tensor<8192x48xf32>) -> tensor<8192x96xf32>
    %f = tensor.empty() : tensor<8192xf32>
    %g = tensor.empty() : tensor<96xf32>
    %i = linalg.fill ins(%zero : f32) outs(%f : tensor<8192xf32>) -> tensor<8192xf32>
    %j = linalg.fill ins(%zero : f32) outs(%g : tensor<96xf32>) -> tensor<96xf32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<8192x96xf32>) outs(%i : tensor<8192xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<8192xf32>
    %r = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%d : tensor<8192x96xf32>) outs(%j : tensor<96xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<96xf32>
    %k = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%u : tensor<8192x144xf32>) outs(%i : tensor<8192xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<8192xf32>
    %l = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%v : tensor<8192x96xf32>) outs(%i : tensor<8192xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<8192xf32>
    return %s, %c, %r, %k, %l : tensor<8192xf32>, tensor<8192x96xf32>, tensor<96xf32>, tensor<8192xf32>, tensor<8192xf32>
  }
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#col = affine_map<(r, c) -> (c)>

// Of a large one the columns of each piece are reduced by themselves; what others read is put together behind that, and what is elementwise of it stays in pieces.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<16384x48xf32>, %[[Y:.*]]: tensor<16384x48xf32>, %[[W:.*]]: tensor<96xf32>
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<16384x48xf32>) outs(%{{.*}} : tensor<48xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<16384x48xf32>) outs(%{{.*}} : tensor<48xf32>)
// CHECK: %[[S:.*]] = tensor.concat dim(0) %[[A]], %[[B]]
// CHECK-NOT: tensor.concat
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[A]], %{{.*}} : tensor<48xf32>, tensor<48xf32>)
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[B]], %{{.*}} : tensor<48xf32>, tensor<48xf32>)
// CHECK: %[[M:.*]] = tensor.concat dim(0) %[[P]], %[[Q]]
// CHECK: return %[[S]], %[[M]]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<16384x48xf32>, %y: tensor<16384x48xf32>, %w: tensor<96xf32>) -> (tensor<96xf32>, tensor<96xf32>) {
    %zero = arith.constant 0.0 : f32
    %c = tensor.concat dim(1) %x, %y : (tensor<16384x48xf32>, tensor<16384x48xf32>) -> tensor<16384x96xf32>
    %f = tensor.empty() : tensor<96xf32>
    %i = linalg.fill ins(%zero : f32) outs(%f : tensor<96xf32>) -> tensor<96xf32>
    %s = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%c : tensor<16384x96xf32>) outs(%i : tensor<96xf32>) {
    ^bb0(%a: f32, %t: f32):
      %p = arith.addf %a, %t : f32
      linalg.yield %p : f32
    } -> tensor<96xf32>
    %m = linalg.generic {indexing_maps = [affine_map<(c) -> (c)>, affine_map<(c) -> (c)>, affine_map<(c) -> (c)>], iterator_types = ["parallel"]}
        ins(%s, %w : tensor<96xf32>, tensor<96xf32>) outs(%f : tensor<96xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = arith.mulf %a, %b : f32
      linalg.yield %p : f32
    } -> tensor<96xf32>
    return %s, %m : tensor<96xf32>, tensor<96xf32>
  }
}
