// RUN: inferno-opt -p fuse-gathers %s --split-input-file | FileCheck %s
// What is picked, and read by others, too.

// Of what is padded, a row further is picked of the tensor itself: the padded one need not be in memory for it.
// CHECK-LABEL: @moved
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract %arg0
// CHECK: linalg.generic {{.*}} ins(%[[Y]] : tensor<9x64xf32>)
// CHECK-NOT: tensor.extract %[[Y]]
// CHECK: tensor.extract %arg0
// CHECK-NOT: tensor.extract %[[Y]]
func.func @moved(%x: tensor<8x64xf32>, %o: tensor<9x64xf32>, %p: tensor<9x64xf32>) -> (tensor<9x64xf32>, tensor<9x64xf32>) {
  %last = arith.constant 8 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %y = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<9x64xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %i, %one : index
    %c = arith.cmpi ult, %k, %last : index
    %u = scf.if %c -> (f32) {
      %a = tensor.extract %x[%k, %j] : tensor<8x64xf32>
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %u : f32
  } -> tensor<9x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<9x64xf32>) outs(%p : tensor<9x64xf32>) {
  ^bb0(%a: f32, %old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %i, %one : index
    %c = arith.cmpi ult, %k, %last : index
    %u = scf.if %c -> (f32) {
      %b = tensor.extract %y[%k, %j] : tensor<9x64xf32>
      scf.yield %b : f32
    } else {
      scf.yield %zero : f32
    }
    %d = arith.subf %a, %u : f32
    linalg.yield %d : f32
  } -> tensor<9x64xf32>
  return %y, %r : tensor<9x64xf32>, tensor<9x64xf32>
}

// -----

// A few of many exponentials, which a sum reads, are made of the tensor and the rows' maxima.
// CHECK-LABEL: @few
// CHECK: arith.maximumf
// CHECK: %[[E:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} ins(%[[E]]
// CHECK: linalg.generic
// CHECK-NOT: tensor.extract %[[E]]
// CHECK: %[[X:.*]] = tensor.extract %arg0
// CHECK: math.exp
func.func @few(%x: tensor<8x1024xf32>, %i: tensor<8xindex>, %m: tensor<8xf32>, %s: tensor<8xf32>, %o: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %n = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8x1024xf32>) outs(%m : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.maximumf %a, %old : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %e0 = tensor.empty() : tensor<8x1024xf32>
  %e = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %n : tensor<8x1024xf32>, tensor<8xf32>) outs(%e0 : tensor<8x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %d = arith.subf %a, %b : f32
    %v = math.exp %d : f32
    linalg.yield %v : f32
  } -> tensor<8x1024xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a)>], iterator_types = ["parallel", "reduction"]}
      ins(%e : tensor<8x1024xf32>) outs(%s : tensor<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = arith.addf %a, %old : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
      ins(%i : tensor<8xindex>) outs(%o : tensor<8xf32>) {
  ^bb0(%at: index, %old: f32):
    %row = linalg.index 0 : index
    %v = tensor.extract %e[%row, %at] : tensor<8x1024xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %t, %r : tensor<8xf32>, tensor<8xf32>
}

// -----

// Of what is in memory anyway it is picked, where it is most of it.
// CHECK-LABEL: @most
// CHECK: %[[E:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: tensor.extract %[[E]]
func.func @most(%x: tensor<8x1024xf32>, %i: tensor<8xindex>, %o: tensor<8x1024xf32>) -> (tensor<8x1024xf32>, tensor<8x1024xf32>) {
  %e = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a,b)>, affine_map<(a,b) -> (a,b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x1024xf32>) outs(%o : tensor<8x1024xf32>) {
  ^bb0(%a: f32, %old: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8x1024xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a,b) -> (a)>, affine_map<(a,b) -> (a,b)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<8xindex>) outs(%o : tensor<8x1024xf32>) {
  ^bb0(%at: index, %old: f32):
    %column = linalg.index 1 : index
    %v = tensor.extract %e[%at, %column] : tensor<8x1024xf32>
    linalg.yield %v : f32
  } -> tensor<8x1024xf32>
  return %e, %r : tensor<8x1024xf32>, tensor<8x1024xf32>
}
