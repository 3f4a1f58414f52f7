// RUN: inferno-opt -p 'fuse-reductions{target=sm_90a}' %s --split-input-file | FileCheck %s

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// What is left of rows less their largest without the last point, as attention's weights beside a sink: the kernel that has the rows writes the part alone.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](%arg0, %{{.*}}) {{.*}} : (tensor<4096x513xf32>, tensor<4096x512xf32>) -> tensor<4096x512xf32>
// CHECK-NEXT: return %[[R]]
func.func @main(%x: tensor<4096x513xf32>) -> tensor<4096x512xf32> {
  %e = tensor.empty() : tensor<4096xf32>
  %f = tensor.empty() : tensor<4096x513xf32>
  %g = tensor.empty() : tensor<4096x512xf32>
  %m = call @max(%x, %e) : (tensor<4096x513xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %d = call @sub(%x, %m, %f) : (tensor<4096x513xf32>, tensor<4096xf32>, tensor<4096x513xf32>) -> tensor<4096x513xf32>
  %p = call @part(%d, %g) : (tensor<4096x513xf32>, tensor<4096x512xf32>) -> tensor<4096x512xf32>
  return %p : tensor<4096x512xf32>
}
func.func private @max(%x: tensor<4096x513xf32>, %o: tensor<4096xf32>) -> tensor<4096xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4096xf32>) -> tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x513xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.maximumf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}
func.func private @sub(%x: tensor<4096x513xf32>, %m: tensor<4096xf32>, %o: tensor<4096x513xf32>) -> tensor<4096x513xf32> {
  %r = linalg.generic {indexing_maps = [#points, #rows, #points], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<4096x513xf32>, tensor<4096xf32>) outs(%o : tensor<4096x513xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.subf %a, %b : f32
    linalg.yield %y : f32
  } -> tensor<4096x513xf32>
  return %r : tensor<4096x513xf32>
}
func.func private @part(%x: tensor<4096x513xf32>, %o: tensor<4096x512xf32>) -> tensor<4096x512xf32> {
  %s = tensor.extract_slice %x[0, 0] [4096, 512] [1, 1] : tensor<4096x513xf32> to tensor<4096x512xf32>
  %r = linalg.copy ins(%s : tensor<4096x512xf32>) outs(%o : tensor<4096x512xf32>) -> tensor<4096x512xf32>
  return %r : tensor<4096x512xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// Rows less their largest beside a narrower tensor: one kernel writes both pieces.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = call @[[K:rows[a-z_0-9]*]](%arg0, %arg1, %{{.*}}) {{.*}} : (tensor<4096x512xf32>, tensor<4096x64xf32>, tensor<4096x576xf32>) -> tensor<4096x576xf32>
// CHECK-NEXT: return %[[R]]
// CHECK: func.func private @[[K]](
// CHECK-COUNT-2: linalg.generic
// CHECK: scf.if
func.func @main(%x: tensor<4096x512xf32>, %y: tensor<4096x64xf32>) -> tensor<4096x576xf32> {
  %e = tensor.empty() : tensor<4096xf32>
  %f = tensor.empty() : tensor<4096x576xf32>
  %m = call @max(%x, %e) : (tensor<4096x512xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %p = call @pieces(%x, %m, %y, %f) : (tensor<4096x512xf32>, tensor<4096xf32>, tensor<4096x64xf32>, tensor<4096x576xf32>) -> tensor<4096x576xf32>
  return %p : tensor<4096x576xf32>
}
func.func private @max(%x: tensor<4096x512xf32>, %o: tensor<4096xf32>) -> tensor<4096xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4096xf32>) -> tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x512xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.maximumf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}
func.func private @pieces(%x: tensor<4096x512xf32>, %m: tensor<4096xf32>, %y: tensor<4096x64xf32>, %o: tensor<4096x576xf32>) -> tensor<4096x576xf32> {
  %n = arith.constant 512 : index
  %r = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<4096x576xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %first = arith.cmpi ult, %j, %n : index
    %v = scf.if %first -> (f32) {
      %a = tensor.extract %x[%i, %j] : tensor<4096x512xf32>
      %b = tensor.extract %m[%i] : tensor<4096xf32>
      %d = arith.subf %a, %b : f32
      scf.yield %d : f32
    } else {
      %k = arith.subi %j, %n : index
      %a = tensor.extract %y[%i, %k] : tensor<4096x64xf32>
      scf.yield %a : f32
    }
    linalg.yield %v : f32
  } -> tensor<4096x576xf32>
  return %r : tensor<4096x576xf32>
}

// -----

#points = affine_map<(r, c) -> (r, c)>
#rows = affine_map<(r, c) -> (r)>

// A part of an argument does not join the largest of what it is a part of.
// CHECK-LABEL: func.func @main
// CHECK: call @part
// CHECK: call @max
func.func @main(%x: tensor<4096x513xf32>) -> (tensor<4096x512xf32>, tensor<4096xf32>) {
  %e = tensor.empty() : tensor<4096xf32>
  %g = tensor.empty() : tensor<4096x512xf32>
  %p = call @part(%x, %g) : (tensor<4096x513xf32>, tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %m = call @max(%x, %e) : (tensor<4096x513xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  return %p, %m : tensor<4096x512xf32>, tensor<4096xf32>
}
func.func private @max(%x: tensor<4096x513xf32>, %o: tensor<4096xf32>) -> tensor<4096xf32> {
  %z = arith.constant 0xFF800000 : f32
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<4096xf32>) -> tensor<4096xf32>
  %r = linalg.generic {indexing_maps = [#points, #rows], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x513xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %s: f32):
    %y = arith.maximumf %a, %s : f32
    linalg.yield %y : f32
  } -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}
func.func private @part(%x: tensor<4096x513xf32>, %o: tensor<4096x512xf32>) -> tensor<4096x512xf32> {
  %s = tensor.extract_slice %x[0, 0] [4096, 512] [1, 1] : tensor<4096x513xf32> to tensor<4096x512xf32>
  %r = linalg.copy ins(%s : tensor<4096x512xf32>) outs(%o : tensor<4096x512xf32>) -> tensor<4096x512xf32>
  return %r : tensor<4096x512xf32>
}
