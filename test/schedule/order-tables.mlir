// RUN: inferno-opt %s --split-input-file -p 'order-tables{target=sm_90a always=1}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'order-tables{target=sm_90a}' | FileCheck %s --check-prefix=DEFAULT

// An image of twice the size with channels innermost, of one that has its columns there: the small one is transposed first, unless it is so small that
// another launch takes longer.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = call @transpose(%arg0, %{{.*}}) {{.*}} : (tensor<32x16x16xbf16>, tensor<16x16x32xbf16>) -> tensor<16x16x32xbf16>
// CHECK: call @[[K:.*]](%[[T]], %{{.*}}) {{.*}} : (tensor<16x16x32xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
// CHECK: func.func private @[[K]]
// CHECK: tensor.extract %{{.*}}[%{{.*}}, %{{.*}}, %[[C:.*]]] : tensor<16x16x32xbf16>
// DEFAULT-LABEL: func.func @main
// DEFAULT-COUNT-1: call @
// DEFAULT-NOT: call @
#i = affine_map<(y, x, c) -> (y, x, c)>
module {
  func.func @main(%image: tensor<32x16x16xbf16>) -> tensor<32x32x32xbf16> {
    %e = tensor.empty() : tensor<32x32x32xbf16>
    %0 = call @gather(%image, %e) {inferno.source = ["up"]} : (tensor<32x16x16xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
  func.func private @gather(%image: tensor<32x16x16xbf16>, %o: tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16> {
    %c2 = arith.constant 2 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<32x32x32xbf16>) {
    ^bb0(%out: bf16):
      %y = linalg.index 0 : index
      %x = linalg.index 1 : index
      %c = linalg.index 2 : index
      %h = arith.divui %y, %c2 : index
      %w = arith.divui %x, %c2 : index
      %v = tensor.extract %image[%c, %h, %w] : tensor<32x16x16xbf16>
      linalg.yield %v : bf16
    } -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
}

// -----

// Of half the size: what is made is less, and is transposed.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:.*]](%arg0, %{{.*}}) {{.*}} : (tensor<32x64x64xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
// CHECK: call @transpose(%[[R]], %{{.*}})
// DEFAULT-LABEL: func.func @main
#i = affine_map<(y, x, c) -> (y, x, c)>
module {
  func.func @main(%image: tensor<32x64x64xbf16>) -> tensor<32x32x32xbf16> {
    %e = tensor.empty() : tensor<32x32x32xbf16>
    %0 = call @gather(%image, %e) {inferno.source = ["down"]} : (tensor<32x64x64xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
  func.func private @gather(%image: tensor<32x64x64xbf16>, %o: tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16> {
    %c2 = arith.constant 2 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<32x32x32xbf16>) {
    ^bb0(%out: bf16):
      %y = linalg.index 0 : index
      %x = linalg.index 1 : index
      %c = linalg.index 2 : index
      %h = arith.muli %y, %c2 : index
      %w = arith.muli %x, %c2 : index
      %v = tensor.extract %image[%c, %h, %w] : tensor<32x64x64xbf16>
      linalg.yield %v : bf16
    } -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
}

// -----

// Channels that are picked by numbers of the program's may be anywhere: side by side in memory they are no nearer to each other.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: call @
// CHECK-NOT: call @
// DEFAULT-LABEL: func.func @main
#i = affine_map<(y, c) -> (y, c)>
module {
  func.func @main(%image: tensor<32x64xbf16>, %which: tensor<32xi64>) -> tensor<64x32xbf16> {
    %e = tensor.empty() : tensor<64x32xbf16>
    %0 = call @gather(%image, %which, %e) : (tensor<32x64xbf16>, tensor<32xi64>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
    return %0 : tensor<64x32xbf16>
  }
  func.func private @gather(%image: tensor<32x64xbf16>, %which: tensor<32xi64>, %o: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
    %0 = linalg.generic {indexing_maps = [affine_map<(y, c) -> (c)>, #i], iterator_types = ["parallel", "parallel"]} ins(%which : tensor<32xi64>) outs(%o : tensor<64x32xbf16>) {
    ^bb0(%at: i64, %out: bf16):
      %y = linalg.index 0 : index
      %c = arith.index_cast %at : i64 to index
      %v = tensor.extract %image[%c, %y] : tensor<32x64xbf16>
      linalg.yield %v : bf16
    } -> tensor<64x32xbf16>
    return %0 : tensor<64x32xbf16>
  }
}

// -----

// The image is there with channels innermost already.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = call @transpose(%arg0, %{{.*}})
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: call @{{.*}}gather(%[[T]], %{{.*}})
// CHECK-NOT: call @
// DEFAULT-LABEL: func.func @main
#i = affine_map<(y, x, c) -> (y, x, c)>
module {
  func.func @main(%image: tensor<32x16x16xbf16>) -> (tensor<32x32x32xbf16>, tensor<16x16x32xbf16>) {
    %t = tensor.empty() : tensor<16x16x32xbf16>
    %1 = call @transpose(%image, %t) : (tensor<32x16x16xbf16>, tensor<16x16x32xbf16>) -> tensor<16x16x32xbf16>
    %e = tensor.empty() : tensor<32x32x32xbf16>
    %0 = call @gather(%image, %e) : (tensor<32x16x16xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
    return %0, %1 : tensor<32x32x32xbf16>, tensor<16x16x32xbf16>
  }
  func.func private @transpose(%image: tensor<32x16x16xbf16>, %o: tensor<16x16x32xbf16>) -> tensor<16x16x32xbf16> {
    %0 = linalg.generic {indexing_maps = [affine_map<(y, x, c) -> (c, y, x)>, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%image : tensor<32x16x16xbf16>) outs(%o : tensor<16x16x32xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<16x16x32xbf16>
    return %0 : tensor<16x16x32xbf16>
  }
  func.func private @gather(%image: tensor<32x16x16xbf16>, %o: tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16> {
    %c2 = arith.constant 2 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<32x32x32xbf16>) {
    ^bb0(%out: bf16):
      %y = linalg.index 0 : index
      %x = linalg.index 1 : index
      %c = linalg.index 2 : index
      %h = arith.divui %y, %c2 : index
      %w = arith.divui %x, %c2 : index
      %v = tensor.extract %image[%c, %h, %w] : tensor<32x16x16xbf16>
      linalg.yield %v : bf16
    } -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
}

// -----

// An image that is gathered from, and made by such a gathering itself, is there with channels innermost already: also once what makes it is replaced.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @transpose{{.*}}(%arg0, %{{.*}})
// CHECK: %[[B:.*]] = call @{{.*}}gather{{.*}}(%[[A]], %{{.*}})
// CHECK: %[[T:.*]] = call @transpose{{.*}}(%[[B]], %{{.*}})
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: call @{{.*}}gather{{.*}}(%[[T]], %{{.*}})
// CHECK-NOT: call @
// DEFAULT-LABEL: func.func @main
#i = affine_map<(y, x, c) -> (y, x, c)>
module {
  func.func @main(%image: tensor<32x16x16xbf16>) -> (tensor<64x64x32xbf16>, tensor<32x32x32xbf16>) {
    %e = tensor.empty() : tensor<32x32x32xbf16>
    %0 = call @up(%image, %e) {inferno.source = ["up"]} : (tensor<32x16x16xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
    %1 = call @transpose(%0, %e) : (tensor<32x32x32xbf16>, tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16>
    %f = tensor.empty() : tensor<64x64x32xbf16>
    %2 = call @gather(%0, %f) : (tensor<32x32x32xbf16>, tensor<64x64x32xbf16>) -> tensor<64x64x32xbf16>
    return %2, %1 : tensor<64x64x32xbf16>, tensor<32x32x32xbf16>
  }
  func.func private @transpose(%image: tensor<32x32x32xbf16>, %o: tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16> {
    %0 = linalg.generic {indexing_maps = [affine_map<(y, x, c) -> (c, y, x)>, #i], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%image : tensor<32x32x32xbf16>) outs(%o : tensor<32x32x32xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
  func.func private @up(%image: tensor<32x16x16xbf16>, %o: tensor<32x32x32xbf16>) -> tensor<32x32x32xbf16> {
    %c2 = arith.constant 2 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<32x32x32xbf16>) {
    ^bb0(%out: bf16):
      %y = linalg.index 0 : index
      %x = linalg.index 1 : index
      %c = linalg.index 2 : index
      %h = arith.divui %y, %c2 : index
      %w = arith.divui %x, %c2 : index
      %v = tensor.extract %image[%c, %h, %w] : tensor<32x16x16xbf16>
      linalg.yield %v : bf16
    } -> tensor<32x32x32xbf16>
    return %0 : tensor<32x32x32xbf16>
  }
  func.func private @gather(%image: tensor<32x32x32xbf16>, %o: tensor<64x64x32xbf16>) -> tensor<64x64x32xbf16> {
    %c2 = arith.constant 2 : index
    %0 = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel", "parallel"]} outs(%o : tensor<64x64x32xbf16>) {
    ^bb0(%out: bf16):
      %y = linalg.index 0 : index
      %x = linalg.index 1 : index
      %c = linalg.index 2 : index
      %h = arith.divui %y, %c2 : index
      %w = arith.divui %x, %c2 : index
      %v = tensor.extract %image[%c, %h, %w] : tensor<32x32x32xbf16>
      linalg.yield %v : bf16
    } -> tensor<64x64x32xbf16>
    return %0 : tensor<64x64x32xbf16>
  }
}
