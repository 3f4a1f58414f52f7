"""The gradients of a weight that is a direction times a length."""

import torch
from torch import Tensor

aten = torch.ops.aten


def weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """(of the direction ``v``, of the length ``g`` [1, ..., n, ..., 1]) by that of ``v * g / norms``, ``norms`` over all dimensions but ``dim``."""
    if not v.is_floating_point() or not v.dim():
        return NotImplemented
    wide = torch.float64 if v.dtype == torch.float64 else torch.float32
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    w, given, length, size = (t.to(wide) for t in (v, grad, g, norms))
    along = given * w
    along = along.sum(others, keepdim=True) if others else along
    size = size.reshape(along.shape)
    to_v = (length.reshape(along.shape) / size) * (given - w * (along / (size * size)))
    return to_v.to(v.dtype), (along / size).to(g.dtype).reshape(g.shape)


TABLE = {aten._weight_norm_interface_backward.default: weight_norm_backward}
