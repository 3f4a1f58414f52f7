// RUN: inferno-opt -p cut-reshaped %s --split-input-file | FileCheck %s

// The second of three parts of a row, by heads: whole heads of a row that has three times as many.
// CHECK-LABEL: func.func @heads
// CHECK-NEXT: %[[ALL:.*]] = tensor.expand_shape %arg0 {{\[}}[0], [1], [2, 3]] output_shape [2, 10, 12, 8] : tensor<2x10x96xf32> into tensor<2x10x12x8xf32>
// CHECK-NEXT: %[[PART:.*]] = tensor.extract_slice %[[ALL]][0, 0, 4, 0] [2, 10, 4, 8] [1, 1, 1, 1]
// CHECK-NEXT: return %[[PART]]
func.func @heads(%x: tensor<2x10x96xf32>) -> tensor<2x10x4x8xf32> {
  %a = tensor.extract_slice %x[0, 0, 32] [2, 10, 32] [1, 1, 1] : tensor<2x10x96xf32> to tensor<2x10x32xf32>
  %b = tensor.expand_shape %a [[0], [1], [2, 3]] output_shape [2, 10, 4, 8] : tensor<2x10x32xf32> into tensor<2x10x4x8xf32>
  return %b : tensor<2x10x4x8xf32>
}

// -----

// A row that is no whole number of heads, or begins within one, stays.
// CHECK-LABEL: func.func @within
// CHECK-COUNT-2: tensor.extract_slice %arg{{[01]}}
// CHECK-NOT: tensor.extract_slice
func.func @within(%x: tensor<6x36xf32>, %y: tensor<6x32xf32>) -> (tensor<6x2x8xf32>, tensor<6x2x8xf32>) {
  %a = tensor.extract_slice %x[0, 16] [6, 16] [1, 1] : tensor<6x36xf32> to tensor<6x16xf32>
  %b = tensor.expand_shape %a [[0], [1, 2]] output_shape [6, 2, 8] : tensor<6x16xf32> into tensor<6x2x8xf32>
  %c = tensor.extract_slice %y[0, 12] [6, 16] [1, 1] : tensor<6x32xf32> to tensor<6x16xf32>
  %d = tensor.expand_shape %c [[0], [1, 2]] output_shape [6, 2, 8] : tensor<6x16xf32> into tensor<6x2x8xf32>
  return %b, %d : tensor<6x2x8xf32>, tensor<6x2x8xf32>
}

// -----

// Rows that are flattened behind the cut; of what is cut the outermost may become one with others.
// CHECK-LABEL: func.func @flat
// CHECK-DAG: %[[ROWS:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1], [2]] : tensor<4x5x96xf32> into tensor<20x96xf32>
// CHECK-DAG: tensor.extract_slice %[[ROWS]][0, 32] [20, 16] [1, 1]
// CHECK-DAG: tensor.extract_slice %[[ROWS2:.*]][5, 0] [10, 96] [1, 1]
func.func @flat(%x: tensor<4x5x96xf32>) -> (tensor<20x16xf32>, tensor<10x96xf32>) {
  %a = tensor.extract_slice %x[0, 0, 32] [4, 5, 16] [1, 1, 1] : tensor<4x5x96xf32> to tensor<4x5x16xf32>
  %b = tensor.collapse_shape %a [[0, 1], [2]] : tensor<4x5x16xf32> into tensor<20x16xf32>
  %c = tensor.extract_slice %x[1, 0, 0] [2, 5, 96] [1, 1, 1] : tensor<4x5x96xf32> to tensor<2x5x96xf32>
  %d = tensor.collapse_shape %c [[0, 1], [2]] : tensor<2x5x96xf32> into tensor<10x96xf32>
  return %b, %d : tensor<20x16xf32>, tensor<10x96xf32>
}

// -----

// Elements that do not lie as those of a part would: columns of some rows' first halves, one after the other, and a dimension that is left out between two.
// CHECK-LABEL: func.func @uncoalesced
// CHECK: tensor.extract_slice %arg0[0, 0] [4, 8]
// CHECK: tensor.collapse_shape
// CHECK: tensor.extract_slice %arg1[0, 1, 0] [4, 1, 8]
// CHECK: tensor.collapse_shape
func.func @uncoalesced(%x: tensor<4x16xf32>, %y: tensor<4x3x8xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %a = tensor.extract_slice %x[0, 0] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %b = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %c = tensor.extract_slice %y[0, 1, 0] [4, 1, 8] [1, 1, 1] : tensor<4x3x8xf32> to tensor<4x8xf32>
  %d = tensor.collapse_shape %c [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  return %b, %d : tensor<32xf32>, tensor<32xf32>
}

// -----

// A dimension that the slice leaves out, beside one that becomes two.
// CHECK-LABEL: func.func @dropped
// CHECK-NEXT: %[[ALL:.*]] = tensor.expand_shape %arg0 {{\[}}[0], [1], [2, 3]] output_shape [3, 10, 6, 8]
// CHECK-NEXT: %[[PART:.*]] = tensor.extract_slice %[[ALL]][2, 0, 2, 0] [1, 10, 4, 8] [1, 1, 1, 1] : tensor<3x10x6x8xf32> to tensor<10x4x8xf32>
// CHECK-NEXT: return %[[PART]]
func.func @dropped(%x: tensor<3x10x48xf32>) -> tensor<10x4x8xf32> {
  %a = tensor.extract_slice %x[2, 0, 16] [1, 10, 32] [1, 1, 1] : tensor<3x10x48xf32> to tensor<10x32xf32>
  %b = tensor.expand_shape %a [[0], [1, 2]] output_shape [10, 4, 8] : tensor<10x32xf32> into tensor<10x4x8xf32>
  return %b : tensor<10x4x8xf32>
}

// -----

// Dimensions of one element that the slice leaves out and the reshape restores: what is cut, here of what a sort makes, is not reshaped for them.
// CHECK-LABEL: func.func @restored
// CHECK-NEXT: %[[A:.*]] = tensor.extract_slice %arg0[0, 299] [3, 1] [1, 1] : tensor<3x500xf32> to tensor<3x1xf32>
// CHECK-NEXT: %[[B:.*]] = tensor.extract_slice %arg1[0, 2, 0] [4, 5, 1] [1, 1, 1] : tensor<4x90x1xf32> to tensor<4x5x1xf32>
// CHECK-NEXT: %[[C:.*]] = tensor.extract_slice %arg1[0, 7, 0] [4, 1, 1] [1, 1, 1] : tensor<4x90x1xf32> to tensor<4x1xf32>
// CHECK-NEXT: return %[[A]], %[[B]], %[[C]]
func.func @restored(%x: tensor<3x500xf32>, %y: tensor<4x90x1xf32>) -> (tensor<3x1xf32>, tensor<4x5x1xf32>, tensor<4x1xf32>) {
  %a = tensor.extract_slice %x[0, 299] [3, 1] [1, 1] : tensor<3x500xf32> to tensor<3xf32>
  %b = tensor.expand_shape %a [[0, 1]] output_shape [3, 1] : tensor<3xf32> into tensor<3x1xf32>
  %c = tensor.extract_slice %y[0, 2, 0] [4, 5, 1] [1, 1, 1] : tensor<4x90x1xf32> to tensor<4x5xf32>
  %d = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 5, 1] : tensor<4x5xf32> into tensor<4x5x1xf32>
  %e = tensor.extract_slice %y[0, 7, 0] [4, 1, 1] [1, 1, 1] : tensor<4x90x1xf32> to tensor<4xf32>
  %f = tensor.expand_shape %e [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  return %b, %d, %f : tensor<3x1xf32>, tensor<4x5x1xf32>, tensor<4x1xf32>
}

// -----

// More of them than the slice leaves out.
// CHECK-LABEL: func.func @more_ones
// CHECK-NEXT: tensor.expand_shape %arg0
// CHECK-NEXT: tensor.extract_slice {{.*}} to tensor<3x1x1xf32>
func.func @more_ones(%x: tensor<3x500xf32>) -> tensor<3x1x1xf32> {
  %a = tensor.extract_slice %x[0, 299] [3, 1] [1, 1] : tensor<3x500xf32> to tensor<3xf32>
  %b = tensor.expand_shape %a [[0, 1, 2]] output_shape [3, 1, 1] : tensor<3xf32> into tensor<3x1x1xf32>
  return %b : tensor<3x1x1xf32>
}

// -----

// Every second row, in pairs: of four rows those at odd places.
// CHECK-LABEL: func.func @steps
// CHECK-NEXT: %[[ALL:.*]] = tensor.expand_shape %arg0 {{\[}}[0, 1], [2]] output_shape [4, 4, 8] : tensor<16x8xf32> into tensor<4x4x8xf32>
// CHECK-NEXT: %[[PART:.*]] = tensor.extract_slice %[[ALL]][1, 1, 0] [3, 2, 8] [1, 2, 1] : tensor<4x4x8xf32> to tensor<3x2x8xf32>
// CHECK-NEXT: return %[[PART]]
func.func @steps(%x: tensor<16x8xf32>) -> tensor<3x2x8xf32> {
  %a = tensor.extract_slice %x[5, 0] [6, 8] [2, 1] : tensor<16x8xf32> to tensor<6x8xf32>
  %b = tensor.expand_shape %a [[0, 1], [2]] output_shape [3, 2, 8] : tensor<6x8xf32> into tensor<3x2x8xf32>
  return %b : tensor<3x2x8xf32>
}

// -----

// Every second row from the fourth of four on: pairs lie in two of them.
// CHECK-LABEL: func.func @across
// CHECK-NEXT: tensor.extract_slice %arg0
// CHECK-NEXT: tensor.expand_shape
func.func @across(%x: tensor<16x8xf32>) -> tensor<3x2x8xf32> {
  %a = tensor.extract_slice %x[3, 0] [6, 8] [2, 1] : tensor<16x8xf32> to tensor<6x8xf32>
  %b = tensor.expand_shape %a [[0, 1], [2]] output_shape [3, 2, 8] : tensor<6x8xf32> into tensor<3x2x8xf32>
  return %b : tensor<3x2x8xf32>
}
