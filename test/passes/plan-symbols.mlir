// RUN: inferno-opt %s --pass-pipeline='inferno-fuse,inferno-schedule{target=sm_90a},inferno-generate{target=sm_90a}' | FileCheck %s

// Grids, the workspace and the kernels' sizes are expressions of the symbol.
// CHECK: #[[SIZES:.*]] = affine_map<()[s0] -> (s0, 48)>
// CHECK-NEXT: #[[BYTES:.*]] = affine_map<()[s0] -> (((s0 * 4 + 255) floordiv 256) * 256)>
// CHECK: func.func @main({{.*}}: memref<?x48xf32> {inferno.sizes = #[[SIZES]]}, %[[N:[^ ]*]]: index
// CHECK-SAME: inferno.result = 0 : i64, inferno.sizes = #[[SIZES]]
// CHECK-SAME: inferno.workspace_bytes = #[[BYTES]]
// CHECK-DAG: "inferno.scalar"(%[[N]])
// CHECK-DAG: "inferno.sized_workspace"(
// CHECK: "inferno.launch"({{.*}}) {{{.*}}grid = [-1, 1, 1]
// CHECK: gpu.func {{.*}}: index
func.func @main(%x: tensor<?x64xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 64)>}, %y: tensor<?x48xf32> {inferno.sizes = affine_map<()[s0] -> (s0, 48)>},
                %n: index {inferno.symbol = "s0", inferno.range = [1, 4096], inferno.divisor = 1, inferno.hint = 100}) -> tensor<?x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<?x64xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
  %o = tensor.empty(%n) : tensor<?x48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%y, %s : tensor<?x48xf32>, tensor<?xf32>) outs(%o : tensor<?x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<?x48xf32>
  return %r : tensor<?x48xf32>
}
