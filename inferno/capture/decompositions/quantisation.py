"""Fake quantisation: numbers are rounded to the steps of a quantised type, with a scale for each channel, as quantisation-aware training does."""

import torch
from torch import Tensor

from inferno.capture.dimensions import as_dimension

aten = torch.ops.aten


def per_channel(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    """(the nearest steps of ``x``, which of them are not cut to the range); a zero point that is a float moves a number before it is rounded."""
    if not x.is_floating_point() or not x.dim():
        return NotImplemented
    axis %= x.dim()
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    step, zero = (as_dimension(t, axis, x.dim()) for t in (scale.to(torch.float32), zero_point.to(torch.float32)))
    steps = x.to(wide) * (1.0 / step)
    places = torch.round(steps + zero) if zero_point.is_floating_point() else torch.round(steps) + zero
    found = (places.clamp(quant_min, quant_max) - zero) * step
    return found.to(x.dtype), (places >= quant_min) & (places <= quant_max)


TABLE = {aten.fake_quantize_per_channel_affine_cachemask.default: per_channel}
