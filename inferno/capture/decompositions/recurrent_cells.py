"""What ``nn.LSTMCell`` and ``nn.GRUCell`` are on a GPU: torch's fused kernels behind their two products.

What they keep for the backward operation lies as in those (ATen's RNN.cu): the four gates of an LSTM, of a GRU its three, the state, and the state's part
of the new one.
"""

import torch
from torch import Tensor

aten = torch.ops.aten


def lstm_cell(input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None) -> tuple:
    """The state, the cell's state and the gates."""
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    first, forget, new, out = gates.chunk(4, -1)
    first, forget, new, out = torch.sigmoid(first), torch.sigmoid(forget), torch.tanh(new), torch.sigmoid(out)
    cy = forget * cx + first * new
    return out * torch.tanh(cy), cy, torch.cat([first, forget, new, out], -1)


def lstm_cell_backward(grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool) -> tuple:
    """Gradients of the gates, of the cell's state and of the biases."""
    if grad_hy is None and grad_cy is None:
        return NotImplemented
    first, forget, new, out = workspace.chunk(4, -1)
    tanh = torch.tanh(cy)
    of_cell = torch.zeros_like(cx) if grad_cy is None else grad_cy
    of_out = torch.zeros_like(cx) if grad_hy is None else grad_hy * tanh
    if grad_hy is not None:
        of_cell = of_cell + grad_hy * out * (1 - tanh * tanh)
    parts = [
        of_cell * new * first * (1 - first), of_cell * cx * forget * (1 - forget), of_cell * first * (1 - new * new), of_out * out * (1 - out),
    ]
    gates = torch.cat(parts, -1)
    return gates, of_cell * forget, gates.sum(0) if has_bias else None


def gru_cell(input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None) -> tuple:
    """The state, and what its gradients need."""
    of_input, of_hidden = _biased(input_gates, input_bias).chunk(3, -1), _biased(hidden_gates, hidden_bias).chunk(3, -1)
    reset, update = (torch.sigmoid(a + b) for a, b in zip(of_input[:2], of_hidden[:2]))
    new = torch.tanh(of_input[2] + reset * of_hidden[2])
    return new + update * (hx - new), torch.cat([reset, update, new, hx, of_hidden[2]], -1)


def sized_gru_cell(
    x: Tensor, hx: Tensor, w_input: Tensor, w_hidden: Tensor, b_input: Tensor | None = None, b_hidden: Tensor | None = None,
) -> Tensor:
    """torch.gru_cell of a batch whose size varies, of which torch's fused kernel has no shape.  Not where autocast has the whole cell in fewer bits."""
    if all(type(n) is int for t in (x, hx) for n in t.shape) or (x.is_cuda and torch.is_autocast_enabled("cuda")):
        return NotImplemented
    return gru_cell(torch.nn.functional.linear(x, w_input), torch.nn.functional.linear(hx, w_hidden), hx, b_input, b_hidden)[0]


def gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> tuple:
    """Gradients of the gates that inputs make, of those that the state makes, of the state, and of both biases."""
    reset, update, new, hx, hidden = workspace.chunk(5, -1)
    of_new = grad_hy * (1 - update) * (1 - new * new)
    of_update, of_reset = grad_hy * (hx - new) * update * (1 - update), of_new * hidden * reset * (1 - reset)
    of_input, of_hidden = torch.cat([of_reset, of_update, of_new], -1), torch.cat([of_reset, of_update, of_new * reset], -1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, grad_hy * update, *biases


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


TABLE = {
    aten._thnn_fused_lstm_cell.default: lstm_cell, aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: gru_cell, aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
}
