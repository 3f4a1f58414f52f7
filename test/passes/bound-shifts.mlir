// RUN: inferno-opt %s --pass-pipeline='bound-shifts' | FileCheck %s

// CHECK-LABEL: @right
// CHECK-SAME: (%[[X:.*]]: i32, %[[BY:.*]]: i32)
// CHECK: %[[LAST:.*]] = arith.constant 31 : i32
// CHECK: %[[INSIDE:.*]] = arith.cmpi ule, %[[BY]], %[[LAST]] : i32
// CHECK: %[[BOUND:.*]] = arith.select %[[INSIDE]], %[[BY]], %[[LAST]] : i32
// CHECK: %[[RESULT:.*]] = arith.shrsi %[[X]], %[[BOUND]] : i32
// CHECK: return %[[RESULT]]
func.func @right(%x: i32, %by: i32) -> i32 {
  %0 = arith.shrsi %x, %by : i32
  return %0 : i32
}

// CHECK-LABEL: @left
// CHECK: %[[SHIFTED:.*]] = arith.shli
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK: %[[RESULT:.*]] = arith.select %{{.*}}, %[[SHIFTED]], %[[ZERO]] : i64
// CHECK: return %[[RESULT]]
func.func @left(%x: i64, %by: i64) -> i64 {
  %0 = arith.shli %x, %by : i64
  return %0 : i64
}

// CHECK-LABEL: @known
// CHECK-NOT: arith.select
func.func @known(%x: i64) -> i64 {
  %three = arith.constant 3 : i64
  %0 = arith.shli %x, %three : i64
  return %0 : i64
}
