"""Pieces of a concatenation that follow each other in a tensor."""

from erased_handles import erased_kept

from inferno.mlir import ir, parse, walk
from inferno.schedule.passes.join_pieces import join_pieces

_TWICE = """
func.func private @kernel(%whole: tensor<4x8xf32>, %to: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %0 = tensor.extract_slice %whole[2, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %1 = tensor.extract_slice %whole[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %2 = tensor.expand_shape %0 [[0, 1]] output_shape [1, 8] : tensor<8xf32> into tensor<1x8xf32>
  %3 = tensor.expand_shape %1 [[0, 1]] output_shape [1, 8] : tensor<8xf32> into tensor<1x8xf32>
  %4 = tensor.concat dim(0) %2, %2, %3 : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
  %5 = linalg.copy ins(%4 : tensor<3x8xf32>) outs(%to : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %5 : tensor<3x8xf32>
}
"""


def test_a_view_that_is_a_piece_twice_is_erased_once():
    with erased_kept():
        module = parse(_TWICE)
        kernel = module.body.operations[0]
        slices = walk(kernel, "tensor.extract_slice")
        with module.context, ir.Location.unknown():
            join_pieces(kernel, {s.results[0]: (kernel.entry_block.arguments[0], n) for s, n in zip(slices, (2, 0))})
        assert module.operation.verify() and not walk(kernel, "tensor.expand_shape")
