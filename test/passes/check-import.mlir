// RUN: not inferno-opt %s --pass-pipeline='check-import' 2>&1 | FileCheck %s

// Two sizes that vary are flattened by forgetting one of them.
// CHECK: check-import: tensor<?x?x16xf32> is cast to tensor<?x1x16xf32>, which drops every row but one
func.func @main(%x: tensor<?x?x16xf32>) -> tensor<?x16xf32> {
  %0 = tensor.cast %x : tensor<?x?x16xf32> to tensor<?x1x16xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<?x1x16xf32> into tensor<?x16xf32>
  return %1 : tensor<?x16xf32>
}
