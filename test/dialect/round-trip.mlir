// RUN: inferno-opt %s | FileCheck %s
// RUN: inferno-opt %s | inferno-opt | FileCheck %s

// CHECK-LABEL: func.func @operations
// CHECK-SAME: (%[[B:.*]]: memref<64x128xbf16>, %[[N:.*]]: index, %[[X:.*]]: f32)
// CHECK-NEXT: %[[P:.*]] = "inferno.pointer"(%[[B]]) : (memref<64x128xbf16>) -> !inferno.parameter
// CHECK-NEXT: %[[S:.*]] = "inferno.scalar"(%[[N]]) : (index) -> !inferno.parameter
// CHECK-NEXT: %[[Y:.*]] = "inferno.scalar"(%[[X]]) : (f32) -> !inferno.parameter
// CHECK-NEXT: %[[T:.*]] = "inferno.tensor_map"(%[[B]]) {box = [64, 64], element = "bf16", l2 = 256 : i64, sizes = [128, 64], strides = [2, 256], swizzle = 128 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
// CHECK-NEXT: %[[W:.*]] = "inferno.workspace"() {offset = 256 : i64} : () -> memref<16xf32>
// CHECK-NEXT: "inferno.launch"(%[[P]], %[[S]], %[[T]]) {block = [128, 1, 1], cluster = [2, 1, 1], grid = [4, 2, 1], kernel = @m::@k, operandSegmentSizes = array<i32: 3>, shared = 1024 : i64} : (!inferno.parameter, !inferno.parameter, !inferno.parameter) -> ()
// CHECK-NEXT: "inferno.launch"() {block = [1, 1, 1], cluster = [1, 1, 1], grid = [1, 1, 1], kernel = @m::@k, operandSegmentSizes = array<i32: 0>, shared = 0 : i64} : () -> ()
// CHECK-NEXT: "inferno.library"(%[[P]], %[[P]]) {function = "aten.relu", operandSegmentSizes = array<i32: 2>, options = {a = 1 : i64}} : (!inferno.parameter, !inferno.parameter) -> ()
// CHECK-NEXT: return
func.func @operations(%b: memref<64x128xbf16>, %n: index, %x: f32) {
  %p = "inferno.pointer"(%b) : (memref<64x128xbf16>) -> !inferno.parameter
  %s = "inferno.scalar"(%n) : (index) -> !inferno.parameter
  %y = "inferno.scalar"(%x) : (f32) -> !inferno.parameter
  %t = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], box = [64, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  %w = "inferno.workspace"() {offset = 256 : i64} : () -> memref<16xf32>
  "inferno.launch"(%p, %s, %t) {kernel = @m::@k, grid = [4, 2, 1], block = [128, 1, 1], cluster = [2, 1, 1], shared = 1024 : i64, operandSegmentSizes = array<i32: 3>} : (!inferno.parameter, !inferno.parameter, !inferno.parameter) -> ()
  "inferno.launch"() {kernel = @m::@k, grid = [1, 1, 1], block = [1, 1, 1], cluster = [1, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  "inferno.library"(%p, %p) {function = "aten.relu", options = {a = 1 : i64}, operandSegmentSizes = array<i32: 2>} : (!inferno.parameter, !inferno.parameter) -> ()
  return
}

// The type can be passed on, and attributes of ours can be anywhere.
// CHECK-LABEL: func.func private @type(!inferno.parameter {inferno.name = "x"}) -> !inferno.parameter
func.func private @type(!inferno.parameter {inferno.name = "x"}) -> !inferno.parameter

// A tensor map of one dimension, and of five with every limit met.
// CHECK-LABEL: func.func @limits
// CHECK-COUNT-2: "inferno.tensor_map"
func.func @limits(%b: memref<4096xf32>) {
  %0 = "inferno.tensor_map"(%b) {sizes = [4096], strides = [4], box = [256], element = "f32", swizzle = 0 : i64, l2 = 0 : i64} : (memref<4096xf32>) -> !inferno.parameter
  %1 = "inferno.tensor_map"(%b) {sizes = [4, 4, 4, 4, 16], strides = [4, 16, 64, 256, 1024], box = [4, 1, 1, 1, 1], element = "f32", swizzle = 32 : i64, l2 = 64 : i64} : (memref<4096xf32>) -> !inferno.parameter
  return
}

// What is known at the call: a size of the grid, sizes and strides of a tensor map, a place in the workspace.
// CHECK-LABEL: func.func @sized
// CHECK: "inferno.sized_tensor_map"(%{{.*}}, %{{.*}}, %{{.*}}) {box = [64, 64], {{.*}}sizes = [64, -1], strides = [2, -1]
// CHECK: "inferno.sized_workspace"(%{{.*}}, %{{.*}})
// CHECK: "inferno.launch"(%{{.*}}, %{{.*}}) {{{.*}}grid = [-1, 1, 1]
func.func @sized(%b: memref<?x64xbf16>, %n: index, %m: index) {
  %s = "inferno.scalar"(%n) : (index) -> !inferno.parameter
  %t = "inferno.sized_tensor_map"(%b, %n, %m) {sizes = [64, -1], strides = [2, -1], box = [64, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64, operandSegmentSizes = array<i32: 1, 2>} : (memref<?x64xbf16>, index, index) -> !inferno.parameter
  %w = "inferno.sized_workspace"(%n, %m) {operandSegmentSizes = array<i32: 2>} : (index, index) -> memref<?xf32>
  "inferno.launch"(%t, %s) {kernel = @m::@k, grid = [-1, 1, 1], block = [128, 1, 1], cluster = [1, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 2>} : (!inferno.parameter, !inferno.parameter) -> ()
  return
}
