// RUN: inferno-opt -p 'fuse-reductions{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'fuse-reductions{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// A sum, what is divided by it, the running values of that and these doubled: one kernel, which has the rows once.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows_sum_divide_scan_double]](%arg0, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[R]]
// CHECK: func.func private @[[K]](
// CHECK: "reduction"
// CHECK: tm_tensor.scan
// CHECK: linalg.generic
// CPU-LABEL: func.func @main
// CPU-COUNT-4: call
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024x4096xf32>
  %v = tensor.empty() : tensor<1024xf32>
  %s = call @sum(%x, %v) : (tensor<1024x4096xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %a = call @divide(%x, %s, %e) : (tensor<1024x4096xf32>, tensor<1024xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %b = call @scan(%a, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %d = call @double(%b, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  return %d : tensor<1024x4096xf32>
}
func.func private @sum(%x: tensor<1024x4096xf32>, %o: tensor<1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1024xf32>) -> tensor<1024xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x4096xf32>) outs(%f : tensor<1024xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}
func.func private @divide(%x: tensor<1024x4096xf32>, %s: tensor<1024xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %r = linalg.generic {indexing_maps = [#points, #row, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<1024x4096xf32>, tensor<1024xf32>) outs(%o : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.divf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<1024x4096xf32>
  return %r : tensor<1024x4096xf32>
}
func.func private @scan(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<1024x4096xf32>) outs(%o, %e : tensor<1024x4096xf32>, tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<1024x4096xf32>, tensor<1024xf32>
  return %r#0 : tensor<1024x4096xf32>
}
func.func private @double(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x4096xf32>) outs(%o : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<1024x4096xf32>
  return %r : tensor<1024x4096xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// Two scans, one behind the other.
// CHECK-LABEL: func.func @main
// CHECK: call @rows_scan_double_scan(
// CHECK-NOT: call
// CHECK: return
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024x4096xf32>
  %a = call @scan(%x, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %b = call @double(%a, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %d = call @scan(%b, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  return %d : tensor<1024x4096xf32>
}
func.func private @double(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x4096xf32>) outs(%o : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<1024x4096xf32>
  return %r : tensor<1024x4096xf32>
}
func.func private @scan(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<1024x4096xf32>) outs(%o, %e : tensor<1024x4096xf32>, tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<1024x4096xf32>, tensor<1024xf32>
  return %r#0 : tensor<1024x4096xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// A scan of what a sum is of, too.
// CHECK-LABEL: func.func @main
// CHECK: call @rows_scan_sum(
// CHECK-NOT: call
// CHECK: return
func.func @main(%x: tensor<1024x4096xf32>) -> (tensor<1024x4096xf32>, tensor<1024xf32>) {
  %e = tensor.empty() : tensor<1024x4096xf32>
  %v = tensor.empty() : tensor<1024xf32>
  %a = call @scan(%x, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %s = call @sum(%x, %v) : (tensor<1024x4096xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  return %a, %s : tensor<1024x4096xf32>, tensor<1024xf32>
}
func.func private @sum(%x: tensor<1024x4096xf32>, %o: tensor<1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1024xf32>) -> tensor<1024xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x4096xf32>) outs(%f : tensor<1024xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}
func.func private @scan(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<1024x4096xf32>) outs(%o, %e : tensor<1024x4096xf32>, tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<1024x4096xf32>, tensor<1024xf32>
  return %r#0 : tensor<1024x4096xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// A scan with maps alone is left to fuse-scans, for rows of any length.
// CHECK-LABEL: func.func @main
// CHECK: call @double
// CHECK: call @scan
// CHECK: call @double
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024x4096xf32>
  %a = call @double(%x, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %b = call @scan(%a, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %d = call @double(%b, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  return %d : tensor<1024x4096xf32>
}
func.func private @double(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x4096xf32>) outs(%o : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<1024x4096xf32>
  return %r : tensor<1024x4096xf32>
}
func.func private @scan(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<1024x4096xf32>) outs(%o, %e : tensor<1024x4096xf32>, tensor<1024xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<1024x4096xf32>, tensor<1024xf32>
  return %r#0 : tensor<1024x4096xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// One along the columns is of other rows.
// CHECK-LABEL: func.func @main
// CHECK: call @rows_sum_divide(
// CHECK: call @scan
// CHECK: call @double
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<1024x4096xf32>
  %v = tensor.empty() : tensor<1024xf32>
  %s = call @sum(%x, %v) : (tensor<1024x4096xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %a = call @divide(%x, %s, %e) : (tensor<1024x4096xf32>, tensor<1024xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %b = call @scan(%a, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  %d = call @double(%b, %e) : (tensor<1024x4096xf32>, tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  return %d : tensor<1024x4096xf32>
}
func.func private @sum(%x: tensor<1024x4096xf32>, %o: tensor<1024xf32>) -> tensor<1024xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1024xf32>) -> tensor<1024xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x4096xf32>) outs(%f : tensor<1024xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}
func.func private @divide(%x: tensor<1024x4096xf32>, %s: tensor<1024xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %r = linalg.generic {indexing_maps = [#points, #row, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<1024x4096xf32>, tensor<1024xf32>) outs(%o : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.divf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<1024x4096xf32>
  return %r : tensor<1024x4096xf32>
}
func.func private @scan(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %e = tensor.empty() : tensor<4096xf32>
  %r:2 = tm_tensor.scan dimension(0) inclusive(true) ins(%x : tensor<1024x4096xf32>) outs(%o, %e : tensor<1024x4096xf32>, tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<1024x4096xf32>, tensor<4096xf32>
  return %r#0 : tensor<1024x4096xf32>
}
func.func private @double(%x: tensor<1024x4096xf32>, %o: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x4096xf32>) outs(%o : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<1024x4096xf32>
  return %r : tensor<1024x4096xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// Rows that not even a cluster of blocks holds.
// CHECK-LABEL: func.func @main
// CHECK: call @rows_sum_divide(
// CHECK: call @scan
// CHECK: call @double
func.func @main(%x: tensor<64x400000xf32>) -> tensor<64x400000xf32> {
  %e = tensor.empty() : tensor<64x400000xf32>
  %v = tensor.empty() : tensor<64xf32>
  %s = call @sum(%x, %v) : (tensor<64x400000xf32>, tensor<64xf32>) -> tensor<64xf32>
  %a = call @divide(%x, %s, %e) : (tensor<64x400000xf32>, tensor<64xf32>, tensor<64x400000xf32>) -> tensor<64x400000xf32>
  %b = call @scan(%a, %e) : (tensor<64x400000xf32>, tensor<64x400000xf32>) -> tensor<64x400000xf32>
  %d = call @double(%b, %e) : (tensor<64x400000xf32>, tensor<64x400000xf32>) -> tensor<64x400000xf32>
  return %d : tensor<64x400000xf32>
}
func.func private @sum(%x: tensor<64x400000xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x400000xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @divide(%x: tensor<64x400000xf32>, %s: tensor<64xf32>, %o: tensor<64x400000xf32>) -> tensor<64x400000xf32> {
  %r = linalg.generic {indexing_maps = [#points, #row, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x400000xf32>, tensor<64xf32>) outs(%o : tensor<64x400000xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.divf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<64x400000xf32>
  return %r : tensor<64x400000xf32>
}
func.func private @scan(%x: tensor<64x400000xf32>, %o: tensor<64x400000xf32>) -> tensor<64x400000xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x400000xf32>) outs(%o, %e : tensor<64x400000xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x400000xf32>, tensor<64xf32>
  return %r#0 : tensor<64x400000xf32>
}
func.func private @double(%x: tensor<64x400000xf32>, %o: tensor<64x400000xf32>) -> tensor<64x400000xf32> {
  %r = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x400000xf32>) outs(%o : tensor<64x400000xf32>) {
  ^bb0(%a: f32, %old: f32):
    %y = arith.addf %a, %a : f32
    linalg.yield %y : f32
  } -> tensor<64x400000xf32>
  return %r : tensor<64x400000xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// What is returned takes elements of an argument where the running values say so, as top-p sampling does: it is no write to places of the argument,
// which would be done where that lies.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @rows_scan_sum_mask(
// CHECK-NOT: call
// CHECK: return %[[R]]
func.func @main(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
  %e = tensor.empty() : tensor<64x4096xf32>
  %v = tensor.empty() : tensor<64xf32>
  %s = call @scan(%x, %e) : (tensor<64x4096xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
  %n = call @sum(%s, %v) : (tensor<64x4096xf32>, tensor<64xf32>) -> tensor<64xf32>
  %m = call @mask(%x, %s, %n, %e) : (tensor<64x4096xf32>, tensor<64x4096xf32>, tensor<64xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
  return %m : tensor<64x4096xf32>
}
func.func private @scan(%x: tensor<64x4096xf32>, %o: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %r:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<64x4096xf32>) outs(%o, %e : tensor<64x4096xf32>, tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tm_tensor.yield %s : f32
  } -> tensor<64x4096xf32>, tensor<64xf32>
  return %r#0 : tensor<64x4096xf32>
}
func.func private @sum(%x: tensor<64x4096xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#points, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x4096xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.addf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
func.func private @mask(%x: tensor<64x4096xf32>, %s: tensor<64x4096xf32>, %n: tensor<64xf32>, %o: tensor<64x4096xf32>) -> tensor<64x4096xf32> {
  %least = arith.constant 0xFF800000 : f32
  %r = linalg.generic {indexing_maps = [#points, #points, #row, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s, %n : tensor<64x4096xf32>, tensor<64x4096xf32>, tensor<64xf32>) outs(%o : tensor<64x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %old: f32):
    %above = arith.cmpf ogt, %b, %c : f32
    %y = arith.select %above, %least, %a : f32
    linalg.yield %y : f32
  } -> tensor<64x4096xf32>
  return %r : tensor<64x4096xf32>
}

// -----

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// What the running values are multiplied by is a sum of another tensor's rows, which nothing in front of the product reads: it is of the same rows.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @rows_scan_sum_product(%arg0, %arg1, %{{.*}})
// CHECK-NOT: call
// CHECK: return %[[R]]
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call
module {
func.func @main(%x: tensor<300x256xf32>, %y: tensor<300x256xf32>) -> tensor<300x256xf32> {
  %e = tensor.empty() : tensor<300x256xf32>
  %f = tensor.empty() : tensor<300xf32>
  %a = call @scan(%x, %e) : (tensor<300x256xf32>, tensor<300x256xf32>) -> tensor<300x256xf32>
  %s = call @sum(%y, %f) : (tensor<300x256xf32>, tensor<300xf32>) -> tensor<300xf32>
  %p = call @product(%a, %s, %e) : (tensor<300x256xf32>, tensor<300xf32>, tensor<300x256xf32>) -> tensor<300x256xf32>
  return %p : tensor<300x256xf32>
}
func.func private @scan(%x: tensor<300x256xf32>, %out: tensor<300x256xf32>) -> tensor<300x256xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300xf32>
  %0 = linalg.fill ins(%cst : f32) outs(%e : tensor<300xf32>) -> tensor<300xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%out : tensor<300x256xf32>) -> tensor<300x256xf32>
  %2:2 = tm_tensor.scan dimension(1) inclusive(true) ins(%x : tensor<300x256xf32>) outs(%1, %0 : tensor<300x256xf32>, tensor<300xf32>) {
  ^bb0(%a: f32, %b: f32):
    %3 = arith.addf %a, %b : f32
    tm_tensor.yield %3 : f32
  } -> tensor<300x256xf32>, tensor<300xf32>
  return %2#0 : tensor<300x256xf32>
}
func.func private @sum(%y: tensor<300x256xf32>, %out: tensor<300xf32>) -> tensor<300xf32> {
  %cst = arith.constant 0.0 : f32
  %0 = linalg.fill ins(%cst : f32) outs(%out : tensor<300xf32>) -> tensor<300xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<300x256xf32>) outs(%0 : tensor<300xf32>) {
  ^bb0(%a: f32, %t: f32):
    %2 = arith.addf %a, %t : f32
    linalg.yield %2 : f32
  } -> tensor<300xf32>
  return %1 : tensor<300xf32>
}
func.func private @product(%x: tensor<300x256xf32>, %s: tensor<300xf32>, %out: tensor<300x256xf32>) -> tensor<300x256xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<300x256xf32>, tensor<300xf32>)
      outs(%out : tensor<300x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.mulf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<300x256xf32>
  return %0 : tensor<300x256xf32>
}
}
