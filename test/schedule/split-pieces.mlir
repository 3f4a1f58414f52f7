// RUN: inferno-opt %s --split-input-file -p 'split-pieces{target=sm_90a always=1}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'split-pieces{target=sm_90a}' | FileCheck %s --check-prefix=DEFAULT

// Rows of two images, channels innermost, take turns in one whose places are innermost: they do so with channels innermost, and a transpose follows.
// CHECK-LABEL: func.func @main
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x64x16xbf16>
// CHECK: %[[P:.*]] = call @[[PIECES:.*]](%arg0, %arg1, %[[E]])
// CHECK: call @transpose(%[[P]], %{{.*}}) {{.*}} : (tensor<2x64x16xbf16>, tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
// CHECK: func.func private @[[PIECES]]
// CHECK: scf.if
// CHECK: -> tensor<2x64x16xbf16>
// CHECK: func.func private @transpose
// CHECK-NOT: scf.if
// DEFAULT-LABEL: func.func @main
// DEFAULT-COUNT-1: call @
// DEFAULT-NOT: call @
#i = affine_map<(n, c, x) -> (n, c, x)>
module {
  func.func @main(%a: tensor<2x32x16xbf16>, %b: tensor<2x32x16xbf16>) -> tensor<2x16x64xbf16> {
    %e = tensor.empty() : tensor<2x16x64xbf16>
    %0 = call @pieces(%a, %b, %e) {inferno.source = ["deconv"]} : (tensor<2x32x16xbf16>, tensor<2x32x16xbf16>, tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
    return %0 : tensor<2x16x64xbf16>
  }
  func.func private @pieces(%a: tensor<2x32x16xbf16>, %b: tensor<2x32x16xbf16>, %o: tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16> {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<2x16x64xbf16>) {
    ^bb0(%out: bf16):
      %n = linalg.index 0 : index
      %c = linalg.index 1 : index
      %x = linalg.index 2 : index
      %turn = arith.remui %x, %c2 : index
      %at = arith.divui %x, %c2 : index
      %first = arith.cmpi ult, %turn, %c1 : index
      %r = scf.if %first -> (bf16) {
        %v = tensor.extract %a[%n, %at, %c] : tensor<2x32x16xbf16>
        scf.yield %v : bf16
      } else {
        %v = tensor.extract %b[%n, %at, %c] : tensor<2x32x16xbf16>
        scf.yield %v : bf16
      }
      linalg.yield %r : bf16
    } -> tensor<2x16x64xbf16>
    return %0 : tensor<2x16x64xbf16>
  }
}

// -----

// Pieces in the order of the result are put together where they are.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: call @
// CHECK-NOT: call @
// DEFAULT-LABEL: func.func @main
#i = affine_map<(n, c, x) -> (n, c, x)>
module {
  func.func @main(%a: tensor<2x16x32xbf16>, %b: tensor<2x16x32xbf16>) -> tensor<2x16x64xbf16> {
    %e = tensor.empty() : tensor<2x16x64xbf16>
    %0 = call @pieces(%a, %b, %e) : (tensor<2x16x32xbf16>, tensor<2x16x32xbf16>, tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
    return %0 : tensor<2x16x64xbf16>
  }
  func.func private @pieces(%a: tensor<2x16x32xbf16>, %b: tensor<2x16x32xbf16>, %o: tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16> {
    %c32 = arith.constant 32 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<2x16x64xbf16>) {
    ^bb0(%out: bf16):
      %n = linalg.index 0 : index
      %c = linalg.index 1 : index
      %x = linalg.index 2 : index
      %first = arith.cmpi ult, %x, %c32 : index
      %r = scf.if %first -> (bf16) {
        %v = tensor.extract %a[%n, %c, %x] : tensor<2x16x32xbf16>
        scf.yield %v : bf16
      } else {
        %y = arith.subi %x, %c32 : index
        %v = tensor.extract %b[%n, %c, %y] : tensor<2x16x32xbf16>
        scf.yield %v : bf16
      }
      linalg.yield %r : bf16
    } -> tensor<2x16x64xbf16>
    return %0 : tensor<2x16x64xbf16>
  }
}
