// What multiplies where a module asks for what is faster: cuBLASLt, and a kernel of ours behind it, for shapes whose tiles fill a GPU badly.

// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_90a}' | FileCheck %s
// RUN: inferno-opt %s --split-input-file -p 'assign-schedules{target=sm_80}' | FileCheck %s --check-prefix=OTHERS

// CHECK: module {
// CHECK: func.func private @few_tiles({{.*}}generator = "cublaslt"
// CHECK: func.func private @short({{.*}}generator = "wgmma"
// Lines of an odd number of elements: the library's kernels for those are slow.
// CHECK: func.func private @odd({{.*}}generator = "wgmma"
// OTHERS-NOT: generator = "cublaslt"
#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

module attributes {inferno.matmul = "auto"} {
func.func @main(%x: tensor<520x4096xbf16>, %w: tensor<4096x4096xbf16>, %a: tensor<1024x1024xbf16>, %b: tensor<1024x1024xbf16>,
                %c: tensor<512x768xbf16>, %d: tensor<50257x768xbf16>) -> (tensor<520x4096xbf16>, tensor<1024x1024xbf16>, tensor<512x50257xbf16>) {
  %e0 = tensor.empty() : tensor<520x4096xbf16>
  %0 = call @few_tiles(%x, %w, %e0) : (tensor<520x4096xbf16>, tensor<4096x4096xbf16>, tensor<520x4096xbf16>) -> tensor<520x4096xbf16>
  %e1 = tensor.empty() : tensor<1024x1024xbf16>
  %1 = call @short(%a, %b, %e1) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  %e2 = tensor.empty() : tensor<512x50257xbf16>
  %2 = call @odd(%c, %d, %e2) : (tensor<512x768xbf16>, tensor<50257x768xbf16>, tensor<512x50257xbf16>) -> tensor<512x50257xbf16>
  return %0, %1, %2 : tensor<520x4096xbf16>, tensor<1024x1024xbf16>, tensor<512x50257xbf16>
}
func.func private @few_tiles(%x: tensor<520x4096xbf16>, %w: tensor<4096x4096xbf16>, %out: tensor<520x4096xbf16>) -> tensor<520x4096xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<520x4096xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<520x4096xf32>) -> tensor<520x4096xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<520x4096xbf16>, tensor<4096x4096xbf16>) outs(%start : tensor<520x4096xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<520x4096xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<520x4096xf32>) outs(%out : tensor<520x4096xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %2 = math.tanh %v : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<520x4096xbf16>
  return %1 : tensor<520x4096xbf16>
}
func.func private @short(%x: tensor<1024x1024xbf16>, %w: tensor<1024x1024xbf16>, %out: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1024x1024xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) outs(%start : tensor<1024x1024xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<1024x1024xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<1024x1024xf32>) outs(%out : tensor<1024x1024xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %2 = math.tanh %v : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<1024x1024xbf16>
  return %1 : tensor<1024x1024xbf16>
}
func.func private @odd(%x: tensor<512x768xbf16>, %w: tensor<50257x768xbf16>, %out: tensor<512x50257xbf16>) -> tensor<512x50257xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x50257xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<512x50257xf32>) -> tensor<512x50257xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<512x768xbf16>, tensor<50257x768xbf16>) outs(%start : tensor<512x50257xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<512x50257xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<512x50257xf32>) outs(%out : tensor<512x50257xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %3 = arith.truncf %v : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<512x50257xbf16>
  return %1 : tensor<512x50257xbf16>
}
}

// -----

// Two of one tensor may become one launch, so they stay ours.

// CHECK: func.func private @first({{.*}}generator = "wgmma"
#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

module attributes {inferno.matmul = "auto"} {
func.func @main(%x: tensor<520x4096xbf16>, %w: tensor<4096x4096xbf16>, %v: tensor<4096x4096xbf16>) -> (tensor<520x4096xbf16>, tensor<520x4096xbf16>) {
  %e0 = tensor.empty() : tensor<520x4096xbf16>
  %0 = call @first(%x, %w, %e0) : (tensor<520x4096xbf16>, tensor<4096x4096xbf16>, tensor<520x4096xbf16>) -> tensor<520x4096xbf16>
  %e1 = tensor.empty() : tensor<520x4096xbf16>
  %1 = call @first(%x, %v, %e1) : (tensor<520x4096xbf16>, tensor<4096x4096xbf16>, tensor<520x4096xbf16>) -> tensor<520x4096xbf16>
  return %0, %1 : tensor<520x4096xbf16>, tensor<520x4096xbf16>
}
func.func private @first(%x: tensor<520x4096xbf16>, %w: tensor<4096x4096xbf16>, %out: tensor<520x4096xbf16>) -> tensor<520x4096xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<520x4096xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<520x4096xf32>) -> tensor<520x4096xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<520x4096xbf16>, tensor<4096x4096xbf16>) outs(%start : tensor<520x4096xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<520x4096xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<520x4096xf32>) outs(%out : tensor<520x4096xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %2 = math.tanh %v : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<520x4096xbf16>
  return %1 : tensor<520x4096xbf16>
}
}

// -----

// Nobody says that there is a library.

// CHECK: func.func private @unasked({{.*}}generator = "wgmma"
#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
#p = affine_map<(d0, d1) -> (d0, d1)>

func.func @main(%x: tensor<520x4096xbf16>, %w: tensor<4096x4096xbf16>) -> tensor<520x4096xbf16> {
  %e0 = tensor.empty() : tensor<520x4096xbf16>
  %0 = call @unasked(%x, %w, %e0) : (tensor<520x4096xbf16>, tensor<4096x4096xbf16>, tensor<520x4096xbf16>) -> tensor<520x4096xbf16>
  return %0 : tensor<520x4096xbf16>
}
func.func private @unasked(%x: tensor<520x4096xbf16>, %w: tensor<4096x4096xbf16>, %out: tensor<520x4096xbf16>) -> tensor<520x4096xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<520x4096xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<520x4096xf32>) -> tensor<520x4096xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<520x4096xbf16>, tensor<4096x4096xbf16>) outs(%start : tensor<520x4096xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<520x4096xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<520x4096xf32>) outs(%out : tensor<520x4096xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %2 = math.tanh %v : f32
    %3 = arith.truncf %2 : f32 to bf16
    linalg.yield %3 : bf16
  } -> tensor<520x4096xbf16>
  return %1 : tensor<520x4096xbf16>
}

// -----

// Batches of long sums are the library's where its estimate is lower; of short ones it does not hide the ends of tiles.
// CHECK: module {
// CHECK: func.func private @batches({{.*}}generator = "cublaslt"
// CHECK: func.func private @short_sums({{.*}}generator = "wgmma"
#x = affine_map<(b, m, n, k) -> (b, m, k)>
#w = affine_map<(b, m, n, k) -> (b, k, n)>
#y = affine_map<(b, m, n, k) -> (b, m, n)>
#p = affine_map<(b, m, n) -> (b, m, n)>

module attributes {inferno.matmul = "auto"} {
func.func @main(%x: tensor<48x192x1024xbf16>, %w: tensor<48x1024x320xbf16>, %a: tensor<12x1536x384xbf16>, %b: tensor<12x384x640xbf16>) -> (tensor<48x192x320xbf16>, tensor<12x1536x640xbf16>) {
  %e0 = tensor.empty() : tensor<48x192x320xbf16>
  %0 = call @batches(%x, %w, %e0) : (tensor<48x192x1024xbf16>, tensor<48x1024x320xbf16>, tensor<48x192x320xbf16>) -> tensor<48x192x320xbf16>
  %e1 = tensor.empty() : tensor<12x1536x640xbf16>
  %1 = call @short_sums(%a, %b, %e1) : (tensor<12x1536x384xbf16>, tensor<12x384x640xbf16>, tensor<12x1536x640xbf16>) -> tensor<12x1536x640xbf16>
  return %0, %1 : tensor<48x192x320xbf16>, tensor<12x1536x640xbf16>
}
func.func private @batches(%x: tensor<48x192x1024xbf16>, %w: tensor<48x1024x320xbf16>, %out: tensor<48x192x320xbf16>) -> tensor<48x192x320xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x192x320xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<48x192x320xf32>) -> tensor<48x192x320xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<48x192x1024xbf16>, tensor<48x1024x320xbf16>) outs(%start : tensor<48x192x320xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<48x192x320xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<48x192x320xf32>) outs(%out : tensor<48x192x320xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %2 = arith.truncf %v : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<48x192x320xbf16>
  return %1 : tensor<48x192x320xbf16>
}
func.func private @short_sums(%x: tensor<12x1536x384xbf16>, %w: tensor<12x384x640xbf16>, %out: tensor<12x1536x640xbf16>) -> tensor<12x1536x640xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x1536x640xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<12x1536x640xf32>) -> tensor<12x1536x640xf32>
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<12x1536x384xbf16>, tensor<12x384x640xbf16>) outs(%start : tensor<12x1536x640xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %b : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<12x1536x640xf32>
  %1 = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<12x1536x640xf32>) outs(%out : tensor<12x1536x640xbf16>) {
  ^bb0(%v: f32, %old: bf16):
    %2 = arith.truncf %v : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<12x1536x640xbf16>
  return %1 : tensor<12x1536x640xbf16>
}
}
