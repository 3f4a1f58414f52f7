// RUN: not inferno-opt %s --split-input-file -p canonicalize 2>/dev/null | FileCheck %s
// RUN: not inferno-opt %s --split-input-file -p canonicalize 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not inferno-opt %s -p canonicalize 2>&1 | FileCheck %s --check-prefix=WHOLE

// IR and nothing else goes to stdout; each piece is on its own; places are the file's.
// CHECK: func.func @good
// CHECK: // -----
// CHECK-NEXT: // -----
// CHECK: func.func @also_good
// CHECK-NOT: error
// ERROR: opt-errors.mlir:22:23: error: use of undeclared SSA value name
// WHOLE: opt-errors.mlir:22:23: error: use of undeclared SSA value name
// WHOLE-NEXT: %r = arith.addi %a, %x : i32
// WHOLE-NEXT: {{^}}                      ^
func.func @good() {
  return
}

// -----

func.func @bad(%a: i32) -> i32 {
  %r = arith.addi %a, %x : i32
  return %r : i32
}

// -----

func.func @also_good() {
  return
}
