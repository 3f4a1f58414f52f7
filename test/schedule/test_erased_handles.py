"""No pass reads an operation that it, or a pass before, has erased: programs of which passes keep operations and values while they replace others."""

import pytest
import torch
from erased_handles import StaleError, erased_kept
from models import Block, Convolutions
from torch import nn, zeros

from inferno.capture import capture
from inferno.mlir import parse
from inferno.runtime.workers import jobs

_TEXT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %x : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_a_read_of_what_was_erased_is_an_error():
    with erased_kept():
        module = parse(_TEXT)
        first, second, _ = module.body.operations[0].entry_block.operations
        kept, value = second.operation.operands[0].owner, second.operation.results[0]
        second.operation.erase()
        for read in (
            lambda: value.owner, lambda: list(value.uses), lambda: second.operation.name, lambda: second.operands, lambda: str(value),
            lambda: hash(second), lambda: second.operation in {first.operation},
        ):
            with pytest.raises(StaleError, match=r"math\.exp is read, which was erased"):
                read()
        with pytest.raises(StaleError, match=r"math\.exp is read, which was erased"):
            first.operation.operands[0] = value
        assert kept == first.operation and [u.owner.name for u in first.operation.results[0].uses] == ["func.return"]
    assert first.operation.name == "math.exp"


class Recurrent(nn.Module):
    """Steps whose states are put together, one of them twice."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)

    def forward(self, x, h):
        states = []
        for step in x:
            h = torch.tanh(step + self.inner(h))
            states.append(h)
        return torch.stack([states[0], *states])


class QueryGradients(nn.Module):
    """Attention's gradient of its queries alone: the scores' gradients are a product that looks like scores, too, and is in their kernel."""

    def forward(self, queries, keys, values, gradients, sums, totals):
        weights = torch.exp((queries @ keys.mT * 0.125).float() - sums).to(queries.dtype)
        return weights * (gradients @ values.mT - totals) * 0.125 @ keys


_HEADS = zeros(2, 8, 512, 64, dtype=torch.bfloat16)


@pytest.mark.covering
@pytest.mark.parametrize(("model", "inputs"), [
    (Block(), [zeros(2, 24, 16)]), (Convolutions().eval(), [zeros(2, 3, 16, 16)]), (Recurrent(), [zeros(6, 32, 64), zeros(32, 64)]),
    (QueryGradients(), [*[_HEADS] * 4, zeros(2, 8, 512, 1), zeros(2, 8, 512, 1, dtype=torch.bfloat16)]),
], ids=["block", "convolutions", "recurrent", "query gradients"])
def test_passes_read_nothing_that_was_erased(model, inputs):
    with torch.no_grad():
        text = capture(model, tuple(inputs)).text
    with erased_kept():
        linalg, _ = jobs.lower_to_linalg(text)
        jobs.fuse(linalg, "sm_90a")
