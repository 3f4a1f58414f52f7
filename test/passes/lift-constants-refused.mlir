// RUN: inferno-opt %s -p lift-constants --split-input-file --verify-diagnostics

// expected-error@unknown {{lift-constants: the module has no @main}}
func.func @other() { return }

// -----

// expected-error@unknown {{lift-constants: a constant of tensor<2xcomplex<f32>> cannot be read}}
func.func @main() -> tensor<2xcomplex<f32>> {
  %0 = arith.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}

// -----

// expected-error@unknown {{lift-constants: a tensor constant inside of a region}}
func.func @main(%x: i1, %y: tensor<2xi64>) -> tensor<2xi64> {
  %0 = scf.if %x -> tensor<2xi64> {
    %c = arith.constant dense<[1, 2]> : tensor<2xi64>
    scf.yield %c : tensor<2xi64>
  } else {
    scf.yield %y : tensor<2xi64>
  }
  return %0 : tensor<2xi64>
}
