"""Fused cells of a GPU, taken apart: as torch's own formulas, whose gradients are autograd's."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch import nn

from inferno.capture.decompositions.recurrent_cells import gru_cell, gru_cell_backward, lstm_cell, lstm_cell_backward, sized_gru_cell


def _gates(layer, x, h):
    biases = (layer.bias_ih, layer.bias_hh) if layer.bias else ()
    return x @ layer.weight_ih.t(), h @ layer.weight_hh.t(), biases


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True)])
def test_lstm(bias, given):
    layer, x = nn.LSTMCell(5, 7, bias=bias).double(), torch.randn(3, 5).double()
    h, c = (torch.randn(3, 7).double().requires_grad_() for _ in range(2))
    ours, theirs, biases = _gates(layer, x, h)
    ours = ours.detach().requires_grad_()
    hy, cy, workspace = lstm_cell(ours, theirs, c, *biases)
    torch.testing.assert_close((hy, cy), layer(x, (h, c)))
    grads = [torch.randn(3, 7).double() if g else None for g in given]
    wanted = torch.autograd.grad([v for v, g in zip((hy, cy), given) if g], [ours, c, *biases[:1]], [g for g in grads if g is not None])
    with torch.no_grad():
        of_gates, of_cell, of_bias = lstm_cell_backward(*grads, c, cy, workspace, bias)
    torch.testing.assert_close((of_gates, of_cell, *([of_bias] if bias else [])), wanted)
    assert bias or of_bias is None


@pytest.mark.parametrize("bias", [True, False])
def test_gru(bias):
    layer, x, h = nn.GRUCell(5, 7, bias=bias).double(), torch.randn(3, 5).double(), torch.randn(3, 7).double().requires_grad_()
    ours, theirs, biases = _gates(layer, x, h)
    ours, theirs = ours.detach().requires_grad_(), theirs.detach().requires_grad_()
    hy, workspace = gru_cell(ours, theirs, h, *biases)
    torch.testing.assert_close(hy, layer(x, h))
    grad = torch.randn(3, 7).double()
    wanted = torch.autograd.grad(hy, [ours, theirs, h, *biases], grad)
    with torch.no_grad():
        found = gru_cell_backward(grad, workspace, bias)
    torch.testing.assert_close(tuple(v for v in found if v is not None), wanted)


def test_autocast_takes_the_whole_cell_of_a_batch_that_varies():
    """On a GPU, where the state that comes of it has as few bits as the products."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        batch = mode.shape_env.create_unbacked_symint()
        args = [torch.empty(s, device="cuda") for s in ((batch, 8), (batch, 12), (36, 8), (36, 12))]
        assert sized_gru_cell(*args).dtype == torch.float32
        before = torch.is_autocast_enabled("cuda")
        torch.set_autocast_enabled("cuda", True)
        try:
            assert sized_gru_cell(*args) is NotImplemented
        finally:
            torch.set_autocast_enabled("cuda", before)
