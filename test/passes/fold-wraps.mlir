// RUN: inferno-opt %s -p 'fold-wraps,func.func(canonicalize,cse)' --split-input-file | FileCheck %s

// Columns of a table that is kept inside of the image, and a loop: neither counts from the end, and nothing is left to choose.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[T]] : tensor<8xi32>)
// CHECK-NOT: arith.select
// CHECK: tensor.extract
#i = affine_map<(c, x) -> (c, x)>
#x = affine_map<(c, x) -> (x)>
#v = affine_map<(x) -> (x)>
func.func @main(%image: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %last = arith.constant 3 : i32
  %zero = arith.constant 0 : i64
  %rows = arith.constant 3 : i64
  %columns = arith.constant 4 : i64
  %e = tensor.empty() : tensor<8xi32>
  %t = linalg.generic {indexing_maps = [#v], iterator_types = ["parallel"]} outs(%e : tensor<8xi32>) {
  ^bb0(%o: i32):
    %n = linalg.index 0 : index
    %m = arith.index_cast %n : index to i32
    %half = arith.divsi %m, %c2 : i32
    %before = arith.subi %half, %c1 : i32
    %low = arith.maxsi %before, %c0 : i32
    %high = arith.minsi %low, %last : i32
    linalg.yield %high : i32
  } -> tensor<8xi32>
  %r = tensor.empty() : tensor<3x8xf32>
  %0 = linalg.generic {indexing_maps = [#x, #i], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8xi32>) outs(%r : tensor<3x8xf32>) {
  ^bb0(%at: i32, %o: f32):
    %c = linalg.index 0 : index
    %ci = arith.index_cast %c : index to i64
    %cn = arith.cmpi slt, %ci, %zero : i64
    %cw = arith.addi %ci, %rows : i64
    %cs = arith.select %cn, %cw, %ci : i64
    %cx = arith.index_cast %cs : i64 to index
    %x = arith.extsi %at : i32 to i64
    %n = arith.cmpi slt, %x, %zero : i64
    %w = arith.addi %x, %columns : i64
    %s = arith.select %n, %w, %x : i64
    %xx = arith.index_cast %s : i64 to index
    %v = tensor.extract %image[%cx, %xx] : tensor<3x4xf32>
    linalg.yield %v : f32
  } -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

// Numbers that anyone may give may be negative.
// CHECK-LABEL: func.func @main
// CHECK: arith.select
#v = affine_map<(x) -> (x)>
func.func @main(%image: tensor<4xf32>, %at: tensor<8xi64>) -> tensor<8xf32> {
  %zero = arith.constant 0 : i64
  %size = arith.constant 4 : i64
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%at : tensor<8xi64>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: i64, %o: f32):
    %n = arith.cmpi slt, %x, %zero : i64
    %w = arith.addi %x, %size : i64
    %s = arith.select %n, %w, %x : i64
    %i = arith.index_cast %s : i64 to index
    %v = tensor.extract %image[%i] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// The remainder of a loop by its own size is the loop, and the quotient nothing; by less they stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT: arith.divui
// CHECK: arith.remui %{{.*}}, %c4
// CHECK-NOT: arith.remui
#v = affine_map<(x) -> (x)>
func.func @main(%image: tensor<1x8x4xf32>) -> tensor<8xf32> {
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#v], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %x = linalg.index 0 : index
    %n = arith.divui %x, %c8 : index
    %y = arith.remui %x, %c8 : index
    %z = arith.remui %x, %c4 : index
    %v = tensor.extract %image[%n, %y, %z] : tensor<1x8x4xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A reflected place, 3 - |3 - |x - 2||, lies inside of what is padded.
// CHECK-LABEL: func.func @main
// CHECK-NOT: arith.select
// CHECK: tensor.extract
#v = affine_map<(x) -> (x)>
func.func @main(%image: tensor<4xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %last = arith.constant 3 : i32
  %size = arith.constant 4 : i32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#v], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %x = arith.index_cast %i : index to i32
    %from = arith.subi %x, %two : i32
    %a = math.absi %from : i32
    %b = arith.subi %last, %a : i32
    %c = math.absi %b : i32
    %p = arith.subi %last, %c : i32
    %n = arith.cmpi slt, %p, %zero : i32
    %w = arith.addi %p, %size : i32
    %s = arith.select %n, %w, %p : i32
    %at = arith.index_cast %s : i32 to index
    %v = tensor.extract %image[%at] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// One that is reflected once may be negative.
// CHECK-LABEL: func.func @main
// CHECK: arith.select
#v = affine_map<(x) -> (x)>
func.func @main(%image: tensor<4xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0 : i32
  %last = arith.constant 3 : i32
  %size = arith.constant 4 : i32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#v], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %x = arith.index_cast %i : index to i32
    %a = math.absi %x : i32
    %p = arith.subi %last, %a : i32
    %n = arith.cmpi slt, %p, %zero : i32
    %w = arith.addi %p, %size : i32
    %s = arith.select %n, %w, %p : i32
    %at = arith.index_cast %s : i32 to index
    %v = tensor.extract %image[%at] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Nor is a choice between places of which none is.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: arith.select
// CHECK-NOT: arith.select
#p = affine_map<(x) -> (x)>
func.func @main(%image: tensor<4xf32>, %where: tensor<8xi32>) -> tensor<8xf32> {
  %zero = arith.constant 0 : i32
  %last = arith.constant 3 : i32
  %size = arith.constant 4 : i32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel"]} ins(%where : tensor<8xi32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: i32, %o: f32):
    %low = arith.maxsi %x, %zero : i32
    %in = arith.minsi %low, %last : i32
    %c = arith.cmpi eq, %x, %last : i32
    %p = arith.select %c, %zero, %in : i32
    %n = arith.cmpi slt, %p, %zero : i32
    %w = arith.addi %p, %size : i32
    %s = arith.select %n, %w, %p : i32
    %at = arith.index_cast %s : i32 to index
    %v = tensor.extract %image[%at] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Of a loop whose size varies no number is negative either.
// CHECK-LABEL: func.func @main
// CHECK-NOT: arith.select
#p = affine_map<(x) -> (x)>
func.func @main(%image: tensor<?xf32> {inferno.sizes = affine_map<()[s0] -> (s0)>}, %n: index {inferno.hint = 8 : i64, inferno.range = [2, 4096], inferno.symbol = "s0"})
    -> tensor<?xf32> {
  %zero = arith.constant 0 : i64
  %two = arith.constant 2 : i64
  %both = arith.constant 2 : index
  %twice = arith.muli %n, %both : index
  %size = arith.index_cast %n : index to i64
  %e = tensor.empty(%twice) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [#p], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    %half = arith.divsi %c, %two : i64
    %n0 = arith.cmpi slt, %half, %zero : i64
    %w = arith.addi %half, %size : i64
    %s = arith.select %n0, %w, %half : i64
    %at = arith.index_cast %s : i64 to index
    %v = tensor.extract %image[%at] : tensor<?xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// A quotient that is rounded down needs no correction where nothing is negative, nor does what it is compared with.
// CHECK-LABEL: func.func @rounded_down
// CHECK: linalg.generic
// CHECK-NOT: arith.cmpi
// CHECK: %[[HALF:.*]] = arith.divsi
// CHECK-NOT: arith.cmpi
// CHECK-NOT: arith.select
// CHECK: linalg.yield %[[HALF]]
#q = affine_map<(x) -> (x)>
func.func @rounded_down() -> tensor<8xi64> {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %many = arith.constant 5 : i64
  %e = tensor.empty() : tensor<8xi64>
  %0 = linalg.generic {indexing_maps = [#q], iterator_types = ["parallel"]} outs(%e : tensor<8xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    %x = arith.addi %c, %one : i64
    %again = arith.addi %c, %one : i64
    %half = arith.divsi %x, %two : i64
    %twice = arith.muli %half, %two : i64
    %rest = arith.subi %again, %twice : i64
    %below = arith.cmpi slt, %rest, %zero : i64
    %some = arith.cmpi ne, %rest, %zero : i64
    %both = arith.andi %below, %some : i1
    %less = arith.subi %half, %one : i64
    %down = arith.select %both, %less, %half : i64
    %inside = arith.cmpi sle, %half, %many : i64
    %kept = arith.select %inside, %down, %zero : i64
    linalg.yield %kept : i64
  } -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// -----

// What may be negative keeps it.
// CHECK-LABEL: func.func @rounded_down_below_zero
// CHECK: arith.cmpi slt
#q = affine_map<(x) -> (x)>
func.func @rounded_down_below_zero() -> tensor<8xi64> {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %e = tensor.empty() : tensor<8xi64>
  %0 = linalg.generic {indexing_maps = [#q], iterator_types = ["parallel"]} outs(%e : tensor<8xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    %x = arith.subi %c, %one : i64
    %half = arith.divsi %x, %two : i64
    %twice = arith.muli %half, %two : i64
    %rest = arith.subi %x, %twice : i64
    %below = arith.cmpi slt, %rest, %zero : i64
    %less = arith.subi %half, %one : i64
    %down = arith.select %below, %less, %half : i64
    linalg.yield %down : i64
  } -> tensor<8xi64>
  return %0 : tensor<8xi64>
}
