// RUN: inferno-opt %s --pass-pipeline='widen-casts' | FileCheck %s

// CHECK-LABEL: @byte
// CHECK: %[[WORD:.*]] = arith.fptosi %{{.*}} : f32 to i32
// CHECK: %[[LOW:.*]] = arith.trunci %[[WORD]] : i32 to i8
// CHECK: return %[[LOW]]
func.func @byte(%x: f32) -> i8 {
  %0 = arith.fptosi %x : f32 to i8
  return %0 : i8
}

// CHECK-LABEL: @wide
// CHECK-NOT: arith.trunci
func.func @wide(%x: f64) -> i64 {
  %0 = arith.fptosi %x : f64 to i64
  return %0 : i64
}
