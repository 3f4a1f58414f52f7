// RUN: inferno-opt -p 'fuse-elementwise,write-slices,func.func(canonicalize,cse)' %s --split-input-file | FileCheck %s

#whole = affine_map<(h, l, d) -> (h, l, d)>
#row = affine_map<(h, l, d) -> (h, d)>
#length = affine_map<(h, l, d) -> (l)>
#at = affine_map<(h, l, d) -> ()>

// A token in a cache: what makes it goes over the slice alone, its place is where it was, and a scatter writes it, which is no reader's to do again.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[CACHE:.*]]: tensor<2x64x16xf32>, %[[X:.*]]: tensor<2x16xf32>, %[[AT:.*]]: tensor<i64>)
// CHECK: %[[NEW:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<2x16xf32>) outs(%{{.*}} : tensor<2x16xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.negf
// CHECK-NEXT: linalg.yield
// CHECK-DAG: %[[UPDATE:.*]] = tensor.expand_shape %[[NEW]] {{.*}} into tensor<1x2x1x16xf32>
// CHECK-DAG: %[[TABLE:.*]] = tensor.expand_shape %[[AT]] [] {{.*}} into tensor<1x1xi64>
// CHECK: %[[RESULT:.*]] = tm_tensor.scatter {dimension_map = array<i64: 1>} unique_indices(true) ins(%[[UPDATE]], %[[TABLE]] : {{.*}}) outs(%[[CACHE]] : tensor<2x64x16xf32>) {
// CHECK-NEXT: ^bb0(%[[MOVED:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: tm_tensor.yield %[[MOVED]] : f32
// CHECK: %[[READ:.*]] = linalg.generic {{.*}} ins(%[[RESULT]] : tensor<2x64x16xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.exp
// CHECK: return %[[RESULT]], %[[READ]]
module attributes {inferno.write_slices} {
  func.func @main(%cache: tensor<2x64x16xf32>, %x: tensor<2x16xf32>, %at: tensor<i64>) -> (tensor<2x64x16xf32>, tensor<2x64x16xf32>) {
    %e = tensor.empty() : tensor<2x64x16xf32>
    %f = tensor.empty() : tensor<2x16xf32>
    %g = tensor.empty() : tensor<64xi1>
    %new = linalg.generic {indexing_maps = [affine_map<(h, d) -> (h, d)>, affine_map<(h, d) -> (h, d)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<2x16xf32>) outs(%f : tensor<2x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %n = arith.negf %a : f32
      linalg.yield %n : f32
    } -> tensor<2x16xf32>
    %mask = linalg.generic {indexing_maps = [affine_map<(l) -> ()>, affine_map<(l) -> (l)>], iterator_types = ["parallel"]} ins(%at : tensor<i64>) outs(%g : tensor<64xi1>) {
    ^bb0(%p: i64, %o: i1):
      %i = linalg.index 0 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %j, %p : i64
      linalg.yield %c : i1
    } -> tensor<64xi1>
    %put = linalg.generic {indexing_maps = [#length, #row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%mask, %new, %cache : tensor<64xi1>, tensor<2x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%c: i1, %b: f32, %a: f32, %o: f32):
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    %read = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%put : tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      %x1 = math.exp %a : f32
      linalg.yield %x1 : f32
    } -> tensor<2x64x16xf32>
    return %put, %read : tensor<2x64x16xf32>, tensor<2x64x16xf32>
  }
}

// -----

// At a number it is an insertion; in two dimensions, in any order of loops, the table has both places, the first of which is computed and the
// second a number.
#whole = affine_map<(d, l, h) -> (h, l, d)>
#row = affine_map<(d, l, h) -> (h, d)>
#one = affine_map<(d, l, h) -> (d)>
#at = affine_map<(d, l, h) -> ()>
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[CACHE:[a-z0-9]*]]: tensor<2x64x16xf32> {inferno.written}, %[[OTHER:[a-z0-9]*]]: tensor<2x64x16xf32> {inferno.written}, %[[X:.*]]: tensor<2x16xf32>, %[[Y:.*]]: tensor<16xf32>, %[[AT:.*]]: tensor<i32>)
// CHECK: %[[NEW:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<2x1x16xf32>
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[NEW]] into %[[CACHE]][0, 5, 0] [2, 1, 16] [1, 1, 1] : tensor<2x1x16xf32> into tensor<2x64x16xf32>
// CHECK: %[[PLACES:.*]] = linalg.generic {{.*}} ins(%[[AT]] : tensor<i32>) outs(%{{.*}} : tensor<2xi64>)
// CHECK: arith.addi
// CHECK: arith.extsi
// CHECK: linalg.yield
// CHECK: %[[TABLE:.*]] = tensor.expand_shape %[[PLACES]] {{.*}} into tensor<1x2xi64>
// CHECK: %[[SECOND:.*]] = tm_tensor.scatter {dimension_map = array<i64: {{1, 0|0, 1}}>} unique_indices(true) ins(%{{.*}}, %[[TABLE]] : tensor<1x1x1x16xf32>, tensor<1x2xi64>) outs(%[[OTHER]] :
// CHECK: return %[[FIRST]], %[[SECOND]]
module attributes {inferno.write_slices} {
  func.func @main(%cache: tensor<2x64x16xf32> {inferno.written}, %other: tensor<2x64x16xf32> {inferno.written}, %x: tensor<2x16xf32>, %y: tensor<16xf32>, %at: tensor<i32>)
      -> (tensor<2x64x16xf32>, tensor<2x64x16xf32>) {
    %e = tensor.empty() : tensor<2x64x16xf32>
    %five = arith.constant 5 : i64
    %one = arith.constant 1 : i32
    %first = linalg.generic {indexing_maps = [#row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x, %cache : tensor<2x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%b: f32, %a: f32, %o: f32):
      %fifth = arith.constant 5 : i64
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %fifth, %j : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    %second = linalg.generic {indexing_maps = [#at, #one, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%at, %y, %other : tensor<i32>, tensor<16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%p: i32, %b: f32, %a: f32, %o: f32):
      %step = arith.constant 1 : i32
      %q = arith.addi %p, %step : i32
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i32
      %c = arith.cmpi eq, %j, %q : i32
      %k = linalg.index 2 : index
      %k1 = arith.index_cast %k : index to i32
      %c1 = arith.cmpi eq, %k1, %step : i32
      %both = arith.andi %c, %c1 : i1
      %s = arith.select %both, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    return %first, %second : tensor<2x64x16xf32>, tensor<2x64x16xf32>
  }
}

// -----

// Rows with places of their own: an update for each, whose table has the row and its place.
#whole = affine_map<(h, b, l, d) -> (h, b, l, d)>
#new = affine_map<(h, b, l, d) -> (b, h, d)>
#at = affine_map<(h, b, l, d) -> (b)>
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[CACHE:[a-z0-9]*]]: tensor<3x2x64x16xf32> {inferno.written}, %[[X:.*]]: tensor<2x3x16xf32>, %[[AT:.*]]: tensor<2xi64>)
// CHECK-DAG: %[[UPDATE:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<2x3x1x1x16xf32>
// CHECK: %[[TABLE:.*]] = linalg.generic {{.*}} ins(%[[AT]] : tensor<2xi64>) outs(%{{.*}} : tensor<2x2xi64>)
// CHECK: tm_tensor.scatter {dimension_map = array<i64: 1, 2>} unique_indices(true) ins(%[[UPDATE]], %[[TABLE]] : {{.*}}) outs(%[[CACHE]] :
module attributes {inferno.write_slices} {
  func.func @main(%cache: tensor<3x2x64x16xf32> {inferno.written}, %x: tensor<2x3x16xf32>, %at: tensor<2xi64>) -> tensor<3x2x64x16xf32> {
    %e = tensor.empty() : tensor<3x2x64x16xf32>
    %put = linalg.generic {indexing_maps = [#at, #new, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%at, %x, %cache : tensor<2xi64>, tensor<2x3x16xf32>, tensor<3x2x64x16xf32>) outs(%e : tensor<3x2x64x16xf32>) {
    ^bb0(%p: i64, %b: f32, %a: f32, %o: f32):
      %i = linalg.index 2 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %j, %p : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<3x2x64x16xf32>
    return %put : tensor<3x2x64x16xf32>
  }
}

// -----

// Left as they are: what nobody returns, what is new all along the cache, a number outside, a choice that is no place's.
#whole = affine_map<(h, l, d) -> (h, l, d)>
#row = affine_map<(h, l, d) -> (h, d)>
#at = affine_map<(h, l, d) -> ()>
// CHECK-LABEL: func.func @main
// CHECK-NOT: tm_tensor.scatter
// CHECK-NOT: tensor.insert_slice
module attributes {inferno.write_slices} {
  func.func @main(%cache: tensor<2x64x16xf32> {inferno.written}, %other: tensor<2x64x16xf32> {inferno.written}, %x: tensor<2x16xf32>, %at: tensor<i64>)
      -> (tensor<2xf32>, tensor<2x64x16xf32>, tensor<2x64x16xf32>, tensor<2x64x16xf32>) {
    %e = tensor.empty() : tensor<2x64x16xf32>
    %z = arith.constant 0.0 : f32
    %f = tensor.empty() : tensor<2xf32>
    %zero = linalg.fill ins(%z : f32) outs(%f : tensor<2xf32>) -> tensor<2xf32>
    %inner = linalg.generic {indexing_maps = [#at, #row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%at, %x, %cache : tensor<i64>, tensor<2x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%p: i64, %b: f32, %a: f32, %o: f32):
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %j, %p : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    %sum = linalg.generic {indexing_maps = [#whole, affine_map<(h, l, d) -> (h)>], iterator_types = ["parallel", "reduction", "reduction"]}
        ins(%inner : tensor<2x64x16xf32>) outs(%zero : tensor<2xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<2xf32>
    %along = linalg.generic {indexing_maps = [#at, #whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%at, %other, %cache : tensor<i64>, tensor<2x64x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%p: i64, %b: f32, %a: f32, %o: f32):
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %j, %p : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    %outside = linalg.generic {indexing_maps = [#row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x, %cache : tensor<2x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%b: f32, %a: f32, %o: f32):
      %p = arith.constant 64 : index
      %i = linalg.index 1 : index
      %c = arith.cmpi eq, %i, %p : index
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    %below = linalg.generic {indexing_maps = [#at, #row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%at, %x, %cache : tensor<i64>, tensor<2x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%p: i64, %b: f32, %a: f32, %o: f32):
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi slt, %j, %p : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    return %sum, %along, %outside, %below : tensor<2xf32>, tensor<2x64x16xf32>, tensor<2x64x16xf32>, tensor<2x64x16xf32>
  }
}

// -----

// A tensor that is new and read by nobody else is written as a whole.
#whole = affine_map<(h, l, d) -> (h, l, d)>
#row = affine_map<(h, l, d) -> (h, d)>
#at = affine_map<(h, l, d) -> ()>
// CHECK-LABEL: func.func @main
// CHECK-NOT: tm_tensor.scatter
// CHECK: arith.select
// CHECK-NOT: tm_tensor.scatter
module attributes {inferno.write_slices} {
  func.func @main(%cache: tensor<2x64x16xf32>, %x: tensor<2x16xf32>, %at: tensor<i64>) -> tensor<2x64x16xf32> {
    %e = tensor.empty() : tensor<2x64x16xf32>
    %put = linalg.generic {indexing_maps = [#at, #row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%at, %x, %cache : tensor<i64>, tensor<2x16xf32>, tensor<2x64x16xf32>) outs(%e : tensor<2x64x16xf32>) {
    ^bb0(%p: i64, %b: f32, %a: f32, %o: f32):
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %j, %p : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<2x64x16xf32>
    return %put : tensor<2x64x16xf32>
  }
}

// -----

// Of sizes that vary: the last place is a number of them, and there are as many updates as rows.
#whole = affine_map<(h, l, d) -> (h, l, d)>
#row = affine_map<(h, l, d) -> (h, d)>
#place = affine_map<(h, l, d) -> (h)>
#cache = affine_map<()[s0, s1] -> (s0, s1, 16)>
#rows = affine_map<()[s0, s1] -> (s0, 16)>
#each = affine_map<()[s0, s1] -> (s0)>
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[CACHE:.*]]: tensor<?x?x16xf32> {{{.*}}}, %[[OTHER:.*]]: tensor<?x?x16xf32> {{{.*}}}, %[[X:.*]]: tensor<?x16xf32> {{{.*}}}, %[[AT:.*]]: tensor<?xi64>
// CHECK-DAG: %[[LAST:.*]] = arith.addi %{{.*}}, %{{.*}} : index
// CHECK-DAG: %[[NEW:.*]] = tensor.expand_shape %[[X]] {{.*}} output_shape [%[[H:.*]], 1, 16] : tensor<?x16xf32> into tensor<?x1x16xf32>
// CHECK: tensor.insert_slice %[[NEW]] into %[[CACHE]][0, %[[LAST]], 0] [%[[H]], 1, 16] [1, 1, 1] : tensor<?x1x16xf32> into tensor<?x?x16xf32>
// CHECK: tm_tensor.scatter {dimension_map = array<i64: 0, 1>} unique_indices(true) ins(%{{.*}}, %{{.*}} : tensor<?x1x1x16xf32>, tensor<?x2xi64>) outs(%[[OTHER]] : tensor<?x?x16xf32>)
module attributes {inferno.write_slices} {
  func.func @main(%cache: tensor<?x?x16xf32> {inferno.sizes = #cache, inferno.written}, %other: tensor<?x?x16xf32> {inferno.sizes = #cache, inferno.written}, %x: tensor<?x16xf32> {inferno.sizes = #rows}, %at: tensor<?xi64> {inferno.sizes = #each}, %n: index {inferno.divisor = 1 : i64, inferno.hint = 4 : i64, inferno.range = [2, 1024], inferno.symbol = "s0"}, %l: index {inferno.divisor = 1 : i64, inferno.hint = 64 : i64, inferno.range = [2, 1024], inferno.symbol = "s1"}) -> (tensor<?x?x16xf32>, tensor<?x?x16xf32>) {
    %e = tensor.empty(%n, %l) : tensor<?x?x16xf32>
    %less = arith.constant -1 : index
    %last = arith.addi %l, %less : index
    %end = linalg.generic {indexing_maps = [#row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x, %cache : tensor<?x16xf32>, tensor<?x?x16xf32>) outs(%e : tensor<?x?x16xf32>) {
    ^bb0(%b: f32, %a: f32, %o: f32):
      %i = linalg.index 1 : index
      %c = arith.cmpi eq, %i, %last : index
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<?x?x16xf32>
    %each = linalg.generic {indexing_maps = [#place, #row, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%at, %x, %other : tensor<?xi64>, tensor<?x16xf32>, tensor<?x?x16xf32>) outs(%e : tensor<?x?x16xf32>) {
    ^bb0(%p: i64, %b: f32, %a: f32, %o: f32):
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %c = arith.cmpi eq, %j, %p : i64
      %s = arith.select %c, %b, %a : f32
      linalg.yield %s : f32
    } -> tensor<?x?x16xf32>
    return %end, %each : tensor<?x?x16xf32>, tensor<?x?x16xf32>
  }
}
