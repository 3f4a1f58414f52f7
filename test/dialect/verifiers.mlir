// RUN: inferno-opt %s --split-input-file --verify-diagnostics

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: a tensor map has 1 to 5 dimensions, got 0}}
  %0 = "inferno.tensor_map"(%b) {sizes = [], strides = [], box = [], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: a tensor map has 1 to 5 dimensions, got 6}}
  %0 = "inferno.tensor_map"(%b) {sizes = [1, 1, 1, 1, 1, 1], strides = [2, 16, 16, 16, 16, 16], box = [1, 1, 1, 1, 1, 1], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: 2 sizes need as many strides and box sizes, got 1 and 2}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2], box = [64, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: 2 sizes need as many strides and box sizes, got 2 and 3}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], box = [64, 64, 1], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: strides but the innermost must be multiples of 16 bytes, got [2, 250]}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 250], box = [64, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: box sizes must be 1 to 256, got [64, 257]}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], box = [64, 257], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: box sizes must be 1 to 256, got [0, 64]}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], box = [0, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: swizzle must be 0, 32, 64 or 128 bytes, got 16}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], box = [64, 64], element = "bf16", swizzle = 16 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: swizzle must hold integers, got "128"}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], box = [64, 64], element = "bf16", swizzle = "128", l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: the attribute box is missing}}
  %0 = "inferno.tensor_map"(%b) {sizes = [128, 64], strides = [2, 256], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @tensor_map(%b: memref<64x128xbf16>) {
  // expected-error@below {{inferno.tensor_map: sizes must be an array of integers, got 128 : i64}}
  %0 = "inferno.tensor_map"(%b) {sizes = 128 : i64, strides = [2, 256], box = [64, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64} : (memref<64x128xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: grid must be three positive numbers, got [4, 2]}}
  "inferno.launch"() {kernel = @m::@k, grid = [4, 2], block = [128, 1, 1], cluster = [2, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: block must be three positive numbers, got [128, 0, 1]}}
  "inferno.launch"() {kernel = @m::@k, grid = [4, 2, 1], block = [128, 0, 1], cluster = [2, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: cluster must be three positive numbers, got [-1, 1, 1]}}
  "inferno.launch"() {kernel = @m::@k, grid = [4, 2, 1], block = [128, 1, 1], cluster = [-1, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: a block has at most 1024 threads, got 2048}}
  "inferno.launch"() {kernel = @m::@k, grid = [4, 2, 1], block = [1024, 2, 1], cluster = [2, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: grid [3, 2, 1] is not a multiple of cluster [2, 1, 1]}}
  "inferno.launch"() {kernel = @m::@k, grid = [3, 2, 1], block = [128, 1, 1], cluster = [2, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: shared must not be negative}}
  "inferno.launch"() {kernel = @m::@k, grid = [4, 2, 1], block = [128, 1, 1], cluster = [2, 1, 1], shared = -1 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: grid must hold integers, got "x"}}
  "inferno.launch"() {kernel = @m::@k, grid = ["x", 1, 1], block = [128, 1, 1], cluster = [2, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @launch() {
  // expected-error@below {{inferno.launch: the attribute shared is missing}}
  "inferno.launch"() {kernel = @m::@k, grid = [4, 2, 1], block = [128, 1, 1], cluster = [2, 1, 1], operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @workspace() {
  // expected-error@below {{inferno.workspace: offset must be a multiple of 256, got 128}}
  %0 = "inferno.workspace"() {offset = 128 : i64} : () -> memref<16xf32>
  return
}

// -----

func.func @workspace() {
  // expected-error@below {{inferno.workspace: offset must be a multiple of 256, got -256}}
  %0 = "inferno.workspace"() {offset = -256 : i64} : () -> memref<16xf32>
  return
}

// -----

func.func @workspace() {
  // expected-error@below {{inferno.workspace: the attribute offset is missing}}
  %0 = "inferno.workspace"() {} : () -> memref<16xf32>
  return
}

// -----

func.func @types(%n: index) {
  // expected-error@+2 {{expected base type 'builtin.memref' but got 'builtin.index'}}
  // expected-note@+1 {{see current operation}}
  %0 = "inferno.pointer"(%n) : (index) -> !inferno.parameter
  return
}

// -----

func.func @types(%n: index) {
  // expected-error@+2 {{expected base type 'inferno.parameter' but got 'builtin.index'}}
  // expected-note@+1 {{see current operation}}
  "inferno.launch"(%n) {kernel = @m::@k, grid = [4, 2, 1], block = [128, 1, 1], cluster = [2, 1, 1], shared = 0 : i64, operandSegmentSizes = array<i32: 1>} : (index) -> ()
  return
}

// -----

func.func @types() {
  // expected-error@+2 {{expected base type 'builtin.memref' but got 'builtin.tensor'}}
  // expected-note@+1 {{see current operation}}
  %0 = "inferno.workspace"() {offset = 0 : i64} : () -> tensor<16xf32>
  return
}

// -----

func.func @types() {
  // expected-error@+2 {{expected base attribute 'builtin.string' but got 'builtin.symbol_ref'}}
  // expected-note@+1 {{see current operation}}
  "inferno.library"() {function = @relu, options = {}, operandSegmentSizes = array<i32: 0>} : () -> ()
  return
}

// -----

func.func @types() {
  // expected-error@+2 {{unregistered operation 'inferno.lunch' found in dialect ('inferno')}}
  // expected-note@+1 {{see current operation}}
  "inferno.lunch"() : () -> ()
  return
}

// -----

func.func @map(%b: memref<?x64xbf16>, %n: index) {
  // expected-error@below {{inferno.sized_tensor_map: 2 sizes need as many strides and box sizes, got 2 and 1}}
  %t = "inferno.sized_tensor_map"(%b, %n, %n) {sizes = [64, -1], strides = [2, -1], box = [64], swizzle = 128 : i64, l2 = 256 : i64, element = "bf16", operandSegmentSizes = array<i32: 1, 2>} : (memref<?x64xbf16>, index, index) -> !inferno.parameter
  return
}

// -----

func.func @map(%b: memref<?x64xbf16>, %n: index) {
  // expected-error@below {{inferno.sized_tensor_map: strides but the innermost must be multiples of 16 bytes, got [2, 72, -1]}}
  %t = "inferno.sized_tensor_map"(%b, %n, %n) {sizes = [64, -1, 2], strides = [2, 72, -1], box = [64, 64, 1], swizzle = 128 : i64, l2 = 256 : i64, element = "bf16", operandSegmentSizes = array<i32: 1, 2>} : (memref<?x64xbf16>, index, index) -> !inferno.parameter
  return
}

// -----

func.func @map(%b: memref<?x64xbf16>, %n: index) {
  // expected-error@below {{inferno.sized_tensor_map: a box's lines have 256 bytes, more than the 128 that are swizzled}}
  %t = "inferno.sized_tensor_map"(%b, %n, %n) {sizes = [128, -1], strides = [2, -1], box = [128, 64], swizzle = 128 : i64, l2 = 256 : i64, element = "bf16", operandSegmentSizes = array<i32: 1, 2>} : (memref<?x64xbf16>, index, index) -> !inferno.parameter
  return
}

// -----

func.func @map(%b: memref<?x64xbf16>, %n: index) {
  // expected-error@below {{inferno.sized_tensor_map: l2 must be 0, 64, 128 or 256 bytes, got 32}}
  %t = "inferno.sized_tensor_map"(%b, %n, %n) {sizes = [64, -1], strides = [2, -1], box = [64, 64], swizzle = 128 : i64, l2 = 32 : i64, element = "bf16", operandSegmentSizes = array<i32: 1, 2>} : (memref<?x64xbf16>, index, index) -> !inferno.parameter
  return
}

// -----

func.func @map(%b: memref<?x64xbf16>) {
  // expected-error@below {{inferno.tensor_map: 1 sizes and strides are known at the call, got 0 values}}
  %t = "inferno.tensor_map"(%b) {sizes = [64, -1], strides = [2, 128], box = [64, 64], swizzle = 128 : i64, l2 = 256 : i64, element = "bf16"} : (memref<?x64xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @too_few_values(%b: memref<?x64xbf16>, %n: index) {
  // expected-error@below {{inferno.sized_tensor_map: 2 sizes and strides are known at the call, got 1 values}}
  %t = "inferno.sized_tensor_map"(%b, %n) {sizes = [64, -1], strides = [2, -1], box = [64, 64], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?x64xbf16>, index) -> !inferno.parameter
  return
}

// -----

func.func @pixels(%b: memref<2x9x11x72xbf16>) {
  // expected-error@below {{inferno.pixel_map: 2 spatial dimensions have as many corners and steps, got [-1], [-1, -1] and [1, 1]}}
  %0 = "inferno.pixel_map"(%b) {sizes = [72, 11, 9, 2], strides = [2, 144, 1584, 14256], box = [64, 128], lower = [-1], upper = [-1, -1], steps = [1, 1], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64, operandSegmentSizes = array<i32: 1, 0>} : (memref<2x9x11x72xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @pixels(%b: memref<2x9x11x72xbf16>) {
  // expected-error@below {{inferno.pixel_map: corners [-129, 0] and [-1, -1] are too far away}}
  %0 = "inferno.pixel_map"(%b) {sizes = [72, 11, 9, 2], strides = [2, 144, 1584, 14256], box = [64, 128], lower = [-129, 0], upper = [-1, -1], steps = [1, 1], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64, operandSegmentSizes = array<i32: 1, 0>} : (memref<2x9x11x72xbf16>) -> !inferno.parameter
  return
}

// -----

func.func @pixels(%b: memref<2x9x11x72xbf16>) {
  // expected-error@below {{inferno.pixel_map: a box has 1 to 256 channels of 1 to 1024 pixels, got [64, 1025]}}
  %0 = "inferno.pixel_map"(%b) {sizes = [72, 11, 9, 2], strides = [2, 144, 1584, 14256], box = [64, 1025], lower = [-1, -1], upper = [-1, -1], steps = [1, 1], element = "bf16", swizzle = 128 : i64, l2 = 256 : i64, operandSegmentSizes = array<i32: 1, 0>} : (memref<2x9x11x72xbf16>) -> !inferno.parameter
  return
}
