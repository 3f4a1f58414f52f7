#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @main(%arg0: tensor<64x128xf32> {inferno.kind = "input", inferno.name = "tensors[0]"}, %arg1: tensor<128x256xf32> {inferno.kind = "input", inferno.name = "tensors[1]"}, %arg2: tensor<256x128xf32> {inferno.kind = "input", inferno.name = "tensors[2]"}) -> tensor<64x128xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<64x256xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<64x256xf32>) -> tensor<64x256xf32>
    %2 = linalg.matmul ins(%arg0, %arg1 : tensor<64x128xf32>, tensor<128x256xf32>) outs(%1 : tensor<64x256xf32>) -> tensor<64x256xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<64x256xf32>) outs(%0 : tensor<64x256xf32>) {
    ^bb0(%in: f32, %out: f32):
      %11 = arith.cmpf ugt, %in, %cst : f32
      %12 = arith.select %11, %in, %cst : f32
      linalg.yield %12 : f32
    } -> tensor<64x256xf32>
    %4 = tensor.empty() : tensor<64x128xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<64x128xf32>) -> tensor<64x128xf32>
    %6 = linalg.matmul ins(%3, %arg2 : tensor<64x256xf32>, tensor<256x128xf32>) outs(%5 : tensor<64x128xf32>) -> tensor<64x128xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<64x128xf32>) outs(%4 : tensor<64x128xf32>) {
    ^bb0(%in: f32, %out: f32):
      %11 = arith.cmpf ugt, %in, %cst : f32
      %12 = arith.select %11, %in, %cst : f32
      linalg.yield %12 : f32
    } -> tensor<64x128xf32>
    %8 = linalg.matmul ins(%7, %arg1 : tensor<64x128xf32>, tensor<128x256xf32>) outs(%1 : tensor<64x256xf32>) -> tensor<64x256xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<64x256xf32>) outs(%0 : tensor<64x256xf32>) {
    ^bb0(%in: f32, %out: f32):
      %11 = arith.cmpf ugt, %in, %cst : f32
      %12 = arith.select %11, %in, %cst : f32
      linalg.yield %12 : f32
    } -> tensor<64x256xf32>
    %10 = linalg.matmul ins(%9, %arg2 : tensor<64x256xf32>, tensor<256x128xf32>) outs(%5 : tensor<64x128xf32>) -> tensor<64x128xf32>
    return %10 : tensor<64x128xf32>
  }
}
