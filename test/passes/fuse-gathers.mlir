// RUN: inferno-opt -p fuse-gathers %s --split-input-file | FileCheck %s

// One element a row of what is computed of three tensors: nothing of the full size is made.
// CHECK-LABEL: @picked
// CHECK: linalg.generic
// CHECK-SAME: ins(%{{.*}} : tensor<8xindex>)
// CHECK: %[[ROW:.*]] = linalg.index 0
// CHECK: %[[X:.*]] = tensor.extract %{{.*}}[%[[ROW]], %[[AT:.*]]] : tensor<8x100xf32>
// CHECK: %[[M:.*]] = tensor.extract %{{.*}}[%[[ROW]]] : tensor<8xf32>
// CHECK: arith.subf %[[X]], %[[M]]
func.func @picked(%x: tensor<8x100xf32>, %m: tensor<8xf32>, %i: tensor<8xindex>, %e: tensor<8x100xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %d = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<8x100xf32>, tensor<8xf32>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %y = arith.subf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<8x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<8xindex>) outs(%o : tensor<8xf32>) {
  ^bb0(%at: index, %old: f32):
    %row = linalg.index 0 : index
    %v = tensor.extract %d[%row, %at] : tensor<8x100xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// A transposed result, a constant place and the number of a loop.
// CHECK-LABEL: @places
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: tensor.extract %{{.*}}[%[[COLUMN:.*]], %[[ZERO]]] : tensor<100x1xf32>
// CHECK: arith.index_cast %[[COLUMN]]
func.func @places(%x: tensor<100x1xf32>, %i: tensor<8xindex>, %e: tensor<8x100xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %d = linalg.generic {indexing_maps = [affine_map<(b,a) -> (b,0)>, affine_map<(b,a) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<100x1xf32>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %n = linalg.index 0 : index
    %j = arith.index_cast %n : index to i32
    %f = arith.sitofp %j : i32 to f32
    %y = arith.addf %p, %f : f32
    linalg.yield %y : f32
  } -> tensor<8x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<8xindex>) outs(%o : tensor<8xf32>) {
  ^bb0(%at: index, %old: f32):
    %row = linalg.index 0 : index
    %v = tensor.extract %d[%row, %at] : tensor<8x100xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Another reader, and more picks than elements: both stay.
// CHECK-LABEL: @stays
// CHECK: %[[D:.*]] = linalg.generic
// CHECK: tensor.extract %[[D]]
// CHECK: %[[F:.*]] = linalg.generic
// CHECK: tensor.extract %[[F]]
func.func @stays(%x: tensor<8xf32>, %i: tensor<9xindex>, %e: tensor<8xf32>, %o: tensor<9xf32>) -> (tensor<9xf32>, tensor<8xf32>, tensor<9xf32>) {
  %d = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %old: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<9xindex>) outs(%o : tensor<9xf32>) {
  ^bb0(%at: index, %old: f32):
    %v = tensor.extract %d[%at] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<9xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %old: f32):
    %y = math.log %p : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<9xindex>) outs(%o : tensor<9xf32>) {
  ^bb0(%at: index, %old: f32):
    %v = tensor.extract %f[%at] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<9xf32>
  return %r, %d, %s : tensor<9xf32>, tensor<8xf32>, tensor<9xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>

// A flip of a flip, transposed, is a transposition.
// CHECK-LABEL: @back
// CHECK-COUNT-1: linalg.generic
// CHECK-SAME: ins(%arg0 : tensor<4x100xf32>)
// CHECK-NOT: tensor.extract
// CHECK: return
func.func @back(%x: tensor<4x100xf32>, %e: tensor<4x100xf32>, %o: tensor<100x4xf32>) -> tensor<100x4xf32> {
  %end = arith.constant 99 : index
  %d = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x100xf32>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %end, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x100xf32>
  %r = linalg.generic {indexing_maps = [#transposed, #points], iterator_types = ["parallel", "parallel"]}
      ins(%d : tensor<4x100xf32>) outs(%o : tensor<100x4xf32>) {
  ^bb0(%p: f32, %old: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 0 : index
    %k = arith.subi %end, %j : index
    %v = tensor.extract %d[%i, %k] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<100x4xf32>
  return %r : tensor<100x4xf32>
}

// -----

// A row of a slice of every other column: an element of the whole tensor, whose dimension of one place the slice has not.
// CHECK-LABEL: @part
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[D:.*]] = arith.muli %{{.*}}, %c2
// CHECK: %[[C:.*]] = arith.addi %[[D]], %c5
// CHECK: tensor.extract %arg0[%{{.*}}, %c3{{.*}}, %[[C]]]
func.func @part(%x: tensor<8x4x100xf32>, %i: tensor<6xindex>, %o: tensor<6xf32>) -> tensor<6xf32> {
  %p = tensor.extract_slice %x[0, 3, 5] [8, 1, 40] [1, 1, 2] : tensor<8x4x100xf32> to tensor<8x40xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<6xindex>) outs(%o : tensor<6xf32>) {
  ^bb0(%at: index, %old: f32):
    %row = linalg.index 0 : index
    %v = tensor.extract %p[%row, %at] : tensor<8x40xf32>
    linalg.yield %v : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#transposed = affine_map<(r, c) -> (c, r)>

// Whole rows of a product are picked of both factors, but not where a factor lies across them.
// CHECK-LABEL: @rows
// CHECK: linalg.generic
// CHECK: tensor.extract %arg0[%[[I:.*]], %{{.*}}]
// CHECK: tensor.extract %arg0[%[[I]], %{{.*}}]
// CHECK: %[[D:.*]] = linalg.generic
// CHECK: linalg.generic
// CHECK: tensor.extract %[[D]]
func.func @rows(%x: tensor<40x40xf32>, %i: tensor<40xindex>, %e: tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>) {
  %d = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<40x40xf32>, tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %m = arith.mulf %p, %q : f32
    linalg.yield %m : f32
  } -> tensor<40x40xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, #points], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<40xindex>) outs(%e : tensor<40x40xf32>) {
  ^bb0(%at: index, %old: f32):
    %c = linalg.index 1 : index
    %v = tensor.extract %d[%at, %c] : tensor<40x40xf32>
    linalg.yield %v : f32
  } -> tensor<40x40xf32>
  %t = linalg.generic {indexing_maps = [#points, #transposed, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %x : tensor<40x40xf32>, tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %m = arith.mulf %p, %q : f32
    linalg.yield %m : f32
  } -> tensor<40x40xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r)>, #points], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<40xindex>) outs(%e : tensor<40x40xf32>) {
  ^bb0(%at: index, %old: f32):
    %c = linalg.index 1 : index
    %v = tensor.extract %t[%at, %c] : tensor<40x40xf32>
    linalg.yield %v : f32
  } -> tensor<40x40xf32>
  return %r, %s : tensor<40x40xf32>, tensor<40x40xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>

// Of what begins at the loops' numbers but goes on behind them a part is an operand.
// CHECK-LABEL: @longer
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0[0, 0] [4, 98] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[PART]] : tensor<4x98xf32>) outs(
// CHECK-NOT: tensor.extract %
func.func @longer(%x: tensor<4x100xf32>, %e: tensor<4x100xf32>, %o: tensor<4x98xf32>) -> tensor<4x98xf32> {
  %d = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x100xf32>) outs(%e : tensor<4x100xf32>) {
  ^bb0(%p: f32, %old: f32):
    %m = math.rsqrt %p : f32
    linalg.yield %m : f32
  } -> tensor<4x100xf32>
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<4x98xf32>) {
  ^bb0(%old: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %v = tensor.extract %d[%r, %c] : tensor<4x100xf32>
    linalg.yield %v : f32
  } -> tensor<4x98xf32>
  return %r : tensor<4x98xf32>
}

// -----

// An element that is picked twice is computed once: of a window's powers no more are needed than there are elements.
// CHECK-LABEL: @twice
// CHECK-NOT: linalg.generic {{.*}} ins(%{{.*}} : tensor<8xf32>)
// CHECK: tensor.extract %arg0
// CHECK: math.exp
func.func @twice(%x: tensor<8xf32>, %e: tensor<8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %two = arith.constant 2 : index
  %d = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %old: f32):
    %y = math.exp %p : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%o : tensor<4xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %at = arith.muli %i, %two : index
    %v = tensor.extract %d[%at] : tensor<8xf32>
    %w = tensor.extract %d[%at] : tensor<8xf32>
    %next = arith.addi %at, %i : index
    %z = tensor.extract %d[%next] : tensor<8xf32>
    %p = arith.mulf %v, %w : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Of what is padded more is picked than there is, and all that is left of it is a choice: the tensor or the number beside it.
// CHECK-LABEL: @unfolded
// CHECK-COUNT-1: linalg.generic
// CHECK: scf.if
// CHECK: tensor.extract %arg0
// CHECK-NOT: linalg.generic
func.func @unfolded(%x: tensor<8xf32>, %e: tensor<10xf32>, %o: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %p = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]} outs(%e : tensor<10xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %at = arith.subi %i, %one : index
    %in = arith.cmpi ult, %at, %eight : index
    %c = scf.if %in -> (f32) {
      %v = tensor.extract %x[%at] : tensor<8xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %c : f32
  } -> tensor<10xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<3x8xf32>) {
  ^bb0(%old: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %at = arith.addi %a, %b : index
    %v = tensor.extract %p[%at] : tensor<10xf32>
    linalg.yield %v : f32
  } -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// -----

// Who has a tensor for its sizes alone, of which it picks, has those of what the tensor is made of.
// CHECK-LABEL: @sized
// CHECK-COUNT-1: linalg.generic
// CHECK-SAME: ins(%arg0 : tensor<4x8xf16>)
// CHECK: tensor.extract %arg0
// CHECK: tensor.extract %arg1
// CHECK-NOT: linalg.generic
func.func @sized(%x: tensor<4x8xf16>, %y: tensor<4x8xf32>, %e: tensor<4x8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %last = arith.constant 7 : index
  %p = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<4x8xf16>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f16, %w: f32, %old: f32):
    %u = arith.extf %v : f16 to f32
    %m = arith.mulf %u, %w : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>], iterator_types = ["reduction", "parallel"]}
      ins(%p : tensor<4x8xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%size: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %at = arith.subi %last, %j : index
    %v = tensor.extract %p[%i, %at] : tensor<4x8xf32>
    %s = arith.addf %v, %old : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// What is only made wider is picked as narrow as it is, however often.
// CHECK-LABEL: @widened
// CHECK-COUNT-2: tensor.extract %{{.*}} : tensor<8x100xbf16>
// CHECK-NOT: tensor<8x100xf32>
func.func @widened(%x: tensor<8x100xbf16>, %i: tensor<8x100x2xindex>, %o: tensor<8x100x2xf32>) -> tensor<8x100x2xf32> {
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<8x100xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x100xbf16>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%p: bf16, %old: f32):
    %y = arith.extf %p : bf16 to f32
    linalg.yield %y : f32
  } -> tensor<8x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b,c) -> (a,b,c)>, affine_map<(a,b,c) -> (a,b,c)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%i : tensor<8x100x2xindex>) outs(%o : tensor<8x100x2xf32>) {
  ^bb0(%at: index, %old: f32):
    %row = linalg.index 0 : index
    %u = tensor.extract %t[%row, %at] : tensor<8x100xf32>
    %next = arith.addi %at, %one : index
    %v = tensor.extract %t[%row, %next] : tensor<8x100xf32>
    %z = arith.addf %u, %v : f32
    linalg.yield %z : f32
  } -> tensor<8x100x2xf32>
  return %r : tensor<8x100x2xf32>
}

// -----

// An element that is picked twice at one place is read once, of however many tensors it is made.
// CHECK-LABEL: @one_place
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @one_place(%x: tensor<8x100xf32>, %w: tensor<8x100xf32>, %z: tensor<8x100xf32>, %o: tensor<8x200xf32>) -> tensor<8x200xf32> {
  %half = arith.constant 100 : index
  %e = tensor.empty() : tensor<8x100xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %w : tensor<8x100xf32>, tensor<8x100xf32>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%p: f32, %q: f32, %old: f32):
    %y = arith.addf %p, %q : f32
    %f = math.floor %y : f32
    linalg.yield %f : f32
  } -> tensor<8x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<8x200xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi ult, %j, %half : index
    %v = scf.if %c -> (f32) {
      %a = tensor.extract %t[%i, %j] : tensor<8x100xf32>
      %b = tensor.extract %t[%i, %j] : tensor<8x100xf32>
      %m = arith.mulf %a, %b : f32
      scf.yield %m : f32
    } else {
      %k = arith.subi %j, %half : index
      %n = tensor.extract %z[%i, %k] : tensor<8x100xf32>
      scf.yield %n : f32
    }
    linalg.yield %v : f32
  } -> tensor<8x200xf32>
  return %r : tensor<8x200xf32>
}

// -----

// Of differences each point picks two: they are made again of tensors that are no larger, and what is computed of numbers alone is not.
// CHECK-LABEL: @differences
// CHECK-COUNT-1: linalg.generic
// CHECK: %[[G:.*]] = tensor.extract %arg0[]
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[G]]
// CHECK: scf.if
// CHECK: arith.mulf %{{.*}}, %[[Q]]
// CHECK-NOT: arith.divf
// CHECK-NOT: linalg.generic
func.func @differences(%g: tensor<f32>, %x: tensor<8x101xf32>, %o: tensor<8x101xf32>) -> tensor<8x101xf32> {
  %last = arith.constant 100 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 3.0 : f32
  %p = tensor.extract_slice %x[0, 1] [8, 100] [1, 1] : tensor<8x101xf32> to tensor<8x100xf32>
  %q = tensor.extract_slice %x[0, 0] [8, 100] [1, 1] : tensor<8x101xf32> to tensor<8x100xf32>
  %e = tensor.empty() : tensor<8x100xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> ()>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%p, %q, %g : tensor<8x100xf32>, tensor<8x100xf32>, tensor<f32>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%a: f32, %b: f32, %w: f32, %old: f32):
    %d = arith.subf %a, %b : f32
    %s = arith.divf %w, %n : f32
    %y = arith.mulf %d, %s : f32
    linalg.yield %y : f32
  } -> tensor<8x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<8x101xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi ult, %j, %last : index
    %u = scf.if %c -> (f32) {
      %a = tensor.extract %t[%i, %j] : tensor<8x100xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    %k = arith.subi %j, %one : index
    %b = arith.cmpi ult, %k, %last : index
    %v = scf.if %b -> (f32) {
      %a = tensor.extract %t[%i, %k] : tensor<8x100xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    %z = arith.subf %v, %u : f32
    linalg.yield %z : f32
  } -> tensor<8x101xf32>
  return %r : tensor<8x101xf32>
}

// -----

// Those of two tensors as large as they are would be read as often.
// CHECK-LABEL: @of_two
// CHECK-COUNT-2: linalg.generic
func.func @of_two(%x: tensor<8x100xf32>, %w: tensor<8x100xf32>, %o: tensor<8x101xf32>) -> tensor<8x101xf32> {
  %last = arith.constant 100 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x100xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %w : tensor<8x100xf32>, tensor<8x100xf32>) outs(%e : tensor<8x100xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<8x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<8x101xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi ult, %j, %last : index
    %u = scf.if %c -> (f32) {
      %a = tensor.extract %t[%i, %j] : tensor<8x100xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    %k = arith.subi %j, %one : index
    %b = arith.cmpi ult, %k, %last : index
    %v = scf.if %b -> (f32) {
      %a = tensor.extract %t[%i, %k] : tensor<8x100xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    %z = arith.subf %v, %u : f32
    linalg.yield %z : f32
  } -> tensor<8x101xf32>
  return %r : tensor<8x101xf32>
}

// -----

// Of a slice whose sizes vary, which begins at a number.
// CHECK-LABEL: @of_a_slice_of_any_size
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[LOOP:.*]] = linalg.index 0
// CHECK: %[[AT:.*]] = arith.addi %[[LOOP]], %{{.*}}
// CHECK: tensor.extract %arg0[%{{.*}}, %[[AT]]] : tensor<?x?xf32>
func.func @of_a_slice_of_any_size(%x: tensor<?x?xf32>, %i: tensor<?xindex>, %n: index, %m: index, %o: tensor<?xf32>) -> tensor<?xf32> {
  %part = tensor.extract_slice %x[0, 3] [%n, %m] [1, 1] : tensor<?x?xf32> to tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<?xindex>) outs(%o : tensor<?xf32>) {
  ^bb0(%at: index, %old: f32):
    %column = linalg.index 0 : index
    %v = tensor.extract %part[%at, %column] : tensor<?x?xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>

// An image that is twice as high gathers each row twice: products are made again, exponentials stay.
// CHECK-LABEL: @twice
// CHECK: %[[E:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: linalg.generic
// CHECK: %[[X:.*]] = tensor.extract %arg0
// CHECK: arith.mulf %[[X]], %[[X]]
// CHECK: linalg.generic
// CHECK: tensor.extract %[[E]]
func.func @twice(%x: tensor<20x40xf32>, %e: tensor<20x40xf32>, %o: tensor<40x40xf32>) -> (tensor<40x40xf32>, tensor<40x40xf32>) {
  %two = arith.constant 2 : index
  %d = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<20x40xf32>) outs(%e : tensor<20x40xf32>) {
  ^bb0(%p: f32, %old: f32):
    %m = arith.mulf %p, %p : f32
    linalg.yield %m : f32
  } -> tensor<20x40xf32>
  %f = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<20x40xf32>) outs(%e : tensor<20x40xf32>) {
  ^bb0(%p: f32, %old: f32):
    %m = math.exp %p : f32
    linalg.yield %m : f32
  } -> tensor<20x40xf32>
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<40x40xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %c = linalg.index 1 : index
    %at = arith.divsi %i, %two : index
    %v = tensor.extract %d[%at, %c] : tensor<20x40xf32>
    linalg.yield %v : f32
  } -> tensor<40x40xf32>
  %s = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<40x40xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %c = linalg.index 1 : index
    %at = arith.divsi %i, %two : index
    %v = tensor.extract %f[%at, %c] : tensor<20x40xf32>
    linalg.yield %v : f32
  } -> tensor<40x40xf32>
  return %r, %s : tensor<40x40xf32>, tensor<40x40xf32>
}
