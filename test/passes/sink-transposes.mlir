// RUN: inferno-opt %s -p sink-transposes --split-input-file | FileCheck %s

/// A map that reads another order than it writes, a sum along what lies together, and a map that transposes it back: nothing is transposed.
// CHECK: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK: #[[LAST:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK: #[[FIRST:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @main
// CHECK: %[[SCALED:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[LAST]], #[[ID]]]
// CHECK-SAME: outs(%{{.*}} : tensor<5x7xf32>)
// CHECK: linalg.index 1
// CHECK: %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[FIRST]]], iterator_types = ["parallel", "reduction"]} ins(%[[SCALED]]
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[FIRST]], #[[ID]]]
// CHECK-SAME: ins(%[[SCALED]], %[[SUM]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#first = affine_map<(d0, d1) -> (d0)>
#last = affine_map<(d0, d1) -> (d1)>
module {
  func.func @main(%x: tensor<5x7xf32>, %y: tensor<7xf32>) -> tensor<5x7xf32> {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<7x5xf32>
    %scaled = linalg.generic {indexing_maps = [#transposed, #first, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x, %y : tensor<5x7xf32>, tensor<7xf32>) outs(%e0 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %i = linalg.index 0 : index
      %n = arith.index_cast %i : index to i32
      %f = arith.sitofp %n : i32 to f32
      %p = arith.mulf %a, %b : f32
      %q = arith.addf %p, %f : f32
      linalg.yield %q : f32
    } -> tensor<7x5xf32>
    %e1 = tensor.empty() : tensor<5xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5xf32>) -> tensor<5xf32>
    %sum = linalg.generic {indexing_maps = [#id, #last], iterator_types = ["reduction", "parallel"]}
        ins(%scaled : tensor<7x5xf32>) outs(%start : tensor<5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<5xf32>
    %e2 = tensor.empty() : tensor<5x7xf32>
    %result = linalg.generic {indexing_maps = [#transposed, #first, #id], iterator_types = ["parallel", "parallel"]}
        ins(%scaled, %sum : tensor<7x5xf32>, tensor<5xf32>) outs(%e2 : tensor<5x7xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.divf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<5x7xf32>
    return %result : tensor<5x7xf32>
  }
}

// -----

/// What is returned is in the program's order, and so is what is made on the way.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: outs(%{{.*}} : tensor<7x5xf32>)
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
module {
  func.func @main(%x: tensor<5x7xf32>) -> tensor<7x5xf32> {
    %e0 = tensor.empty() : tensor<7x5xf32>
    %root = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x7xf32>) outs(%e0 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.sqrt %a : f32
      linalg.yield %s : f32
    } -> tensor<7x5xf32>
    %e1 = tensor.empty() : tensor<7x5xf32>
    %result = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%root : tensor<7x5xf32>) outs(%e1 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.exp %a : f32
      linalg.yield %s : f32
    } -> tensor<7x5xf32>
    return %result : tensor<7x5xf32>
  }
}

// -----

/// A tensor beside it that lies otherwise would have to be transposed instead.
// CHECK-LABEL: func.func @main
// CHECK: outs(%{{.*}} : tensor<7x5xf32>)
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#first = affine_map<(d0, d1) -> (d0)>
module {
  func.func @main(%x: tensor<5x7xf32>, %y: tensor<7x5xf32>) -> tensor<7xf32> {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<7x5xf32>
    %root = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x7xf32>) outs(%e0 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.sqrt %a : f32
      linalg.yield %s : f32
    } -> tensor<7x5xf32>
    %e1 = tensor.empty() : tensor<7xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<7xf32>) -> tensor<7xf32>
    %result = linalg.generic {indexing_maps = [#id, #id, #first], iterator_types = ["parallel", "reduction"]}
        ins(%root, %y : tensor<7x5xf32>, tensor<7x5xf32>) outs(%start : tensor<7xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      %s = arith.addf %d, %o : f32
      linalg.yield %s : f32
    } -> tensor<7xf32>
    return %result : tensor<7xf32>
  }
}

// -----

/// A total of all points may be taken in any order.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<5x7xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]
// CHECK-SAME: tensor<5x7xf32>
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#none = affine_map<(d0, d1) -> ()>
module {
  func.func @main(%x: tensor<5x7xf32>) -> tensor<f32> {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<7x5xf32>
    %root = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x7xf32>) outs(%e0 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.sqrt %a : f32
      linalg.yield %s : f32
    } -> tensor<7x5xf32>
    %e1 = tensor.empty() : tensor<f32>
    %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<f32>) -> tensor<f32>
    %result = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]} ins(%root : tensor<7x5xf32>) outs(%start : tensor<f32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<f32>
    return %result : tensor<f32>
  }
}

// -----

/// A product reads its terms side by side so, and what has more loops reads them in their order.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROOT:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<5x7xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[A:.*]], #[[B:.*]], #[[C:.*]]], {{.*}} ins(%[[ROOT]], %arg1 : tensor<5x7xf32>, tensor<3x7xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[ROOT]], %arg2 : tensor<5x7xf32>, tensor<5x7x4xf32>)
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
module {
  func.func @main(%x: tensor<5x7xf32>, %w: tensor<3x7xf32>, %h: tensor<5x7x4xf32>) -> (tensor<5x3xf32>, tensor<5x7x4xf32>) {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<7x5xf32>
    %root = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x7xf32>) outs(%e0 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.sqrt %a : f32
      linalg.yield %s : f32
    } -> tensor<7x5xf32>
    %e1 = tensor.empty() : tensor<5x3xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5x3xf32>) -> tensor<5x3xf32>
    %product = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
        iterator_types = ["parallel", "parallel", "reduction"]} ins(%root, %w : tensor<7x5xf32>, tensor<3x7xf32>) outs(%start : tensor<5x3xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<5x3xf32>
    %e2 = tensor.empty() : tensor<5x7x4xf32>
    %wide = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
        iterator_types = ["parallel", "parallel", "parallel"]} ins(%root, %h : tensor<7x5xf32>, tensor<5x7x4xf32>) outs(%e2 : tensor<5x7x4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      linalg.yield %m : f32
    } -> tensor<5x7x4xf32>
    return %product, %wide : tensor<5x3xf32>, tensor<5x7x4xf32>
  }
}

// -----

/// A product whose terms lie apart then: everything stays.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<7x5xf32>)
// CHECK: return
#id = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
module {
  func.func @main(%x: tensor<5x7xf32>, %w: tensor<3x5xf32>) -> tensor<7x3xf32> {
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<7x5xf32>
    %root = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x7xf32>) outs(%e0 : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.sqrt %a : f32
      linalg.yield %s : f32
    } -> tensor<7x5xf32>
    %e1 = tensor.empty() : tensor<7x3xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e1 : tensor<7x3xf32>) -> tensor<7x3xf32>
    %product = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
        iterator_types = ["parallel", "parallel", "reduction"]} ins(%root, %w : tensor<7x5xf32>, tensor<3x5xf32>) outs(%start : tensor<7x3xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<7x3xf32>
    return %product : tensor<7x3xf32>
  }
}
