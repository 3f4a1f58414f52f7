// RUN: inferno-opt %s -p 'assign-schedules{target=sm_90a},merge-siblings{target=sm_90a}' --split-input-file | FileCheck %s

// Queries, keys and values read one tensor.  What is done with the queries comes behind the one call; the keys' shape is another view of it.  The
// function has a body for each, the destinations in the same order; keys and values are one kernel no more than they were.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x1024xbf16>, %[[Q:[a-z0-9]+]]: tensor<1024x1024xbf16>, %[[K:[a-z0-9]+]]: tensor<256x1024xbf16>, %[[V:[a-z0-9]+]]: tensor<256x1024xbf16>
// CHECK: %[[E:.*]] = tensor.empty() : tensor<16x1024xbf16>
// CHECK: %[[F:.*]] = tensor.empty() : tensor<16x256xbf16>
// CHECK: %[[G:.*]] = tensor.empty() : tensor<16x256xbf16>
// CHECK: %[[R:.*]]:3 = call @mm_siblings(%[[X]], %[[Q]], %[[K]], %[[V]], %[[E]], %[[F]], %[[G]]) {inferno.source = ["q", "k", "v"]}
// CHECK: call @relu(%[[R]]#0
// CHECK: tensor.expand_shape %[[R]]#1
// CHECK: return {{.*}}, {{.*}}, %[[R]]#2
// CHECK: func.func private @mm_siblings(
// CHECK-SAME: inferno.schedule = {apart = {{[0-9]+}} : i64, blocks = "{{[0-9]+ [0-9]+ [0-9]+}}", each = {{{.*}}generator = "wgmma"{{.*}}}, generator = "siblings", together = {{[0-9]+}} : i64}
// CHECK-COUNT-3: arith.mulf
// CHECK: return %{{.*}}#1, %{{.*}}#1, %{{.*}}#1 :
// CHECK-NOT: func.func private @mm(
// CHECK-NOT: func.func private @mm_1(
// CHECK: func.func private @relu(
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<16x1024xbf16>, %q: tensor<1024x1024xbf16>, %k: tensor<256x1024xbf16>, %v: tensor<256x1024xbf16>) -> (tensor<16x1024xbf16>, tensor<16x4x64xbf16>, tensor<16x256xbf16>) {
  %ea = tensor.empty() : tensor<16x1024xbf16>
  %a = call @mm(%x, %q, %ea) {inferno.source = ["q"]} : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %er = tensor.empty() : tensor<16x1024xbf16>
  %r = call @relu(%a, %er) : (tensor<16x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %eb = tensor.empty() : tensor<16x256xbf16>
  %b = call @mm_1(%x, %k, %eb) {inferno.source = ["k"]} : (tensor<16x1024xbf16>, tensor<256x1024xbf16>, tensor<16x256xbf16>) -> tensor<16x256xbf16>
  %heads = tensor.expand_shape %b [[0], [1, 2]] output_shape [16, 4, 64] : tensor<16x256xbf16> into tensor<16x4x64xbf16>
  %ec = tensor.empty() : tensor<16x256xbf16>
  %c = call @mm_1(%x, %v, %ec) {inferno.source = ["v"]} : (tensor<16x1024xbf16>, tensor<256x1024xbf16>, tensor<16x256xbf16>) -> tensor<16x256xbf16>
  return %r, %heads, %c : tensor<16x1024xbf16>, tensor<16x4x64xbf16>, tensor<16x256xbf16>
}
func.func private @mm(%x: tensor<16x1024xbf16>, %w: tensor<1024x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x1024xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x1024xbf16>, tensor<1024x1024xbf16>) outs(%s, %to : tensor<16x1024xf32>, tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<16x1024xf32>, tensor<16x1024xbf16>)
  return %r#1 : tensor<16x1024xbf16>
}
func.func private @mm_1(%x: tensor<16x1024xbf16>, %w: tensor<256x1024xbf16>, %to: tensor<16x256xbf16>) -> tensor<16x256xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x256xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<16x256xf32>) -> tensor<16x256xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x1024xbf16>, tensor<256x1024xbf16>) outs(%s, %to : tensor<16x256xf32>, tensor<16x256xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<16x256xf32>, tensor<16x256xbf16>)
  return %r#1 : tensor<16x256xbf16>
}
func.func private @relu(%x: tensor<16x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %r = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x1024xbf16>) outs(%to : tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %y = arith.mulf %a, %a : bf16
    linalg.yield %y : bf16
  } -> tensor<16x1024xbf16>
  return %r : tensor<16x1024xbf16>
}
}

// -----

// The second one waits for the first, by what is between: two calls.  The third and the fourth wait for nobody but what their operands are
// made by, in front of which they cannot come.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x1024xbf16>, %[[Q:[a-z0-9]+]]: tensor<1024x1024xbf16>, %[[V:[a-z0-9]+]]: tensor<1024x1024xbf16>
// CHECK: %[[A:.*]] = call @mm(%[[X]], %[[Q]]
// CHECK: %[[R:.*]] = call @relu(%[[A]]
// CHECK: %[[B:.*]] = call @mm(%[[R]], %[[Q]]
// CHECK: %[[S:.*]] = call @relu(%[[B]]
// CHECK: %[[C:.*]]:2 = call @mm_siblings(%[[S]], %[[Q]], %[[V]]
// CHECK: call @relu(%[[C]]#1
// CHECK: call @relu(%[[C]]#0
// CHECK-NOT: func.func private @mm_siblings_1
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<16x1024xbf16>, %q: tensor<1024x1024xbf16>, %v: tensor<1024x1024xbf16>) -> (tensor<16x1024xbf16>, tensor<16x1024xbf16>) {
  %ea = tensor.empty() : tensor<16x1024xbf16>
  %a = call @mm(%x, %q, %ea) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %er = tensor.empty() : tensor<16x1024xbf16>
  %r = call @relu(%a, %er) : (tensor<16x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %eb = tensor.empty() : tensor<16x1024xbf16>
  %b = call @mm(%r, %q, %eb) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %es = tensor.empty() : tensor<16x1024xbf16>
  %s = call @relu(%b, %es) : (tensor<16x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %ec = tensor.empty() : tensor<16x1024xbf16>
  %c = call @mm(%s, %q, %ec) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %ed = tensor.empty() : tensor<16x1024xbf16>
  %d = call @mm(%s, %v, %ed) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %ef = tensor.empty() : tensor<16x1024xbf16>
  %f = call @relu(%d, %ef) : (tensor<16x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %eg = tensor.empty() : tensor<16x1024xbf16>
  %g = call @relu(%c, %eg) : (tensor<16x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  return %f, %g : tensor<16x1024xbf16>, tensor<16x1024xbf16>
}
func.func private @mm(%x: tensor<16x1024xbf16>, %w: tensor<1024x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x1024xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x1024xbf16>, tensor<1024x1024xbf16>) outs(%s, %to : tensor<16x1024xf32>, tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<16x1024xf32>, tensor<16x1024xbf16>)
  return %r#1 : tensor<16x1024xbf16>
}
func.func private @relu(%x: tensor<16x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %r = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x1024xbf16>) outs(%to : tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %y = arith.mulf %a, %a : bf16
    linalg.yield %y : bf16
  } -> tensor<16x1024xbf16>
  return %r : tensor<16x1024xbf16>
}
}

// -----

// Layers that are equal have one function.  The first one's call takes the place of the last operand: the second weight is made before it.
// CHECK-LABEL: func.func @main
// CHECK: call @relu_1(
// CHECK: %[[A:.*]]:2 = call @mm_siblings(
// CHECK: %[[B:.*]] = call @relu(%[[A]]#0
// CHECK: call @mm_siblings(%[[B]]
// CHECK: return
// CHECK-COUNT-1: func.func private @mm_siblings
// CHECK-NOT: func.func private @mm_siblings
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<16x1024xbf16>, %q: tensor<1024x1024xbf16>, %u: tensor<1024x1024xbf16>, %y: tensor<16x1024xbf16>) -> (tensor<16x1024xbf16>, tensor<16x1024xbf16>, tensor<16x1024xbf16>) {
  %ea = tensor.empty() : tensor<16x1024xbf16>
  %a = call @mm(%x, %q, %ea) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %ev = tensor.empty() : tensor<1024x1024xbf16>
  %v = call @relu_1(%u, %ev) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  %eb = tensor.empty() : tensor<16x1024xbf16>
  %b = call @mm(%x, %v, %eb) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %er = tensor.empty() : tensor<16x1024xbf16>
  %r = call @relu(%a, %er) : (tensor<16x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %ec = tensor.empty() : tensor<16x1024xbf16>
  %c = call @mm(%r, %q, %ec) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %ed = tensor.empty() : tensor<16x1024xbf16>
  %d = call @mm(%r, %u, %ed) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  return %b, %c, %d : tensor<16x1024xbf16>, tensor<16x1024xbf16>, tensor<16x1024xbf16>
}
func.func private @mm(%x: tensor<16x1024xbf16>, %w: tensor<1024x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x1024xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x1024xbf16>, tensor<1024x1024xbf16>) outs(%s, %to : tensor<16x1024xf32>, tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<16x1024xf32>, tensor<16x1024xbf16>)
  return %r#1 : tensor<16x1024xbf16>
}
func.func private @relu(%x: tensor<16x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %r = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x1024xbf16>) outs(%to : tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %y = arith.mulf %a, %a : bf16
    linalg.yield %y : bf16
  } -> tensor<16x1024xbf16>
  return %r : tensor<16x1024xbf16>
}
func.func private @relu_1(%x: tensor<1024x1024xbf16>, %to: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
  %r = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x1024xbf16>) outs(%to : tensor<1024x1024xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %y = arith.mulf %a, %a : bf16
    linalg.yield %y : bf16
  } -> tensor<1024x1024xbf16>
  return %r : tensor<1024x1024xbf16>
}
}

// -----

// Somebody reads the first one's result before the second one's weight is there.
// CHECK-LABEL: func.func @main
// CHECK: call @mm(
// CHECK: call @relu(
// CHECK: call @mm(
// CHECK-NOT: siblings
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<1024x1024xbf16>, %q: tensor<1024x1024xbf16>) -> (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) {
  %ea = tensor.empty() : tensor<1024x1024xbf16>
  %a = call @mm(%x, %q, %ea) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  %er = tensor.empty() : tensor<1024x1024xbf16>
  %r = call @relu(%a, %er) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  %eb = tensor.empty() : tensor<1024x1024xbf16>
  %b = call @mm(%x, %r, %eb) : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
  return %a, %b : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>
}
func.func private @mm(%x: tensor<1024x1024xbf16>, %w: tensor<1024x1024xbf16>, %to: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1024x1024xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) outs(%s, %to : tensor<1024x1024xf32>, tensor<1024x1024xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<1024x1024xf32>, tensor<1024x1024xbf16>)
  return %r#1 : tensor<1024x1024xbf16>
}
func.func private @relu(%x: tensor<1024x1024xbf16>, %to: tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16> {
  %r = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x1024xbf16>) outs(%to : tensor<1024x1024xbf16>) {
  ^bb0(%a: bf16, %old: bf16):
    %y = arith.mulf %a, %a : bf16
    linalg.yield %y : bf16
  } -> tensor<1024x1024xbf16>
  return %r : tensor<1024x1024xbf16>
}
}

// -----

// It was not asked for.
// CHECK-LABEL: func.func @main
// CHECK: call @mm(
// CHECK: call @mm(
// CHECK-NOT: siblings
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module {
func.func @main(%x: tensor<16x1024xbf16>, %q: tensor<1024x1024xbf16>, %v: tensor<1024x1024xbf16>) -> (tensor<16x1024xbf16>, tensor<16x1024xbf16>) {
  %ea = tensor.empty() : tensor<16x1024xbf16>
  %a = call @mm(%x, %q, %ea) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %eb = tensor.empty() : tensor<16x1024xbf16>
  %b = call @mm(%x, %v, %eb) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  return %a, %b : tensor<16x1024xbf16>, tensor<16x1024xbf16>
}
func.func private @mm(%x: tensor<16x1024xbf16>, %w: tensor<1024x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x1024xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x1024xbf16>, tensor<1024x1024xbf16>) outs(%s, %to : tensor<16x1024xf32>, tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<16x1024xf32>, tensor<16x1024xbf16>)
  return %r#1 : tensor<16x1024xbf16>
}
}

// -----

// The second one reads what the first one makes; they share the weight.
// CHECK-LABEL: func.func @main
// CHECK: call @mm(
// CHECK: call @mm(
// CHECK-NOT: siblings
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<16x1024xbf16>, %q: tensor<1024x1024xbf16>, %v: tensor<1024x1024xbf16>) -> (tensor<16x1024xbf16>, tensor<16x1024xbf16>) {
  %ea = tensor.empty() : tensor<16x1024xbf16>
  %a = call @mm(%x, %q, %ea) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  %eb = tensor.empty() : tensor<16x1024xbf16>
  %b = call @mm(%a, %q, %eb) : (tensor<16x1024xbf16>, tensor<1024x1024xbf16>, tensor<16x1024xbf16>) -> tensor<16x1024xbf16>
  return %a, %b : tensor<16x1024xbf16>, tensor<16x1024xbf16>
}
func.func private @mm(%x: tensor<16x1024xbf16>, %w: tensor<1024x1024xbf16>, %to: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %last = arith.constant 1023 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x1024xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<16x1024xbf16>, tensor<1024x1024xbf16>) outs(%s, %to : tensor<16x1024xf32>, tensor<16x1024xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<16x1024xf32>, tensor<16x1024xbf16>)
  return %r#1 : tensor<16x1024xbf16>
}
}

// -----

// It would not pay: each of them keeps all multiprocessors busy to the end.
// CHECK-LABEL: func.func @main
// CHECK: call @mm(
// CHECK: call @mm(
// CHECK-NOT: siblings
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<8192x8192xbf16>, %q: tensor<8448x8192xbf16>, %v: tensor<8448x8192xbf16>) -> (tensor<8192x8448xbf16>, tensor<8192x8448xbf16>) {
  %ea = tensor.empty() : tensor<8192x8448xbf16>
  %a = call @mm(%x, %q, %ea) : (tensor<8192x8192xbf16>, tensor<8448x8192xbf16>, tensor<8192x8448xbf16>) -> tensor<8192x8448xbf16>
  %eb = tensor.empty() : tensor<8192x8448xbf16>
  %b = call @mm(%x, %v, %eb) : (tensor<8192x8192xbf16>, tensor<8448x8192xbf16>, tensor<8192x8448xbf16>) -> tensor<8192x8448xbf16>
  return %a, %b : tensor<8192x8448xbf16>, tensor<8192x8448xbf16>
}
func.func private @mm(%x: tensor<8192x8192xbf16>, %w: tensor<8448x8192xbf16>, %to: tensor<8192x8448xbf16>) -> tensor<8192x8448xbf16> {
  %last = arith.constant 8191 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8192x8448xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<8192x8448xf32>) -> tensor<8192x8448xf32>
  %r:2 = linalg.generic {indexing_maps = [#x, #w, #o, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8192x8192xbf16>, tensor<8448x8192xbf16>) outs(%s, %to : tensor<8192x8448xf32>, tensor<8192x8448xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32, %old: bf16):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %sum, %m : f32
    %i = linalg.index 2 : index
    %end = arith.cmpi eq, %i, %last : index
    %t = arith.truncf %n : f32 to bf16
    %y = arith.select %end, %t, %old : bf16
    linalg.yield %n, %y : f32, bf16
  } -> (tensor<8192x8448xf32>, tensor<8192x8448xbf16>)
  return %r#1 : tensor<8192x8448xbf16>
}
}

// -----

// Weights that have been split are arguments of the one function too, which says of which they are made.
// CHECK-LABEL: func.func @main
// CHECK: call @mm_siblings(%arg0, %arg1, %arg2, %arg3, %arg4, %
// CHECK: func.func private @mm_siblings(
// CHECK-SAME: tensor<3x768x768xbf16> {inferno.parts = 1 : i64}, %arg3: tensor<256x768xf32>, %arg4: tensor<3x256x768xbf16> {inferno.parts = 3 : i64}, %arg5
// CHECK-SAME: each = {{{.*}}generator = "presplit"
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#o = affine_map<(m, n, k) -> (m, n)>
module attributes {inferno.siblings} {
func.func @main(%x: tensor<512x768xf32>, %w: tensor<768x768xf32>, %p: tensor<3x768x768xbf16>, %v: tensor<256x768xf32>, %q: tensor<3x256x768xbf16>) -> (tensor<512x768xf32>, tensor<512x256xf32>) {
  %e = tensor.empty() : tensor<512x768xf32>
  %a = call @mm(%x, %w, %p, %e) : (tensor<512x768xf32>, tensor<768x768xf32>, tensor<3x768x768xbf16>, tensor<512x768xf32>) -> tensor<512x768xf32>
  %f = tensor.empty() : tensor<512x256xf32>
  %b = call @mm_1(%x, %v, %q, %f) : (tensor<512x768xf32>, tensor<256x768xf32>, tensor<3x256x768xbf16>, tensor<512x256xf32>) -> tensor<512x256xf32>
  return %a, %b : tensor<512x768xf32>, tensor<512x256xf32>
}
func.func private @mm(%x: tensor<512x768xf32>, %w: tensor<768x768xf32>, %parts: tensor<3x768x768xbf16> {inferno.parts = 1 : i64}, %to: tensor<512x768xf32>) -> tensor<512x768xf32>
    attributes {inferno.schedule = {generator = "presplit"}} {
  %zero = arith.constant 0.0 : f32
  %s = linalg.fill ins(%zero : f32) outs(%to : tensor<512x768xf32>) -> tensor<512x768xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<512x768xf32>, tensor<768x768xf32>) outs(%s : tensor<512x768xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.mulf %a, %b : f32
    %n = arith.addf %sum, %p : f32
    linalg.yield %n : f32
  } -> tensor<512x768xf32>
  return %r : tensor<512x768xf32>
}
func.func private @mm_1(%x: tensor<512x768xf32>, %w: tensor<256x768xf32>, %parts: tensor<3x256x768xbf16> {inferno.parts = 1 : i64}, %to: tensor<512x256xf32>) -> tensor<512x256xf32>
    attributes {inferno.schedule = {generator = "presplit"}} {
  %zero = arith.constant 0.0 : f32
  %s = linalg.fill ins(%zero : f32) outs(%to : tensor<512x256xf32>) -> tensor<512x256xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<512x768xf32>, tensor<256x768xf32>) outs(%s : tensor<512x256xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.mulf %a, %b : f32
    %n = arith.addf %sum, %p : f32
    linalg.yield %n : f32
  } -> tensor<512x256xf32>
  return %r : tensor<512x256xf32>
}
}
