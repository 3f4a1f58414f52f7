// RUN: inferno-opt %s -p transpose-returned --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>
#rows = affine_map<(r, c) -> (r)>

// What is summed and returned transposed is made transposed.
// CHECK: #[[TRANSPOSED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[TRANSPOSED]]]{{.*}} outs(%{{.*}} : tensor<6x4xf32>)
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[TRANSPOSED]], #{{.*}}]{{.*}} ins(%{{.*}} : tensor<6x4xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return %[[S]], %[[Y]]
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x6xf32>, %o: tensor<4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>) {
    %e = tensor.empty() : tensor<4x6xf32>
    %t = tensor.empty() : tensor<6x4xf32>
    %y = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = math.tanh %a : f32
      linalg.yield %m : f32
    } -> tensor<4x6xf32>
    %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<4x6xf32>) outs(%o : tensor<4xf32>) {
    ^bb0(%a: f32, %sum: f32):
      %m = arith.addf %a, %sum : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    %c = linalg.generic {indexing_maps = [#transposed, #points], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x6xf32>) outs(%t : tensor<6x4xf32>) {
    ^bb0(%a: f32, %old: f32):
      linalg.yield %a : f32
    } -> tensor<6x4xf32>
    return %s, %c : tensor<4xf32>, tensor<6x4xf32>
  }
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>
#rows = affine_map<(r, c) -> (r)>

// What is made of totals of rows is made as these lie, and so is what anything but a reduction reads.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: linalg.generic
// CHECK: return
// CHECK-LABEL: func.func @read
// CHECK-COUNT-3: linalg.generic
// CHECK: return
module attributes {inferno.expand_pieces} {
  func.func @main(%x: tensor<4x6xf32>, %o: tensor<4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>) {
    %e = tensor.empty() : tensor<4x6xf32>
    %t = tensor.empty() : tensor<6x4xf32>
    %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%o : tensor<4xf32>) {
    ^bb0(%a: f32, %sum: f32):
      %m = arith.maximumf %a, %sum : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    %y = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %r : tensor<4x6xf32>, tensor<4xf32>) outs(%e : tensor<4x6xf32>) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %m = arith.subf %a, %b : f32
      linalg.yield %m : f32
    } -> tensor<4x6xf32>
    %s = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<4x6xf32>) outs(%o : tensor<4xf32>) {
    ^bb0(%a: f32, %sum: f32):
      %m = arith.addf %a, %sum : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    %c = linalg.generic {indexing_maps = [#transposed, #points], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x6xf32>) outs(%t : tensor<6x4xf32>) {
    ^bb0(%a: f32, %old: f32):
      linalg.yield %a : f32
    } -> tensor<6x4xf32>
    return %s, %c : tensor<4xf32>, tensor<6x4xf32>
  }
  func.func @read(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<6x4xf32>) {
    %e = tensor.empty() : tensor<4x6xf32>
    %t = tensor.empty() : tensor<6x4xf32>
    %y = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = math.tanh %a : f32
      linalg.yield %m : f32
    } -> tensor<4x6xf32>
    %z = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
    ^bb0(%a: f32, %old: f32):
      %m = math.exp %a : f32
      linalg.yield %m : f32
    } -> tensor<4x6xf32>
    %c = linalg.generic {indexing_maps = [#transposed, #points], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x6xf32>) outs(%t : tensor<6x4xf32>) {
    ^bb0(%a: f32, %old: f32):
      linalg.yield %a : f32
    } -> tensor<6x4xf32>
    return %z, %c : tensor<4x6xf32>, tensor<6x4xf32>
  }
}
