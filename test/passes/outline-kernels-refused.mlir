// RUN: inferno-opt %s -p outline-kernels --split-input-file --verify-diagnostics

// expected-error@unknown {{outline-kernels: a tensor's sizes are no expressions of symbols: tensor<?xf32>}}
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error@unknown {{outline-kernels: the module has no @main}}
func.func @other() { return }

// -----

// expected-error@unknown {{outline-kernels: cf.assert cannot be part of a kernel}}
func.func @main(%x: i1) {
  cf.assert %x, "still here"
  return
}

// -----

// expected-error@unknown {{outline-kernels: a kernel needs i64, which is not a tensor, from outside}}
func.func @main(%x: i64) -> tensor<i64> {
  %0 = tensor.from_elements %x : tensor<i64>
  return %0 : tensor<i64>
}
