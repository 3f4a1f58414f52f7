// RUN: inferno-opt %s --split-input-file -p 'split-padding{target=sm_90a}' | FileCheck %s

// No generator takes the padding of these, whose image is too narrow for the copy engine: it is a kernel, one for both calls. The second function
// also adds the image, and gets the padded one besides. A kernel with a schedule stays as it is.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = call @pieces(%arg0, %{{.*}}) {{.*}} : (tensor<1x6x7xf32>, tensor<1x8x7xf32>) -> tensor<1x8x7xf32>
// CHECK: call @conv(%[[P]], %arg1, %{{.*}}) {inferno.source = ["conv"]}
// CHECK: call @conv_addf(%arg0, %arg1, %[[P]], %{{.*}})
// CHECK: call @scheduled(%arg0, %arg1, %{{.*}})
// CHECK: func.func private @conv(%arg0: tensor<1x8x7xf32>
// CHECK-NOT: tensor.pad
// CHECK: func.func private @conv_addf(%arg0: tensor<1x6x7xf32>, %arg1: tensor<7x3x7xf32>, %arg2: tensor<1x8x7xf32>
// CHECK-NOT: tensor.pad
// CHECK: func.func private @scheduled(%arg0: tensor<1x6x7xf32>
// CHECK: tensor.pad
// CHECK: func.func private @pieces
#x = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#w = affine_map<(n, x, f, s, c) -> (f, s, c)>
#o = affine_map<(n, x, f, s, c) -> (n, x, f)>
#i = affine_map<(n, x, f) -> (n, x, f)>
module {
  func.func @main(%x: tensor<1x6x7xf32>, %w: tensor<7x3x7xf32>) -> (tensor<1x6x7xf32>, tensor<1x6x7xf32>, tensor<1x6x7xf32>) {
    %e = tensor.empty() : tensor<1x6x7xf32>
    %0 = call @conv(%x, %w, %e) {inferno.source = ["conv"]} : (tensor<1x6x7xf32>, tensor<7x3x7xf32>, tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    %1 = call @conv_addf(%x, %w, %e) : (tensor<1x6x7xf32>, tensor<7x3x7xf32>, tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    %2 = call @scheduled(%x, %w, %e) : (tensor<1x6x7xf32>, tensor<7x3x7xf32>, tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    return %0, %1, %2 : tensor<1x6x7xf32>, tensor<1x6x7xf32>, tensor<1x6x7xf32>
  }
  func.func private @conv(%x: tensor<1x6x7xf32>, %w: tensor<7x3x7xf32>, %o: tensor<1x6x7xf32>) -> tensor<1x6x7xf32> {
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index):
      tensor.yield %zero : f32
    } : tensor<1x6x7xf32> to tensor<1x8x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x8x7xf32>, tensor<7x3x7xf32>) outs(%f : tensor<1x6x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x6x7xf32>
    return %0 : tensor<1x6x7xf32>
  }
  func.func private @conv_addf(%x: tensor<1x6x7xf32>, %w: tensor<7x3x7xf32>, %o: tensor<1x6x7xf32>) -> tensor<1x6x7xf32> {
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index):
      tensor.yield %zero : f32
    } : tensor<1x6x7xf32> to tensor<1x8x7xf32>
    %e = tensor.empty() : tensor<1x6x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x8x7xf32>, tensor<7x3x7xf32>) outs(%f : tensor<1x6x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x6x7xf32>
    %1 = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0, %x : tensor<1x6x7xf32>, tensor<1x6x7xf32>) outs(%o : tensor<1x6x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    } -> tensor<1x6x7xf32>
    return %1 : tensor<1x6x7xf32>
  }
  func.func private @scheduled(%x: tensor<1x6x7xf32>, %w: tensor<7x3x7xf32>, %o: tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
      attributes {inferno.schedule = {few = 16384 : i64, generator = "universal", long = 1024 : i64, threads = 256 : i64}} {
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index):
      tensor.yield %zero : f32
    } : tensor<1x6x7xf32> to tensor<1x8x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x8x7xf32>, tensor<7x3x7xf32>) outs(%f : tensor<1x6x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x6x7xf32>
    return %0 : tensor<1x6x7xf32>
  }
}

// -----

// The padded image has sizes of its own.
// CHECK: func.func private @conv(%arg0: index
// CHECK-SAME: %{{.*}}: tensor<1x?x7xf32> {inferno.sizes = affine_map<()[s0] -> (1, s0 + 2, 7)>}, %{{.*}}: tensor<7x3x7xf32>, %{{.*}}: tensor<1x?x7xf32> {inferno.sizes = affine_map<()[s0] -> (1, s0, 7)>})
// CHECK-NOT: tensor.pad
#x = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#w = affine_map<(n, x, f, s, c) -> (f, s, c)>
#o = affine_map<(n, x, f, s, c) -> (n, x, f)>
#sizes = affine_map<()[s0] -> (1, s0, 7)>
module {
  func.func @main(%n: index {inferno.symbol = "n0", inferno.range = [2, 64]}, %x: tensor<1x?x7xf32> {inferno.sizes = #sizes}, %w: tensor<7x3x7xf32>) -> tensor<1x?x7xf32> {
    %e = tensor.empty(%n) : tensor<1x?x7xf32>
    %0 = call @conv(%n, %x, %w, %e) : (index, tensor<1x?x7xf32>, tensor<7x3x7xf32>, tensor<1x?x7xf32>) -> tensor<1x?x7xf32>
    return %0 : tensor<1x?x7xf32>
  }
  func.func private @conv(%n: index {inferno.symbol = "n0", inferno.range = [2, 64]}, %x: tensor<1x?x7xf32> {inferno.sizes = #sizes}, %w: tensor<7x3x7xf32>, %o: tensor<1x?x7xf32> {inferno.sizes = #sizes}) -> tensor<1x?x7xf32> {
    %zero = arith.constant 0.0 : f32
    %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index):
      tensor.yield %zero : f32
    } : tensor<1x?x7xf32> to tensor<1x?x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x?x7xf32>) -> tensor<1x?x7xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x?x7xf32>, tensor<7x3x7xf32>) outs(%f : tensor<1x?x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x?x7xf32>
    return %0 : tensor<1x?x7xf32>
  }
}

// -----

// The padded tensor is a part of an argument: both, the part and its padding, are in the kernel in front.
// CHECK: func.func @main(%arg0: tensor<1x6x9xf32>
// CHECK: %[[P:.*]] = call @{{.*}}(%arg0, %{{.*}}) {{.*}} : (tensor<1x6x9xf32>, tensor<1x8x7xf32>) -> tensor<1x8x7xf32>
// CHECK: call @conv(%[[P]], %arg1, %{{.*}})
// CHECK: func.func private @conv(%arg0: tensor<1x8x7xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK-NOT: tensor.pad
// CHECK: return
#x = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#w = affine_map<(n, x, f, s, c) -> (f, s, c)>
#o = affine_map<(n, x, f, s, c) -> (n, x, f)>
module {
  func.func @main(%x: tensor<1x6x9xf32>, %w: tensor<7x3x7xf32>) -> tensor<1x6x7xf32> {
    %e = tensor.empty() : tensor<1x6x7xf32>
    %0 = call @conv(%x, %w, %e) {inferno.source = ["conv"]} : (tensor<1x6x9xf32>, tensor<7x3x7xf32>, tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    return %0 : tensor<1x6x7xf32>
  }
  func.func private @conv(%x: tensor<1x6x9xf32>, %w: tensor<7x3x7xf32>, %o: tensor<1x6x7xf32>) -> tensor<1x6x7xf32> {
    %zero = arith.constant 0.0 : f32
    %y = tensor.extract_slice %x[0, 0, 2] [1, 6, 7] [1, 1, 1] : tensor<1x6x9xf32> to tensor<1x6x7xf32>
    %p = tensor.pad %y low[0, 1, 0] high[0, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index):
      tensor.yield %zero : f32
    } : tensor<1x6x7xf32> to tensor<1x8x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x6x7xf32>) -> tensor<1x6x7xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x8x7xf32>, tensor<7x3x7xf32>) outs(%f : tensor<1x6x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %m = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x6x7xf32>
    return %0 : tensor<1x6x7xf32>
  }
}

// -----

// A part whose size varies is as long as the program says.
// CHECK: func.func @main(%[[N:.*]]: index {{{.*}}}, %[[X:.*]]: tensor<1x?x9xf32>
// CHECK: %[[P:.*]] = call @pieces({{.*}}, %[[X]], %{{.*}}) {{.*}} -> tensor<1x?x7xf32>
// CHECK: call @conv(%[[N]], %[[P]], %{{.*}})
// CHECK: func.func private @conv(%arg0: index
// CHECK-SAME: tensor<1x?x7xf32> {inferno.sizes = affine_map<()[s0] -> (1, s0 + 1, 7)>}
// CHECK-NOT: tensor.extract_slice
// CHECK-NOT: tensor.pad
// CHECK: func.func private @pieces(
// CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %{{c2.*}} : index
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %{{.*}}, %[[AT]]] : tensor<1x?x9xf32>
#x = affine_map<(n, x, f, s, c) -> (n, x + s, c)>
#w = affine_map<(n, x, f, s, c) -> (f, s, c)>
#o = affine_map<(n, x, f, s, c) -> (n, x, f)>
#whole = affine_map<()[s0] -> (1, s0, 9)>
#result = affine_map<()[s0] -> (1, s0 - 1, 7)>
module {
  func.func @main(%n: index {inferno.symbol = "n0", inferno.range = [2, 64]}, %x: tensor<1x?x9xf32> {inferno.sizes = #whole}, %w: tensor<7x3x7xf32>) -> tensor<1x?x7xf32> {
    %one = arith.constant 1 : index
    %m = arith.subi %n, %one : index
    %e = tensor.empty(%m) : tensor<1x?x7xf32>
    %0 = call @conv(%n, %x, %w, %e) : (index, tensor<1x?x9xf32>, tensor<7x3x7xf32>, tensor<1x?x7xf32>) -> tensor<1x?x7xf32>
    return %0 : tensor<1x?x7xf32>
  }
  func.func private @conv(%n: index {inferno.symbol = "n0", inferno.range = [2, 64]}, %x: tensor<1x?x9xf32> {inferno.sizes = #whole}, %w: tensor<7x3x7xf32>, %o: tensor<1x?x7xf32> {inferno.sizes = #result}) -> tensor<1x?x7xf32> {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : index
    %m = arith.subi %n, %one : index
    %y = tensor.extract_slice %x[0, 0, 2] [1, %m, 7] [1, 1, 1] : tensor<1x?x9xf32> to tensor<1x?x7xf32>
    %p = tensor.pad %y low[0, 1, 0] high[0, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index):
      tensor.yield %zero : f32
    } : tensor<1x?x7xf32> to tensor<1x?x7xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x?x7xf32>) -> tensor<1x?x7xf32>
    %0 = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<1x?x7xf32>, tensor<7x3x7xf32>) outs(%f : tensor<1x?x7xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %q = arith.mulf %a, %b {inferno.convolution} : f32
      %s = arith.addf %c, %q : f32
      linalg.yield %s : f32
    } -> tensor<1x?x7xf32>
    return %0 : tensor<1x?x7xf32>
  }
}
