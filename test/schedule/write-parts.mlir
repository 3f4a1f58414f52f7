// RUN: inferno-opt -p 'write-parts{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'write-parts{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

// x[:, 1:] += y, and what is added is returned, too: one kernel, of which one result begins as a copy of x.

// CHECK-LABEL: func.func @main
// CHECK: %[[BOTH:.*]]:2 = call @add_put(%arg0, %arg1, %{{.*}}, %{{.*}})
// CHECK: return %[[BOTH]]#1, %[[BOTH]]#0
// CHECK: func.func private @add_put(%[[X:.*]]: tensor<8x17xf32>, %[[Y:.*]]: tensor<8x16xf32>, %[[SUM:.*]]: tensor<8x16xf32>, %[[NEW:.*]]: tensor<8x17xf32>)
// CHECK: %[[COPY:.*]] = linalg.copy {{.*}}ins(%[[X]] : tensor<8x17xf32>) outs(%[[NEW]] :
// CHECK: %[[TO:.*]] = tensor.extract_slice %[[COPY]][0, 1] [8, 16] [1, 1]
// CHECK: %[[MADE:.*]]:2 = linalg.generic {{.*}} outs(%[[SUM]], %[[TO]] :
// CHECK: %[[V:.*]] = arith.addf
// CHECK: linalg.yield %[[V]], %[[V]]
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[MADE]]#1 into %[[COPY]][0, 1] [8, 16] [1, 1]
// CHECK: return %[[MADE]]#0, %[[ALL]]
// CPU-LABEL: func.func @main
// CPU: call @add(
// CPU: call @put(
#id = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @main(%x: tensor<8x17xf32>, %y: tensor<8x16xf32>) -> (tensor<8x17xf32>, tensor<8x16xf32>) {
    %e = tensor.empty() : tensor<8x16xf32>
    %f = tensor.empty() : tensor<8x17xf32>
    %sum = call @add(%x, %y, %e) : (tensor<8x17xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %new = call @put(%sum, %x, %f) : (tensor<8x16xf32>, tensor<8x17xf32>, tensor<8x17xf32>) -> tensor<8x17xf32>
    return %new, %sum : tensor<8x17xf32>, tensor<8x16xf32>
  }
  func.func private @add(%x: tensor<8x17xf32>, %y: tensor<8x16xf32>, %to: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %part = tensor.extract_slice %x[0, 1] [8, 16] [1, 1] : tensor<8x17xf32> to tensor<8x16xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%part, %y : tensor<8x16xf32>, tensor<8x16xf32>) outs(%to : tensor<8x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    } -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
  func.func private @put(%new: tensor<8x16xf32>, %old: tensor<8x17xf32>, %to: tensor<8x17xf32>) -> tensor<8x17xf32> {
    %0 = linalg.copy ins(%old : tensor<8x17xf32>) outs(%to : tensor<8x17xf32>) -> tensor<8x17xf32>
    %1 = tensor.insert_slice %new into %0[0, 1] [8, 16] [1, 1] : tensor<8x16xf32> into tensor<8x17xf32>
    return %1 : tensor<8x17xf32>
  }
}

// -----

// x[:, 1:] = x[:, :16] * 2 reads elements that others write: first the part is computed, then it is stored by an elementwise kernel.

// CHECK-LABEL: func.func @main
// CHECK: %[[PART:.*]] = call @twice(%arg0,
// CHECK: call @put_{{[0-9]+}}(%[[PART]], %arg0,
// CHECK: func.func private @put_
// CHECK: %[[COPY:.*]] = linalg.copy
// CHECK: %[[TO:.*]] = tensor.extract_slice %[[COPY]][0, 1] [8, 16] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<8x16xf32>) outs(%[[TO]] :
// CHECK-NEXT: ^bb0(%[[V:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: linalg.yield %[[V]]
#id = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @main(%x: tensor<8x17xf32>) -> tensor<8x17xf32> {
    %e = tensor.empty() : tensor<8x16xf32>
    %f = tensor.empty() : tensor<8x17xf32>
    %part = call @twice(%x, %e) : (tensor<8x17xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %new = call @put(%part, %x, %f) : (tensor<8x16xf32>, tensor<8x17xf32>, tensor<8x17xf32>) -> tensor<8x17xf32>
    return %new : tensor<8x17xf32>
  }
  func.func private @twice(%x: tensor<8x17xf32>, %to: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %part = tensor.extract_slice %x[0, 0] [8, 16] [1, 1] : tensor<8x17xf32> to tensor<8x16xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%part : tensor<8x16xf32>) outs(%to : tensor<8x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    } -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
  func.func private @put(%new: tensor<8x16xf32>, %old: tensor<8x17xf32>, %to: tensor<8x17xf32>) -> tensor<8x17xf32> {
    %0 = linalg.copy ins(%old : tensor<8x17xf32>) outs(%to : tensor<8x17xf32>) -> tensor<8x17xf32>
    %1 = tensor.insert_slice %new into %0[0, 1] [8, 16] [1, 1] : tensor<8x16xf32> into tensor<8x17xf32>
    return %1 : tensor<8x17xf32>
  }
}

// -----

// A map's two results go to two parts of one tensor, one of them without a dimension of one element: one copy, and one operation into both.

// CHECK-LABEL: func.func @main
// CHECK: call @both_left_right(%arg1, %arg0, %{{.*}}) {{.*}}: (tensor<8xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK: func.func private @both_left_right
// CHECK: %[[COPY:.*]] = linalg.copy
// CHECK-NOT: linalg.copy
// CHECK-DAG: %[[LEFT:.*]] = tensor.extract_slice %[[COPY]][0, 0] [8, 1] [1, 1] : tensor<8x4xf32> to tensor<8xf32>
// CHECK-DAG: %[[RIGHT:.*]] = tensor.extract_slice %[[COPY]][0, 2] [8, 1] [1, 1] : tensor<8x4xf32> to tensor<8xf32>
// CHECK: %[[MADE:.*]]:2 = linalg.generic {{.*}} outs(%[[LEFT]], %[[RIGHT]] :
// CHECK: %[[ONE:.*]] = tensor.insert_slice %[[MADE]]#0 into %[[COPY]][0, 0] [8, 1] [1, 1]
// CHECK: %[[BOTH:.*]] = tensor.insert_slice %[[MADE]]#1 into %[[ONE]][0, 2] [8, 1] [1, 1]
// CHECK: return %[[BOTH]]
#id = affine_map<(d0) -> (d0)>
module {
  func.func @main(%x: tensor<8x4xf32>, %y: tensor<8xf32>) -> tensor<8x4xf32> {
    %e = tensor.empty() : tensor<8xf32>
    %f = tensor.empty() : tensor<8xf32>
    %g = tensor.empty() : tensor<8x4xf32>
    %h = tensor.empty() : tensor<8x4xf32>
    %made:2 = call @both(%y, %e, %f) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %a = tensor.expand_shape %made#0 [[0, 1]] output_shape [8, 1] : tensor<8xf32> into tensor<8x1xf32>
    %b = tensor.expand_shape %made#1 [[0, 1]] output_shape [8, 1] : tensor<8xf32> into tensor<8x1xf32>
    %one = call @left(%a, %x, %g) : (tensor<8x1xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %two = call @right(%b, %one, %h) : (tensor<8x1xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %two : tensor<8x4xf32>
  }
  func.func private @both(%y: tensor<8xf32>, %to: tensor<8xf32>, %and: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%to, %and : tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%a: f32, %o: f32, %p: f32):
      %s = math.sin %a : f32
      %c = math.cos %a : f32
      linalg.yield %s, %c : f32, f32
    } -> (tensor<8xf32>, tensor<8xf32>)
    return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
  }
  func.func private @left(%new: tensor<8x1xf32>, %old: tensor<8x4xf32>, %to: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = linalg.copy ins(%old : tensor<8x4xf32>) outs(%to : tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = tensor.insert_slice %new into %0[0, 0] [8, 1] [1, 1] : tensor<8x1xf32> into tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func private @right(%new: tensor<8x1xf32>, %old: tensor<8x4xf32>, %to: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = linalg.copy ins(%old : tensor<8x4xf32>) outs(%to : tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = tensor.insert_slice %new into %0[0, 2] [8, 1] [1, 1] : tensor<8x1xf32> into tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
