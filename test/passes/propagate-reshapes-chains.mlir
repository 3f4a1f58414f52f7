// RUN: inferno-opt %s -p propagate-reshapes | FileCheck %s

#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

/// A size of 1 that comes and goes: one expansion, which what follows is computed before.
// CHECK-LABEL: func.func @unit
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<6x7x9xf32>)
// CHECK: %[[Y:.*]] = tensor.expand_shape %[[R]] {{\[}}[0, 1], [2], [3]] output_shape [2, 3, 7, 9]
// CHECK-NEXT: return %[[Y]]
func.func @unit(%x: tensor<6x7x9xf32>) -> tensor<2x3x7x9xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2], [3, 4]] output_shape [2, 3, 7, 1, 9] : tensor<6x7x9xf32> into tensor<2x3x7x1x9xf32>
  %1 = tensor.collapse_shape %0 [[0], [1], [2, 3], [4]] : tensor<2x3x7x1x9xf32> into tensor<2x3x7x9xf32>
  %e = tensor.empty() : tensor<2x3x7x9xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x3x7x9xf32>) outs(%e : tensor<2x3x7x9xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<2x3x7x9xf32>
  return %2 : tensor<2x3x7x9xf32>
}

/// Several in a row become one, or none; sizes of 1 at the ends belong to a neighbour.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: return %arg0
// CHECK-LABEL: func.func @down
// CHECK-NEXT: %[[R:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1, 2], [3, 4]] : tensor<1x2x3x4x1xf32> into tensor<6x4xf32>
// CHECK-NEXT: return %[[R]]
func.func @chain(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [6, 1, 4] : tensor<6x4xf32> into tensor<6x1x4xf32>
  %2 = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [2, 3, 1, 4] : tensor<6x1x4xf32> into tensor<2x3x1x4xf32>
  %3 = tensor.collapse_shape %2 [[0], [1, 2], [3]] : tensor<2x3x1x4xf32> into tensor<2x3x4xf32>
  return %3 : tensor<2x3x4xf32>
}
func.func @down(%x: tensor<1x2x3x4x1xf32>) -> tensor<6x4xf32> {
  %0 = tensor.collapse_shape %x [[0, 1], [2, 3, 4]] : tensor<1x2x3x4x1xf32> into tensor<2x12xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [2, 3, 4] : tensor<2x12xf32> into tensor<2x3x4xf32>
  %2 = tensor.collapse_shape %1 [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  return %2 : tensor<6x4xf32>
}

/// Left alone: shapes of which neither refines the other, sizes that are not known, and no elements.
// CHECK-LABEL: func.func @across
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
// CHECK-LABEL: func.func @dynamic
// CHECK: tensor.expand_shape
// CHECK: tensor.collapse_shape
// CHECK-LABEL: func.func @no_elements
// CHECK: tensor.expand_shape
// CHECK: tensor.collapse_shape
func.func @across(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [3, 8] : tensor<24xf32> into tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}
func.func @dynamic(%x: tensor<?x9xf32>, %n: index) -> tensor<?x3x9xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [%n, 3, 1, 9] : tensor<?x9xf32> into tensor<?x3x1x9xf32>
  %1 = tensor.collapse_shape %0 [[0], [1, 2], [3]] : tensor<?x3x1x9xf32> into tensor<?x3x9xf32>
  return %1 : tensor<?x3x9xf32>
}
func.func @no_elements(%x: tensor<0x9xf32>) -> tensor<0x3x9xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [0, 3, 1, 9] : tensor<0x9xf32> into tensor<0x3x1x9xf32>
  %1 = tensor.collapse_shape %0 [[0], [1, 2], [3]] : tensor<0x3x1x9xf32> into tensor<0x3x9xf32>
  return %1 : tensor<0x3x9xf32>
}

/// A batch of transposes, flattened: the transpose of what is flattened.  Not where the batch itself is moved, where the
/// transpose is read by something else too, or where something is computed.
// CHECK-LABEL: func.func @copy
// CHECK-NEXT: %[[F:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1], [2], [3]] : tensor<2x3x5x7xf32> into tensor<6x5x7xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[F]] : tensor<6x5x7xf32>) outs(%{{.*}} : tensor<6x7x5xf32>)
// CHECK: return %[[T]]
// CHECK-LABEL: func.func @moved_batch
// CHECK: linalg.generic {{.*}} ins(%arg0
// CHECK: tensor.collapse_shape
// CHECK-LABEL: func.func @read_again
// CHECK: linalg.generic {{.*}} ins(%arg0
// CHECK: tensor.collapse_shape
// CHECK-LABEL: func.func @computed
// CHECK: linalg.generic {{.*}} ins(%arg0
// CHECK: tensor.collapse_shape
func.func @copy(%x: tensor<2x3x5x7xf32>) -> tensor<6x7x5xf32> {
  %e = tensor.empty() : tensor<2x3x7x5xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x3x5x7xf32>) outs(%e : tensor<2x3x7x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x7x5xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<2x3x7x5xf32> into tensor<6x7x5xf32>
  return %1 : tensor<6x7x5xf32>
}
func.func @moved_batch(%x: tensor<2x5x3x7xf32>) -> tensor<6x5x7xf32> {
  %e = tensor.empty() : tensor<2x3x5x7xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x5x3x7xf32>) outs(%e : tensor<2x3x5x7xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x5x7xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<2x3x5x7xf32> into tensor<6x5x7xf32>
  return %1 : tensor<6x5x7xf32>
}
func.func @read_again(%x: tensor<2x3x5x7xf32>) -> (tensor<6x7x5xf32>, tensor<2x3x7x5xf32>) {
  %e = tensor.empty() : tensor<2x3x7x5xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3, d2)>, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x3x5x7xf32>) outs(%e : tensor<2x3x7x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x7x5xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<2x3x7x5xf32> into tensor<6x7x5xf32>
  return %1, %0 : tensor<6x7x5xf32>, tensor<2x3x7x5xf32>
}
func.func @computed(%x: tensor<2x3x5x7xf32>) -> tensor<6x5x7xf32> {
  %e = tensor.empty() : tensor<2x3x5x7xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x3x5x7xf32>) outs(%e : tensor<2x3x5x7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<2x3x5x7xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2], [3]] : tensor<2x3x5x7xf32> into tensor<6x5x7xf32>
  return %1 : tensor<6x5x7xf32>
}
