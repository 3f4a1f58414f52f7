// RUN: inferno-opt %s | FileCheck %s --check-prefix=ASIS
// RUN: inferno-opt %s -p 'func.func(canonicalize),remove-asserts,cse' | FileCheck %s
// RUN: inferno-opt --pass-pipeline='builtin.module(func.func(canonicalize),remove-asserts),cse' < %s | FileCheck %s
// RUN: inferno-opt - -p 'func.func(canonicalize),builtin.module(remove-asserts)' -o %t < %s
// RUN: FileCheck %s < %t
// RUN: inferno-opt %s -p canonicalize,canonicalize --mlir-print-ir-after-change 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: inferno-opt %s -p canonicalize,canonicalize --mlir-print-ir-after-all -o %t 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: inferno-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=LOCATIONS
// RUN: inferno-opt %s --mlir-elide-elementsattrs-if-larger 2 | FileCheck %s --check-prefix=ELIDED
// RUN: inferno-opt --list-passes | FileCheck %s --check-prefix=LIST
// RUN: inferno-opt %s -p inferno-schedule{target=cpu} | FileCheck %s --check-prefix=ASIS

// RUN: not inferno-opt %s -p 'canonicalize,outline-kernel' 2>&1 | FileCheck %s --check-prefix=TYPO
// RUN: not inferno-opt %s -p 'func.func(cse,remove-asserts)' 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: not inferno-opt %s -p 'inferno-schedule{target=sm_1}' 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not inferno-opt %s -p 'func.fnc(canonicalize)' 2>&1 | FileCheck %s --check-prefix=ANCHOR
// RUN: not inferno-opt %s.missing 2>&1 | FileCheck %s --check-prefix=FILE

// ASIS: cf.assert
// CHECK-LABEL: func.func @main(%arg0: i64)
// CHECK-NEXT: return %arg0
// CHANGE: // -----// IR Dump After canonicalize //----- //
// CHANGE-NOT: IR Dump
// ALL: // -----// IR Dump After canonicalize //----- //
// ALL: func.func @main
// ALL: // -----// IR Dump After canonicalize //----- //
// ALL: func.func @main
// ALL-NOT: func.func
// LOCATIONS: loc("{{.*}}opt-pipelines.mlir":{{[0-9]+}}:{{[0-9]+}})
// ELIDED: dense_resource<__elided__>
// LIST: Passes:
// LIST: remove-asserts {{.*}}Remove run-time assertions
// LIST: Pipelines:
// LIST: inferno-schedule {{.*}}assign-schedules
// TYPO: pipeline element 'outline-kernel'
// TYPO: did you mean outline-kernels
// NESTED: inferno-opt: error: remove-asserts runs on a module; it cannot be nested in another pass manager, as in 'func.func(cse,remove-asserts)'
// ANCHOR: pipeline element 'func.fnc(canonicalize)': there is no operation func.fnc
// TARGET: unknown target 'sm_1'; the targets are
// FILE: inferno-opt: error: {{.*}}.missing: No such file or directory
func.func @main(%a: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %table = arith.constant dense<[1, 2, 3]> : tensor<3xi64>
  %b = arith.addi %a, %zero : i64
  %ok = arith.cmpi sge, %b, %zero : i64
  cf.assert %ok, "not negative"
  return %b : i64
}
