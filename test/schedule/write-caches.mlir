// RUN: inferno-opt -p 'write-caches{target=sm_90a}' %s | FileCheck %s
// RUN: inferno-opt -p 'write-caches{target=sm_80}' %s | FileCheck %s --check-prefix=OLD

#qk = affine_map<(h, i, j, d) -> (h, i, d)>
#kj = affine_map<(h, i, j, d) -> (h, j, d)>
#sc = affine_map<(h, i, j, d) -> (h, i, j)>
#hij = affine_map<(h, i, j) -> (h, i, j)>
#hi = affine_map<(h, i, j) -> (h, i)>
#pw = affine_map<(h, i, e, j) -> (h, i, j)>
#pv = affine_map<(h, i, e, j) -> (h, j, e)>
#pe = affine_map<(h, i, e, j) -> (h, i, e)>

// Attention writes both caches itself; who reads a new cache does that behind it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[K:[a-z0-9]*]]: tensor<2x64x16xbf16>, %[[V:[a-z0-9]*]]: tensor<2x64x16xbf16>,
// CHECK: %[[BOTH:.*]]:3 = call @attention_writes(%{{[a-z0-9]*}}, %{{[a-z0-9]*}}, %[[K]], %{{[a-z0-9]*}}, %[[V]],
// CHECK-NEXT: call @read(%[[BOTH]]#0,
// It stays apart where attention waits for a reader of the new cache, and of writes of which two may have one place the kernel takes none.
// CHECK: %[[KEYS:.*]] = call @put(
// CHECK-NEXT: %[[VALUES:.*]] = call @put(
// CHECK-NEXT: %[[QUERY:.*]] = call @read(%[[KEYS]],
// CHECK-NEXT: call @attention(%[[QUERY]], %[[KEYS]], %[[VALUES]],
// CHECK: call @put_again(
// CHECK: call @attention_writes_1(
// CHECK-NOT: call @put(
// CHECK: return
// CHECK: func.func private @attention_writes(
// CHECK-COUNT-2: linalg.copy
// CHECK: func.func private @attention_writes_1(
// CHECK-COUNT-1: linalg.copy
// OLD-NOT: attention_writes
module {
  func.func @main(%keys: tensor<2x64x16xbf16>, %values: tensor<2x64x16xbf16>, %q: tensor<2x2x16xbf16>, %k: tensor<1x2x1x16xbf16>, %v: tensor<1x2x1x16xbf16>, %at: tensor<1x1xi64>,
                  %keys2: tensor<2x64x16xbf16>, %values2: tensor<2x64x16xbf16>, %keys3: tensor<2x64x16xbf16>, %values3: tensor<2x64x16xbf16>)
      -> (tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>, tensor<2x2x16xbf16>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>,
          tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>) {
    %e = tensor.empty() : tensor<2x64x16xbf16>
    %f = tensor.empty() : tensor<2x64x16xbf16>
    %g = tensor.empty() : tensor<2x2x16xbf16>
    %r = tensor.empty() : tensor<2x2x16xbf16>
    %k1 = call @put(%k, %at, %keys, %e) : (tensor<1x2x1x16xbf16>, tensor<1x1xi64>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %read = call @read(%k1, %r) : (tensor<2x64x16xbf16>, tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
    %v1 = call @put(%v, %at, %values, %f) : (tensor<1x2x1x16xbf16>, tensor<1x1xi64>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %o1 = call @attention(%q, %k1, %v1, %g) : (tensor<2x2x16xbf16>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
    %e2 = tensor.empty() : tensor<2x64x16xbf16>
    %f2 = tensor.empty() : tensor<2x64x16xbf16>
    %g2 = tensor.empty() : tensor<2x2x16xbf16>
    %r2 = tensor.empty() : tensor<2x2x16xbf16>
    %k2 = call @put(%k, %at, %keys2, %e2) : (tensor<1x2x1x16xbf16>, tensor<1x1xi64>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %v2 = call @put(%v, %at, %values2, %f2) : (tensor<1x2x1x16xbf16>, tensor<1x1xi64>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %q2 = call @read(%k2, %r2) : (tensor<2x64x16xbf16>, tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
    %o2 = call @attention(%q2, %k2, %v2, %g2) : (tensor<2x2x16xbf16>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
    %e3 = tensor.empty() : tensor<2x64x16xbf16>
    %f3 = tensor.empty() : tensor<2x64x16xbf16>
    %g3 = tensor.empty() : tensor<2x2x16xbf16>
    %k3 = call @put(%k, %at, %keys3, %e3) : (tensor<1x2x1x16xbf16>, tensor<1x1xi64>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %v3 = call @put_again(%v, %at, %values3, %f3) : (tensor<1x2x1x16xbf16>, tensor<1x1xi64>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %o3 = call @attention(%q, %k3, %v3, %g3) : (tensor<2x2x16xbf16>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
    return %k1, %v1, %o1, %read, %k2, %v2, %o2, %k3, %v3, %o3 : tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>, tensor<2x2x16xbf16>, tensor<2x64x16xbf16>,
        tensor<2x64x16xbf16>, tensor<2x2x16xbf16>, tensor<2x64x16xbf16>, tensor<2x64x16xbf16>, tensor<2x2x16xbf16>
  }
  func.func private @put(%new: tensor<1x2x1x16xbf16>, %at: tensor<1x1xi64>, %old: tensor<2x64x16xbf16>, %to: tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
      attributes {inferno.schedule = {few = 16384 : i64, generator = "universal", long = 1024 : i64, threads = 256 : i64}} {
    %0 = linalg.copy ins(%old : tensor<2x64x16xbf16>) outs(%to : tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %1 = tm_tensor.scatter {dimension_map = array<i64: 1>} unique_indices(true) ins(%new, %at : tensor<1x2x1x16xbf16>, tensor<1x1xi64>) outs(%0 : tensor<2x64x16xbf16>) {
    ^bb0(%x: bf16, %y: bf16):
      tm_tensor.yield %x : bf16
    } -> tensor<2x64x16xbf16>
    return %1 : tensor<2x64x16xbf16>
  }
  func.func private @put_again(%new: tensor<1x2x1x16xbf16>, %at: tensor<1x1xi64>, %old: tensor<2x64x16xbf16>, %to: tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
      attributes {inferno.schedule = {few = 16384 : i64, generator = "universal", long = 1024 : i64, threads = 256 : i64}} {
    %0 = linalg.copy ins(%old : tensor<2x64x16xbf16>) outs(%to : tensor<2x64x16xbf16>) -> tensor<2x64x16xbf16>
    %1 = tm_tensor.scatter {dimension_map = array<i64: 1>} unique_indices(false) ins(%new, %at : tensor<1x2x1x16xbf16>, tensor<1x1xi64>) outs(%0 : tensor<2x64x16xbf16>) {
    ^bb0(%x: bf16, %y: bf16):
      tm_tensor.yield %x : bf16
    } -> tensor<2x64x16xbf16>
    return %1 : tensor<2x64x16xbf16>
  }
  func.func private @read(%cache: tensor<2x64x16xbf16>, %to: tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
      attributes {inferno.schedule = {few = 16384 : i64, generator = "universal", long = 1024 : i64, threads = 256 : i64}} {
    %0 = tensor.extract_slice %cache[0, 0, 0] [2, 2, 16] [1, 1, 1] : tensor<2x64x16xbf16> to tensor<2x2x16xbf16>
    %1 = linalg.copy ins(%0 : tensor<2x2x16xbf16>) outs(%to : tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
    return %1 : tensor<2x2x16xbf16>
  }
  func.func private @attention(%q: tensor<2x2x16xbf16>, %k: tensor<2x64x16xbf16>, %v: tensor<2x64x16xbf16>, %to: tensor<2x2x16xbf16>) -> tensor<2x2x16xbf16>
      attributes {inferno.schedule = {apart = true, bounded = false, consumers = 1 : i64, generator = "attention", keys = 64 : i64, order = "single", overlap = true,
                  parts = 1 : i64, pieces = 1 : i64, splits = 1 : i64, staged = true, stages = 3 : i64, turns = false}} {
    %zero = arith.constant 0.0 : f32
    %least = arith.constant 0xFF800000 : f32
    %0 = tensor.empty() : tensor<2x2x64xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<2x2x64xf32>) -> tensor<2x2x64xf32>
    %2 = linalg.generic {indexing_maps = [#qk, #kj, #sc], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%q, %k : tensor<2x2x16xbf16>, tensor<2x64x16xbf16>) outs(%1 : tensor<2x2x64xf32>) {
    ^bb0(%a: bf16, %b: bf16, %o: f32):
      %x = arith.extf %a : bf16 to f32
      %y = arith.extf %b : bf16 to f32
      %z = arith.mulf %x, %y : f32
      %s = arith.addf %o, %z : f32
      linalg.yield %s : f32
    } -> tensor<2x2x64xf32>
    %3 = tensor.empty() : tensor<2x2xf32>
    %4 = linalg.fill ins(%least : f32) outs(%3 : tensor<2x2xf32>) -> tensor<2x2xf32>
    %5 = linalg.generic {indexing_maps = [#hij, #hi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2 : tensor<2x2x64xf32>) outs(%4 : tensor<2x2xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.maximumf %a, %o : f32
      linalg.yield %m : f32
    } -> tensor<2x2xf32>
    %6 = linalg.generic {indexing_maps = [#hij, #hi, #hij], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%2, %5 : tensor<2x2x64xf32>, tensor<2x2xf32>) outs(%0 : tensor<2x2x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      %p = math.exp %d : f32
      linalg.yield %p : f32
    } -> tensor<2x2x64xf32>
    %7 = linalg.fill ins(%zero : f32) outs(%3 : tensor<2x2xf32>) -> tensor<2x2xf32>
    %8 = linalg.generic {indexing_maps = [#hij, #hi], iterator_types = ["parallel", "parallel", "reduction"]} ins(%6 : tensor<2x2x64xf32>) outs(%7 : tensor<2x2xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32
    } -> tensor<2x2xf32>
    %9 = tensor.empty() : tensor<2x2x64xbf16>
    %10 = linalg.generic {indexing_maps = [#hij, #hi, #hij], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%6, %8 : tensor<2x2x64xf32>, tensor<2x2xf32>) outs(%9 : tensor<2x2x64xbf16>) {
    ^bb0(%a: f32, %b: f32, %o: bf16):
      %d = arith.divf %a, %b : f32
      %w = arith.truncf %d : f32 to bf16
      linalg.yield %w : bf16
    } -> tensor<2x2x64xbf16>
    %11 = tensor.empty() : tensor<2x2x16xf32>
    %12 = linalg.fill ins(%zero : f32) outs(%11 : tensor<2x2x16xf32>) -> tensor<2x2x16xf32>
    %last = arith.constant 63 : index
    %13:2 = linalg.generic {indexing_maps = [#pw, #pv, #pe, #pe], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%10, %v : tensor<2x2x64xbf16>, tensor<2x64x16xbf16>) outs(%12, %to : tensor<2x2x16xf32>, tensor<2x2x16xbf16>) {
    ^bb0(%a: bf16, %b: bf16, %o: f32, %t: bf16):
      %x = arith.extf %a : bf16 to f32
      %y = arith.extf %b : bf16 to f32
      %z = arith.mulf %x, %y : f32
      %s = arith.addf %o, %z : f32
      %j = linalg.index 3 : index
      %c = arith.cmpi eq, %j, %last : index
      %n = arith.truncf %s : f32 to bf16
      %w = arith.select %c, %n, %t : bf16
      linalg.yield %s, %w : f32, bf16
    } -> (tensor<2x2x16xf32>, tensor<2x2x16xbf16>)
    return %13#1 : tensor<2x2x16xbf16>
  }
}
