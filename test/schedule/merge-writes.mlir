// RUN: inferno-opt -p 'merge-writes{target=sm_90a}' %s --split-input-file | FileCheck %s
// RUN: inferno-opt -p 'merge-writes{target=cpu}' %s --split-input-file | FileCheck %s --check-prefix=CPU

// Keys and values are written together, in front of who reads either; what is written to the result waits for it.

// CHECK-LABEL: func.func @main
// CHECK: %[[BOTH:.*]]:2 = call @put_writes(%arg2, %arg4, %arg0, %arg3, %arg1,
// CHECK: %[[AGAIN:.*]] = call @put(%arg3, %arg5, %[[BOTH]]#1,
// CHECK: return %[[BOTH]]#0, %[[AGAIN]]
// CHECK: func.func private @put_writes
// CHECK-SAME: inferno.schedule = {few = 16384 : i64, generator = "universal"
// CHECK-DAG: %[[K:.*]] = linalg.copy
// CHECK-DAG: %[[V:.*]] = linalg.copy
// CHECK-DAG: outs(%[[K]] :
// CHECK-DAG: outs(%[[V]] :
// CPU-LABEL: func.func @main
// CPU-COUNT-3: call @put(
module {
  func.func @main(%keys: tensor<64x16xf32>, %values: tensor<64x16xf32>, %k: tensor<1x1x16xf32>, %v: tensor<1x1x16xf32>, %at: tensor<1x1xi64>, %next: tensor<1x1xi64>)
      -> (tensor<64x16xf32>, tensor<64x16xf32>) {
    %e = tensor.empty() : tensor<64x16xf32>
    %f = tensor.empty() : tensor<64x16xf32>
    %g = tensor.empty() : tensor<64x16xf32>
    %a = call @put(%k, %at, %keys, %e) : (tensor<1x1x16xf32>, tensor<1x1xi64>, tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    %b = call @put(%v, %at, %values, %f) : (tensor<1x1x16xf32>, tensor<1x1xi64>, tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    %c = call @put(%v, %next, %b, %g) : (tensor<1x1x16xf32>, tensor<1x1xi64>, tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    return %a, %c : tensor<64x16xf32>, tensor<64x16xf32>
  }
  func.func private @put(%new: tensor<1x1x16xf32>, %at: tensor<1x1xi64>, %old: tensor<64x16xf32>, %to: tensor<64x16xf32>) -> tensor<64x16xf32>
      attributes {inferno.schedule = {few = 16384 : i64, generator = "universal", long = 1024 : i64, threads = 256 : i64}} {
    %0 = linalg.copy ins(%old : tensor<64x16xf32>) outs(%to : tensor<64x16xf32>) -> tensor<64x16xf32>
    %1 = tm_tensor.scatter {dimension_map = array<i64: 0>} unique_indices(true) ins(%new, %at : tensor<1x1x16xf32>, tensor<1x1xi64>) outs(%0 : tensor<64x16xf32>) {
    ^bb0(%x: f32, %y: f32):
      tm_tensor.yield %x : f32
    } -> tensor<64x16xf32>
    return %1 : tensor<64x16xf32>
  }
}
