// RUN: inferno-opt %s -p 'fold-places{target=sm_90a}' --split-input-file | FileCheck %s
// RUN: inferno-opt %s -p 'fold-places{target=cpu}' --split-input-file | FileCheck %s --check-prefix=CPU

#flat = affine_map<(d0) -> (d0)>
#same = affine_map<(d0, d1) -> (d0, d1)>
#universal = {generator = "universal", threads = 256 : i64, long = 1024 : i64, few = 16384 : i64}

// Two maps become one of a row of numbers, in the scatter's kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @scatter_1(%arg0, %arg1, %{{.*}}) {inferno.source = ["p", "q", "s"]}
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @scatter_1(%[[I:.*]]: tensor<4x6xi64>, %[[Y:.*]]: tensor<24x1xf32>, %[[OUT:.*]]: tensor<80xf32>)
// CHECK: %[[F:.*]] = tensor.collapse_shape %[[I]]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%[[F]] : tensor<24xi64>)
// CHECK: %[[N:.*]] = linalg.index 0
// CHECK: arith.divui %[[N]]
// CHECK-NOT: linalg.generic
// CHECK: tm_tensor.scatter
// CHECK-NOT: func.func
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call @
func.func @main(%i: tensor<4x6xi64>, %y: tensor<24x1xf32>) -> tensor<80xf32> {
  %e0 = tensor.empty() : tensor<4x6xi64>
  %p = call @places(%i, %e0) {inferno.source = ["p"]} : (tensor<4x6xi64>, tensor<4x6xi64>) -> tensor<4x6xi64>
  %p0 = tensor.collapse_shape %p [[0, 1]] : tensor<4x6xi64> into tensor<24xi64>
  %e1 = tensor.empty() : tensor<24xi64>
  %q = call @wrapped(%p0, %e1) {inferno.source = ["q"]} : (tensor<24xi64>, tensor<24xi64>) -> tensor<24xi64>
  %q0 = tensor.expand_shape %q [[0, 1]] output_shape [24, 1] : tensor<24xi64> into tensor<24x1xi64>
  %e2 = tensor.empty() : tensor<80xf32>
  %s = call @scatter(%y, %q0, %e2) {inferno.source = ["s"]} : (tensor<24x1xf32>, tensor<24x1xi64>, tensor<80xf32>) -> tensor<80xf32>
  return %s : tensor<80xf32>
}
func.func private @places(%i: tensor<4x6xi64>, %out: tensor<4x6xi64>) -> tensor<4x6xi64> attributes {inferno.schedule = #universal} {
  %c20 = arith.constant 20 : i64
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<4x6xi64>) outs(%out : tensor<4x6xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.muli %2, %c20 : i64
    %4 = arith.addi %x, %3 : i64
    linalg.yield %4 : i64
  } -> tensor<4x6xi64>
  return %0 : tensor<4x6xi64>
}
func.func private @wrapped(%i: tensor<24xi64>, %out: tensor<24xi64>) -> tensor<24xi64> attributes {inferno.schedule = #universal} {
  %c0 = arith.constant 0 : i64
  %c80 = arith.constant 80 : i64
  %0 = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel"]} ins(%i : tensor<24xi64>) outs(%out : tensor<24xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = arith.addi %x, %c80 : i64
    %2 = arith.cmpi slt, %x, %c0 : i64
    %3 = arith.select %2, %1, %x : i64
    linalg.yield %3 : i64
  } -> tensor<24xi64>
  return %0 : tensor<24xi64>
}
func.func private @scatter(%y: tensor<24x1xf32>, %p: tensor<24x1xi64>, %out: tensor<80xf32>) -> tensor<80xf32> attributes {inferno.schedule = #universal} {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<80xf32>) -> tensor<80xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<24x1xf32>, tensor<24x1xi64>) outs(%0 : tensor<80xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<80xf32>
  return %1 : tensor<80xf32>
}

// -----

#flat = affine_map<(d0) -> (d0)>
#universal = {generator = "universal", threads = 256 : i64, long = 1024 : i64, few = 16384 : i64}

// Places that somebody else reads, too, are made once.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: call @
func.func @main(%i: tensor<24xi64>, %y: tensor<24x8xf32>) -> (tensor<80x8xf32>, tensor<24xi64>) {
  %e1 = tensor.empty() : tensor<24xi64>
  %q = call @wrapped(%i, %e1) : (tensor<24xi64>, tensor<24xi64>) -> tensor<24xi64>
  %q0 = tensor.expand_shape %q [[0, 1]] output_shape [24, 1] : tensor<24xi64> into tensor<24x1xi64>
  %e2 = tensor.empty() : tensor<80x8xf32>
  %s = call @scatter(%y, %q0, %e2) : (tensor<24x8xf32>, tensor<24x1xi64>, tensor<80x8xf32>) -> tensor<80x8xf32>
  return %s, %q : tensor<80x8xf32>, tensor<24xi64>
}
func.func private @wrapped(%i: tensor<24xi64>, %out: tensor<24xi64>) -> tensor<24xi64> attributes {inferno.schedule = #universal} {
  %c80 = arith.constant 80 : i64
  %0 = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel"]} ins(%i : tensor<24xi64>) outs(%out : tensor<24xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = arith.addi %x, %c80 : i64
    linalg.yield %1 : i64
  } -> tensor<24xi64>
  return %0 : tensor<24xi64>
}
func.func private @scatter(%y: tensor<24x8xf32>, %p: tensor<24x1xi64>, %out: tensor<80x8xf32>) -> tensor<80x8xf32> attributes {inferno.schedule = #universal} {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<80x8xf32>) -> tensor<80x8xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<24x8xf32>, tensor<24x1xi64>) outs(%0 : tensor<80x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<80x8xf32>
  return %1 : tensor<80x8xf32>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>
#universal = {generator = "universal", threads = 256 : i64, long = 1024 : i64, few = 16384 : i64}

// What the result begins as is taken in the result's shape, so that the result may take its place.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = tensor.collapse_shape %arg2
// CHECK: call @scatter_1(%arg0, %arg1, %[[C]], %{{.*}})
// CHECK: func.func private @scatter_1({{.*}}: tensor<4x6xi64>, {{.*}}: tensor<24x8xf32>, {{.*}}: tensor<80x8xf32>, {{.*}}: tensor<80x8xf32>)
func.func @main(%i: tensor<4x6xi64>, %y: tensor<24x8xf32>, %cache: tensor<4x20x8xf32>) -> tensor<80x8xf32> {
  %e1 = tensor.empty() : tensor<4x6xi64>
  %q = call @places(%i, %e1) : (tensor<4x6xi64>, tensor<4x6xi64>) -> tensor<4x6xi64>
  %q0 = tensor.collapse_shape %q [[0, 1]] : tensor<4x6xi64> into tensor<24xi64>
  %q1 = tensor.expand_shape %q0 [[0, 1]] output_shape [24, 1] : tensor<24xi64> into tensor<24x1xi64>
  %begin = tensor.collapse_shape %cache [[0, 1], [2]] : tensor<4x20x8xf32> into tensor<80x8xf32>
  %e2 = tensor.empty() : tensor<80x8xf32>
  %s = call @scatter(%y, %q1, %begin, %e2) : (tensor<24x8xf32>, tensor<24x1xi64>, tensor<80x8xf32>, tensor<80x8xf32>) -> tensor<80x8xf32>
  return %s : tensor<80x8xf32>
}
func.func private @places(%i: tensor<4x6xi64>, %out: tensor<4x6xi64>) -> tensor<4x6xi64> attributes {inferno.schedule = #universal} {
  %c20 = arith.constant 20 : i64
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<4x6xi64>) outs(%out : tensor<4x6xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.muli %2, %c20 : i64
    %4 = arith.addi %x, %3 : i64
    linalg.yield %4 : i64
  } -> tensor<4x6xi64>
  return %0 : tensor<4x6xi64>
}
func.func private @scatter(%y: tensor<24x8xf32>, %p: tensor<24x1xi64>, %begin: tensor<80x8xf32>, %out: tensor<80x8xf32>) -> tensor<80x8xf32> attributes {inferno.schedule = #universal} {
  %0 = linalg.copy ins(%begin : tensor<80x8xf32>) outs(%out : tensor<80x8xf32>) -> tensor<80x8xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(true) ins(%y, %p : tensor<24x8xf32>, tensor<24x1xi64>) outs(%0 : tensor<80x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    tm_tensor.yield %a : f32
  } -> tensor<80x8xf32>
  return %1 : tensor<80x8xf32>
}

// -----

#none = affine_map<() -> ()>
#universal = {generator = "universal", threads = 256 : i64, long = 1024 : i64, few = 16384 : i64}

// A place without dimensions is a row of one.
// CHECK-LABEL: func.func @main
// CHECK: call @scatter_1(
// CHECK: func.func private @scatter_1(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<1x1xf32>, %{{.*}}: tensor<1xf32>)
// CHECK: %[[F:.*]] = tensor.expand_shape %[[I]] [] output_shape [1] : tensor<i64> into tensor<1xi64>
// CHECK: linalg.generic {{.*}} ins(%[[F]] : tensor<1xi64>)
// CHECK: tm_tensor.scatter
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call @
func.func @main(%i: tensor<i64>, %y: tensor<1x1xf32>) -> tensor<1xf32> {
  %e0 = tensor.empty() : tensor<i64>
  %p = call @places(%i, %e0) {inferno.source = ["p"]} : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %p0 = tensor.expand_shape %p [] output_shape [1, 1] : tensor<i64> into tensor<1x1xi64>
  %e1 = tensor.empty() : tensor<1xf32>
  %s = call @scatter(%y, %p0, %e1) {inferno.source = ["s"]} : (tensor<1x1xf32>, tensor<1x1xi64>, tensor<1xf32>) -> tensor<1xf32>
  return %s : tensor<1xf32>
}
func.func private @places(%i: tensor<i64>, %out: tensor<i64>) -> tensor<i64> attributes {inferno.schedule = #universal} {
  %c1 = arith.constant 1 : i64
  %0 = linalg.generic {indexing_maps = [#none, #none], iterator_types = []} ins(%i : tensor<i64>) outs(%out : tensor<i64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = arith.addi %x, %c1 : i64
    linalg.yield %1 : i64
  } -> tensor<i64>
  return %0 : tensor<i64>
}
func.func private @scatter(%y: tensor<1x1xf32>, %p: tensor<1x1xi64>, %out: tensor<1xf32>) -> tensor<1xf32> attributes {inferno.schedule = #universal} {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<1xf32>) -> tensor<1xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<1x1xf32>, tensor<1x1xi64>) outs(%0 : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// -----

#row = affine_map<(d0, d1, d2) -> (d1)>
#column = affine_map<(d0, d1, d2) -> (d2)>
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#universal = {generator = "universal", threads = 256 : i64, long = 1024 : i64, few = 16384 : i64}

// What many places are made of is picked where it lies.
// CHECK-LABEL: func.func @main
// CHECK: call @scatter_1(%arg0, %arg1, %arg2, %{{.*}})
// CHECK: func.func private @scatter_1(%[[I:.*]]: tensor<4xi64>, %[[J:.*]]: tensor<6xi64>, %{{.*}}: tensor<72x1xf32>, %{{.*}}: tensor<105xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]} outs(%{{.*}} : tensor<72xi64>)
// CHECK-DAG: tensor.extract %[[I]]
// CHECK-DAG: tensor.extract %[[J]]
// CHECK-NOT: linalg.generic
// CHECK: tm_tensor.scatter
// CPU-LABEL: func.func @main
// CPU-COUNT-2: call @
func.func @main(%i: tensor<4xi64>, %j: tensor<6xi64>, %y: tensor<72x1xf32>) -> tensor<105xf32> {
  %e0 = tensor.empty() : tensor<3x4x6xi64>
  %p = call @places(%i, %j, %e0) {inferno.source = ["p"]} : (tensor<4xi64>, tensor<6xi64>, tensor<3x4x6xi64>) -> tensor<3x4x6xi64>
  %p0 = tensor.collapse_shape %p [[0, 1, 2]] : tensor<3x4x6xi64> into tensor<72xi64>
  %p1 = tensor.expand_shape %p0 [[0, 1]] output_shape [72, 1] : tensor<72xi64> into tensor<72x1xi64>
  %e1 = tensor.empty() : tensor<105xf32>
  %s = call @scatter(%y, %p1, %e1) {inferno.source = ["s"]} : (tensor<72x1xf32>, tensor<72x1xi64>, tensor<105xf32>) -> tensor<105xf32>
  return %s : tensor<105xf32>
}
func.func private @places(%i: tensor<4xi64>, %j: tensor<6xi64>, %out: tensor<3x4x6xi64>) -> tensor<3x4x6xi64> attributes {inferno.schedule = #universal} {
  %c7 = arith.constant 7 : i64
  %c35 = arith.constant 35 : i64
  %0 = linalg.generic {indexing_maps = [#row, #column, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%i, %j : tensor<4xi64>, tensor<6xi64>) outs(%out : tensor<3x4x6xi64>) {
  ^bb0(%x: i64, %y: i64, %o: i64):
    %1 = linalg.index 0 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.muli %2, %c35 : i64
    %4 = arith.muli %x, %c7 : i64
    %5 = arith.addi %3, %4 : i64
    %6 = arith.addi %5, %y : i64
    linalg.yield %6 : i64
  } -> tensor<3x4x6xi64>
  return %0 : tensor<3x4x6xi64>
}
func.func private @scatter(%y: tensor<72x1xf32>, %p: tensor<72x1xi64>, %out: tensor<105xf32>) -> tensor<105xf32> attributes {inferno.schedule = #universal} {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<105xf32>) -> tensor<105xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<72x1xf32>, tensor<72x1xi64>) outs(%0 : tensor<105xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<105xf32>
  return %1 : tensor<105xf32>
}

// -----

#flat = affine_map<(d0) -> (d0)>
#universal = {generator = "universal", threads = 256 : i64, long = 1024 : i64, few = 16384 : i64}

// Places that two scatters put to, and no one else reads, are computed by both.
// CHECK-LABEL: func.func @main
// CHECK-NOT: call @wrapped
// CHECK: call @scatter_1(%arg0, %arg1, %{{.*}})
// CHECK: call @counted_1(%arg0, %{{.*}})
// CHECK: return
func.func @main(%i: tensor<24xi64>, %y: tensor<24x8xf32>) -> (tensor<80x8xf32>, tensor<80xf32>) {
  %e1 = tensor.empty() : tensor<24xi64>
  %q = call @wrapped(%i, %e1) : (tensor<24xi64>, tensor<24xi64>) -> tensor<24xi64>
  %q0 = tensor.expand_shape %q [[0, 1]] output_shape [24, 1] : tensor<24xi64> into tensor<24x1xi64>
  %e2 = tensor.empty() : tensor<80x8xf32>
  %s = call @scatter(%y, %q0, %e2) : (tensor<24x8xf32>, tensor<24x1xi64>, tensor<80x8xf32>) -> tensor<80x8xf32>
  %e3 = tensor.empty() : tensor<80xf32>
  %n = call @counted(%q0, %e3) : (tensor<24x1xi64>, tensor<80xf32>) -> tensor<80xf32>
  return %s, %n : tensor<80x8xf32>, tensor<80xf32>
}
func.func private @wrapped(%i: tensor<24xi64>, %out: tensor<24xi64>) -> tensor<24xi64> attributes {inferno.schedule = #universal} {
  %c80 = arith.constant 80 : i64
  %0 = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel"]} ins(%i : tensor<24xi64>) outs(%out : tensor<24xi64>) {
  ^bb0(%x: i64, %o: i64):
    %1 = arith.addi %x, %c80 : i64
    linalg.yield %1 : i64
  } -> tensor<24xi64>
  return %0 : tensor<24xi64>
}
func.func private @scatter(%y: tensor<24x8xf32>, %p: tensor<24x1xi64>, %out: tensor<80x8xf32>) -> tensor<80x8xf32> attributes {inferno.schedule = #universal} {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<80x8xf32>) -> tensor<80x8xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%y, %p : tensor<24x8xf32>, tensor<24x1xi64>) outs(%0 : tensor<80x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<80x8xf32>
  return %1 : tensor<80x8xf32>
}
func.func private @counted(%p: tensor<24x1xi64>, %out: tensor<80xf32>) -> tensor<80xf32> attributes {inferno.schedule = #universal} {
  %cst = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<24x1xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<24x1xf32>) -> tensor<24x1xf32>
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<80xf32>) -> tensor<80xf32>
  %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(false) ins(%ones, %p : tensor<24x1xf32>, tensor<24x1xi64>) outs(%0 : tensor<80xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.addf %b, %a : f32
    tm_tensor.yield %2 : f32
  } -> tensor<80xf32>
  return %1 : tensor<80xf32>
}
