// RUN: inferno-opt %s --pass-pipeline='inferno-fuse,merge-maps{target=sm_90a}' --split-input-file | FileCheck %s

#points = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>

/// A sum that is given back, and what is made of it: the kernel has two results, and nothing reads the sum from memory.
// CHECK-LABEL: func.func @main
// CHECK: call @addf_tanh(%arg0, %arg1,
// CHECK-NOT: call
// CHECK-LABEL: func.func private @addf_tanh
// CHECK: linalg.generic
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: %[[T:.*]] = math.tanh %[[SUM]]
// CHECK: linalg.yield %[[SUM]], %[[T]]
func.func @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %e = tensor.empty() : tensor<512x512xf32>
  %s = linalg.generic {indexing_maps = [#points, #points, #points], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<512x512xf32>, tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %w = arith.addf %a, %b : f32
    linalg.yield %w : f32
  } -> tensor<512x512xf32>
  %t = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %w = math.tanh %a : f32
    linalg.yield %w : f32
  } -> tensor<512x512xf32>
  return %t, %s : tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>

/// What is read in two orders stays in memory: the kernel could make the one or the other.
// CHECK-LABEL: func.func @main
// CHECK: call @
// CHECK: call @
func.func @main(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %e = tensor.empty() : tensor<512x512xf32>
  %s = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %w = math.exp %a : f32
    linalg.yield %w : f32
  } -> tensor<512x512xf32>
  %t = linalg.generic {indexing_maps = [#points, #transposed, #points], iterator_types = ["parallel", "parallel"]} ins(%s, %s : tensor<512x512xf32>, tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %w = arith.addf %a, %b : f32
    linalg.yield %w : f32
  } -> tensor<512x512xf32>
  return %t, %s : tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

#points = affine_map<(d0, d1) -> (d0, d1)>

/// A sine and a cosine read their angles once.
// CHECK-LABEL: func.func @main
// CHECK: call @sin_cos(%arg0,
// CHECK-NOT: call
// CHECK-LABEL: func.func private @sin_cos
// CHECK: %[[S:.*]] = math.sin %[[ANGLE:.*]] :
// CHECK: %[[C:.*]] = math.cos %[[ANGLE]] :
// CHECK: linalg.yield %[[S]], %[[C]]
func.func @main(%x: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %e = tensor.empty() : tensor<512x512xf32>
  %s = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %w = math.sin %a : f32
    linalg.yield %w : f32
  } -> tensor<512x512xf32>
  %t = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<512x512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %w = math.cos %a : f32
    linalg.yield %w : f32
  } -> tensor<512x512xf32>
  return %s, %t : tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

#row = affine_map<(d0) -> (d0)>
#points = affine_map<(d0, d1) -> (d0, d1)>

/// Two columns of rows of three lie in the same sectors, which are read once; halves of long rows are apart, and stay so.
// CHECK-LABEL: func.func @main
// CHECK: call @exp_sin(%arg0,
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: call @exp{{.*}}(%arg1,
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: call @sin{{.*}}(%arg1,
// CHECK-NOT: call
// CHECK-LABEL: func.func private @exp_sin
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[S:.*]] = math.sin
// CHECK: linalg.yield %[[E]], %[[S]]
func.func @main(%x: tensor<1048576x3xf32>, %y: tensor<4096x2048xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
  %a = tensor.extract_slice %x[0, 0] [1048576, 1] [1, 1] : tensor<1048576x3xf32> to tensor<1048576xf32>
  %b = tensor.extract_slice %x[0, 2] [1048576, 1] [1, 1] : tensor<1048576x3xf32> to tensor<1048576xf32>
  %e = tensor.empty() : tensor<1048576xf32>
  %0 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%a : tensor<1048576xf32>) outs(%e : tensor<1048576xf32>) {
  ^bb0(%v: f32, %o: f32):
    %w = math.exp %v : f32
    linalg.yield %w : f32
  } -> tensor<1048576xf32>
  %1 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%b : tensor<1048576xf32>) outs(%e : tensor<1048576xf32>) {
  ^bb0(%v: f32, %o: f32):
    %w = math.sin %v : f32
    linalg.yield %w : f32
  } -> tensor<1048576xf32>
  %c = tensor.extract_slice %y[0, 0] [4096, 1024] [1, 1] : tensor<4096x2048xf32> to tensor<4096x1024xf32>
  %d = tensor.extract_slice %y[0, 1024] [4096, 1024] [1, 1] : tensor<4096x2048xf32> to tensor<4096x1024xf32>
  %f = tensor.empty() : tensor<4096x1024xf32>
  %2 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<4096x1024xf32>) outs(%f : tensor<4096x1024xf32>) {
  ^bb0(%v: f32, %o: f32):
    %w = math.exp %v : f32
    linalg.yield %w : f32
  } -> tensor<4096x1024xf32>
  %3 = linalg.generic {indexing_maps = [#points, #points], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<4096x1024xf32>) outs(%f : tensor<4096x1024xf32>) {
  ^bb0(%v: f32, %o: f32):
    %w = math.sin %v : f32
    linalg.yield %w : f32
  } -> tensor<4096x1024xf32>
  return %0, %1, %2, %3 : tensor<1048576xf32>, tensor<1048576xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>
}
