// RUN: inferno-opt -p mark-successors %s --split-input-file | FileCheck %s

// @first is called in front of others of the program alone, @second also as the last one; @third in front of what a library computes.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @first({{.*}} attributes {inferno.schedule = {generator = "elementwise"}, inferno.successor = "kernel"}
// CHECK: func.func private @second({{.*}} attributes {inferno.schedule = {generator = "elementwise"}} {
// CHECK: func.func private @third({{.*}} attributes {inferno.schedule = {generator = "elementwise"}, inferno.successor = "library"}
// CHECK: func.func private @product({{.*}} attributes {inferno.schedule = {generator = "cublaslt"}, inferno.successor = "kernel"}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @first(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @second(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @first(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @third(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = call @product(%3) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = call @second(%4) : (tensor<8xf32>) -> tensor<8xf32>
  return %5 : tensor<8xf32>
}
func.func private @first(%x: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "elementwise"}} {
  return %x : tensor<8xf32>
}
func.func private @second(%x: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "elementwise"}} {
  return %x : tensor<8xf32>
}
func.func private @third(%x: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "elementwise"}} {
  return %x : tensor<8xf32>
}
func.func private @product(%x: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "cublaslt"}} {
  return %x : tensor<8xf32>
}

// -----

// A kernel whose sizes vary may have nothing to do, and not be launched: then the library's is behind @first.
// CHECK-LABEL: func.func @main
// CHECK: func.func private @first({{.*}}inferno.successor = "library"
func.func @main(%x: tensor<8xf32>, %y: tensor<?xf32>, %n: index {inferno.range = [0, 8], inferno.symbol = "s0"}) -> (tensor<8xf32>, tensor<?xf32>) {
  %0 = call @first(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @sized(%y, %n) : (tensor<?xf32>, index) -> tensor<?xf32>
  %2 = call @product(%0) : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %1 : tensor<8xf32>, tensor<?xf32>
}
func.func private @first(%x: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "elementwise"}} {
  return %x : tensor<8xf32>
}
func.func private @sized(%x: tensor<?xf32>, %n: index {inferno.range = [0, 8], inferno.symbol = "s0"}) -> tensor<?xf32> attributes {inferno.schedule = {generator = "elementwise"}} {
  return %x : tensor<?xf32>
}
func.func private @product(%x: tensor<8xf32>) -> tensor<8xf32> attributes {inferno.schedule = {generator = "cublaslt"}} {
  return %x : tensor<8xf32>
}
