// RUN: inferno-opt -p 'assign-schedules{target=sm_90a}' %s --split-input-file | FileCheck %s

#points = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Eight channels lie last in the image and first in what is made of it: a thread has all of them.
// CHECK: func.func private @corner({{.*}}across = 8 : i64{{.*}}generator = "elementwise"{{.*}}vector = 1 : i64
func.func private @corner(%x: tensor<8x128x128x8xf32>, %out: tensor<8x8x256x256xf32>) -> tensor<8x8x256x256xf32> {
  %two = arith.constant 2 : index
  %0 = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%out : tensor<8x8x256x256xf32>) {
  ^bb0(%old: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w = linalg.index 3 : index
    %y = arith.divui %h, %two : index
    %z = arith.divui %w, %two : index
    %v = tensor.extract %x[%n, %y, %z, %c] : tensor<8x128x128x8xf32>
    linalg.yield %v : f32
  } -> tensor<8x8x256x256xf32>
  return %0 : tensor<8x8x256x256xf32>
}

// -----

#points = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Not where the place of a point depends on the channel.
// CHECK: func.func private @shifted({{.*}}across = 1 : i64
func.func private @shifted(%x: tensor<8x136x128x8xf32>, %out: tensor<8x8x256x256xf32>) -> tensor<8x8x256x256xf32> {
  %two = arith.constant 2 : index
  %0 = linalg.generic {indexing_maps = [#points], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%out : tensor<8x8x256x256xf32>) {
  ^bb0(%old: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w = linalg.index 3 : index
    %y = arith.divui %h, %two : index
    %s = arith.addi %y, %c : index
    %z = arith.divui %w, %two : index
    %v = tensor.extract %x[%n, %s, %z, %c] : tensor<8x136x128x8xf32>
    linalg.yield %v : f32
  } -> tensor<8x8x256x256xf32>
  return %0 : tensor<8x8x256x256xf32>
}
