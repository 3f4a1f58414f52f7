// RUN: inferno-opt -p 'mark-overwrites,bundle-updates{target=sm_90a}' %s | FileCheck %s

// Two counts are changed by one launch, each in its place, behind who reads the second one as it was; what only makes a tensor stays.

// CHECK-LABEL: func.func @main
// CHECK: call @read(%arg1,
// CHECK: %[[BOTH:.*]]:2 = call @count_updates(%arg0, %arg1,
// CHECK: return %[[BOTH]]#0, %[[BOTH]]#1
// CHECK: func.func private @count_updates
// CHECK-SAME: inferno.overwrites = [array<i64: 0>, array<i64: 1>]
// CHECK-SAME: generator = "bundle"
#same = affine_map<(i) -> (i)>
module attributes {inferno.bundles} {
  func.func @main(%a: tensor<64xi64>, %b: tensor<64xi64>) -> (tensor<64xi64>, tensor<64xi64>, tensor<64xi64>) {
    %e = tensor.empty() : tensor<64xi64>
    %f = tensor.empty() : tensor<64xi64>
    %g = tensor.empty() : tensor<64xi64>
    %x = call @count(%a, %e) : (tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
    %y = call @read(%b, %f) : (tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
    %z = call @count(%b, %g) : (tensor<64xi64>, tensor<64xi64>) -> tensor<64xi64>
    return %x, %z, %y : tensor<64xi64>, tensor<64xi64>, tensor<64xi64>
  }
  func.func private @count(%a: tensor<64xi64>, %to: tensor<64xi64>) -> tensor<64xi64>
      attributes {inferno.schedule = {across = 1 : i64, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 1 : i64, vector = 1 : i64}} {
    %one = arith.constant 1 : i64
    %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]} ins(%a : tensor<64xi64>) outs(%to : tensor<64xi64>) {
    ^bb0(%in: i64, %out: i64):
      %1 = arith.addi %in, %one : i64
      linalg.yield %1 : i64
    } -> tensor<64xi64>
    return %0 : tensor<64xi64>
  }
  func.func private @read(%a: tensor<64xi64>, %to: tensor<64xi64>) -> tensor<64xi64>
      attributes {inferno.schedule = {few = 16384 : i64, generator = "universal", long = 1024 : i64, threads = 256 : i64}} {
    %two = arith.constant 2 : i64
    %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel"]} ins(%a : tensor<64xi64>) outs(%to : tensor<64xi64>) {
    ^bb0(%in: i64, %out: i64):
      %1 = arith.muli %in, %two : i64
      linalg.yield %1 : i64
    } -> tensor<64xi64>
    return %0 : tensor<64xi64>
  }
}
