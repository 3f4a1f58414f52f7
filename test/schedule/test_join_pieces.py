"""Parts of a tensor that a concatenation reads, forwards or backwards, are the same elements where each is chosen by its place."""

import pytest
import torch

from inferno.mlir import idle_context, ir, walk
from inferno.schedule.assign import kernels
from inferno.schedule.passes.join_pieces import join_pieces
from inferno.tools.ir_program import IrProgram

STEPS = 6


def program(places: list[int | None]) -> str:
    """``@main`` that puts these steps of %x, and %y where there is None, one behind the other."""
    parts = "\n".join(
        f"%s{i} = tensor.extract_slice %x[{p}, 0, 0] [1, 2, 8] [1, 1, 1] : tensor<{STEPS}x2x8xf32> to tensor<2x8xf32>\n"
        f"%e{i} = tensor.expand_shape %s{i} [[0, 1], [2]] output_shape [1, 2, 8] : tensor<2x8xf32> into tensor<1x2x8xf32>"
        for i, p in enumerate(places) if p is not None
    )
    pieces, out = [f"%e{i}" if p is not None else "%y" for i, p in enumerate(places)], f"tensor<{len(places)}x2x8xf32>"
    types = f"tensor<{STEPS}x2x8xf32>, tensor<1x2x8xf32>"
    return f"""module {{
    func.func @main(%x: tensor<{STEPS}x2x8xf32>, %y: tensor<1x2x8xf32>) -> {out} {{
      %e = tensor.empty() : {out}
      %0 = call @concat(%x, %y, %e) : ({types}, {out}) -> {out}
      return %0 : {out}
    }}
    func.func private @concat(%x: tensor<{STEPS}x2x8xf32>, %y: tensor<1x2x8xf32>, %o: {out}) -> {out} {{
      {parts}
      %c = tensor.concat dim(0) {", ".join(pieces)} : ({", ".join(["tensor<1x2x8xf32>"] * len(places))}) -> {out}
      %0 = linalg.copy ins(%c : {out}) outs(%o : {out}) -> {out}
      return %0 : {out}
    }}
  }}"""


@pytest.mark.parametrize("places", [
    [0, 1, 2, 3, 4, 5, None], [None, 5, 4, 3, 2, 1, 0], [5, 4, 3, 2, 1, 0], [0, 1, None, 4, 3, 2, 5], [2, 2, None, 2, 1],
], ids=str)
def test_right(places, tmp_path):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(program(places))
        (kernel,) = kernels(module)
        join_pieces(kernel, {op.results[0]: (op.operands[0], places[i]) for i, op in zip(
            [n for n, p in enumerate(places) if p is not None], walk(kernel.operation, "tensor.extract_slice"))})
        module.operation.verify()
        assert not walk(module.operation, "tensor.concat", "tensor.extract_slice")
        text = str(module)
    x, y = torch.randn(STEPS, 2, 8), torch.randn(1, 2, 8)
    path = tmp_path / "joined.mlir"
    path.write_text(text)
    (made,) = IrProgram.read(path, target="cpu")(x, y)
    assert torch.equal(made, torch.cat([y if p is None else x[p:p + 1] for p in places]))
